"""Decoding of requests, and which new sessions a service admits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import hpcosim_protocol as protocol
from hpcosim_server.errors import SessionRefused
from hpcosim_server.service.countdown import Countdown
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.memory import available_bytes, used_bytes
from hpcosim_server.service.session import Opened
from hpcosim_server.service.sessions import OpenSessions, Part, Totals

SessionFactory = Callable[[protocol.Hello], Opened]

JOBS = "workload.synthetic.jobs"
"""Override by which a client chooses a number of jobs."""
MIB = 2**20


@dataclass(slots=True)
class Admission:
    """Refuses new sessions for which there is no room."""

    limits: Limits
    sessions: OpenSessions
    left: Countdown
    new_session: SessionFactory
    totals: Totals = field(default_factory=Totals)
    available: Callable[[], float] = available_bytes
    used: Callable[[], float] = used_bytes

    def open(self, hello: protocol.Hello) -> Opened:
        """Return the simulation of a new session.

        Raises:
            SessionRefused: there is no room, or the hello is invalid.
        """
        self._check(hello)
        if not self.left.take():
            what = "the server has opened all the sessions it was started for"
            raise SessionRefused("too_many_sessions", what)
        try:
            opened = self.new_session(hello)
            with self.totals.decision():
                self._check_sessions()
                self._check_jobs(opened.jobs)
                self.totals.state(Part.SESSIONS, len(self.sessions) + 1)
                self.totals.state(Part.JOBS, self.sessions.jobs + opened.jobs)
        except BaseException:
            self.left.put_back()
            raise
        self.note_memory()
        return opened

    def put_back(self) -> None:
        """Take back an admission: its session was not opened."""
        self.left.put_back()
        self.sessions.state()

    def note_memory(self) -> int:
        """Measure the memory of this process, and state it for the others; return it, bytes."""
        used = int(self.used()) if self.limits.memory_bytes else 0
        self.totals.state(Part.MEMORY_BYTES, used)
        return used

    def _check(self, hello: protocol.Hello) -> None:
        """Check what is known before the scenario is loaded."""
        limits = self.limits
        self._check_sessions()
        jobs = hello.overrides.get(JOBS, 1)
        if isinstance(jobs, int) and jobs <= limits.jobs:  # otherwise it is an invalid override
            self._check_jobs(jobs)
        available = self.available()
        if available < limits.free_bytes:
            _refuse(
                f"{max(0.0, available) // MIB:g} MiB of memory are available and a new session "
                f"needs {limits.free_bytes // MIB}",
                "min_free_mb",
            )
        used = self.note_memory() + self.totals.of_others(Part.MEMORY_BYTES)
        if limits.memory_bytes and used > limits.memory_bytes:
            _refuse(f"its sessions use {limits.memory_bytes // MIB} MiB of memory", "max_memory_mb")

    def _check_sessions(self) -> None:
        """Check the number of open sessions of the server.

        A front refuses a hello that is one too many, but not one that it has given to a worker
        before: only the worker knows whether that session is still open.
        """
        if len(self.sessions) + self.totals.of_others(Part.SESSIONS) >= self.limits.sessions:
            raise SessionRefused("too_many_sessions", too_many(self.limits.sessions))

    def _check_jobs(self, jobs: int) -> None:
        total = self.sessions.jobs + self.totals.of_others(Part.JOBS)
        if total + jobs > self.limits.total_jobs:
            _refuse(
                f"the open sessions have {total} jobs and this one has {jobs}; expected at most "
                f"{self.limits.total_jobs}",
                "max_total_jobs",
            )


def too_many(sessions: int) -> str:
    """Return why a hello is refused while so many sessions are open."""
    return f"{sessions} sessions are open, the maximum of this server (limits.max_sessions)"


def _refuse(what: str, option: str) -> None:
    raise SessionRefused(
        "too_many_sessions", f"{what}, the maximum of this server (limits.{option})"
    )


def decode_request(data: bytes, max_bytes: int) -> protocol.ClientMessage | protocol.Error:
    """Return the message in bytes, or the error to reply with."""
    if len(data) > max_bytes:
        return protocol.Error(code="message_too_large", message=_too_large(len(data), max_bytes))
    try:
        return protocol.decode_client_message(data)
    except protocol.UnsupportedVersionError as error:
        return protocol.Error(code="unsupported_version", message=str(error))
    except protocol.DecodeError as error:
        return protocol.Error(code="invalid_message", message=error.what, where=error.where)


def error_reply(
    code: protocol.ErrorCode, message: str, *, fatal: bool = False, seq: int = 0
) -> bytes:
    """Return an encoded error."""
    return protocol.encode(protocol.Error(code=code, message=message, fatal=fatal, seq=seq))


def options_of(opened: Opened, limits: Limits, hello: protocol.Hello) -> protocol.Options:
    """Return the options of a session that a hello opens."""
    rules = opened.simulation.rules
    return protocol.Options(
        kill_at_walltime=rules.kill_at_walltime,
        dynamic_jobs=rules.dynamic_jobs,
        wake_on_allocation=rules.wake_on_allocation,
        signals=bool(opened.simulation.signals),
        explain=True,
        workload_manager=hello.workload_manager,
        realtime=opened.run.realtime is not None,
        max_message_bytes=limits.message_bytes,
        max_decisions=limits.decisions,
        idle_timeout_s=limits.idle_s,
    )


def too_large(size: int, max_bytes: int) -> bytes:
    """Return the encoded reply to a message that is too large."""
    return error_reply("message_too_large", _too_large(size, max_bytes))


def _too_large(size: int, max_bytes: int) -> str:
    what = f"the message has {size} bytes; expected at most {max_bytes}"
    return f"{what}, the maximum of this server (limits.max_message_bytes)"
