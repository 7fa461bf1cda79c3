"""Many sessions, each wholly apart: bytes in, bytes out, no socket."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import structlog

from hpcosim_protocol import (
    ClientMessage,
    Decisions,
    DecodeError,
    Error,
    ErrorCode,
    Goodbye,
    Hello,
    Options,
    UnsupportedVersionError,
    decode_client_message,
    encode,
)
from hpcosim_server.errors import SessionRefused
from hpcosim_server.record.results import Also
from hpcosim_server.service.reporting import (
    folder_name,
    log_progress,
    names_of,
    progress_of,
    write_session,
)
from hpcosim_server.service.session import Opened, Session
from hpcosim_server.service.status import Cause, Failure, Status

log = structlog.get_logger()

Opener = Callable[[Hello], Opened]
"""Makes the simulation a hello asks for, or raises SessionRefused."""

PROGRESS_EVERY_S = 0.25
REMEMBERED = 1000  # epitaphs, failures


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may ask of the server.

    Attributes:
        message_bytes: a longer message is refused.
        decisions: more in one message are refused.
        sessions: open at a time.
        jobs: in one session.
        idle_s: wall seconds of silence after which a session is dropped.
    """

    message_bytes: int = 16 * 2**20
    decisions: int = 100_000
    sessions: int = 64
    jobs: int = 2_000_000
    idle_s: float = 600.0


class Epitaph(NamedTuple):
    """What is kept of a session that is over, for a client that missed the last answer."""

    why: str
    seq: int
    last_answer: bytes


class Service:
    """Answers requests and writes the results of sessions that are over.

    Args:
        opener: makes simulations.
        limits: what clients may ask.
        out: folder for results; None: none are written.
        sessions: so many may be opened in all; None: any number.
        folder_per_session: results in a folder of `out` for each session, else in `out` itself.
        also: other formats to write the results in.
        tell: takes each failure at once, and now and then the progress of each session; None: the
            progress goes to the log.

    Attributes:
        failures: what went wrong in sessions so far, for the exit status.
        done: all sessions there may be are over, their results written.
    """

    def __init__(
        self,
        opener: Opener,
        limits: Limits | None = None,
        out: Path | None = None,
        *,
        sessions: int | None = None,
        folder_per_session: bool = True,
        also: Sequence[Also] = (),
        tell: Callable[[Status], None] | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.failures: list[Failure] = []
        self._opener = opener
        self._out = out
        self._sessions_left = sessions
        self._folder_per_session = folder_per_session
        self._also = also
        self._tell = tell or log_progress
        self._open: dict[str, Session] = {}
        self._by_nonce: dict[str, Session] = {}
        self._over: OrderedDict[str, Epitaph] = OrderedDict()
        self._to_write: list[Session] = []
        self._stopped = ""
        self._busy_s = 0.0
        self._progress_due_s = 0.0

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do, nor will be."""
        return self._sessions_left == 0 and not self._open and not self._to_write

    def answer(self, data: bytes) -> bytes:
        """Return the answer to a message, whatever it is."""
        began_s = time.monotonic()
        try:
            return self._answer(data)
        finally:
            self._busy_s += time.monotonic() - began_s

    def _answer(self, data: bytes) -> bytes:
        if self._stopped:
            return _error("shutting_down", self._stopped, fatal=True)
        if len(data) > self.limits.message_bytes:
            return _error(
                "message_too_large",
                f"a message of {len(data)} bytes; at most {self.limits.message_bytes} are allowed",
            )
        try:
            message = decode_client_message(data)
        except UnsupportedVersionError as error:
            return _error("unsupported_version", str(error))
        except DecodeError as error:
            return _error("invalid_message", error.what, error.where)
        seq = message.seq if isinstance(message, Decisions) else 0
        try:
            return self._dispatch(message)
        except SessionRefused as refused:
            return _error(refused.code, refused.what, seq=seq)
        except Exception as error:  # one session's trouble must not be another's
            log.exception("internal_error", error=str(error))
            name = "" if isinstance(message, Hello) else message.session
            session = self._open.get(name)
            if session is not None:
                session.end(f"internal error: {error!r}")
                self._close(session, "internal_error")
            return _error(
                "internal_error", "the server has a bug; its log says more", fatal=True, seq=seq
            )

    def tidy(self) -> None:
        """Between requests: write what is over, drop who is silent, tell how far it has got."""
        if self._to_write:
            began_s = time.monotonic()
            finished, self._to_write = self._to_write, []
            for session in finished:
                self._write(session)
            self._busy_s += time.monotonic() - began_s
        wall_s = time.monotonic()
        if wall_s < self._progress_due_s:
            return
        self._progress_due_s = wall_s + PROGRESS_EVERY_S
        now_s = self._listened_s()
        for session in list(self._open.values()):
            if session.has_news(now_s):
                self._tell(progress_of(session))
            if now_s - session.heard_s > self.limits.idle_s:
                session.end(f"the client was silent for more than {self.limits.idle_s:g} s")
                self._close(session, "client_silent")

    def stop(self, why: str) -> bool:
        """Close, and from now on answer every message with `shutting_down`.

        Returns:
            Whether a session was cut short.
        """
        interrupted = bool(self._open)
        self.close(why)
        self._stopped = why
        return interrupted

    def close(self, why: str) -> None:
        """End every session and write its results."""
        for session in list(self._open.values()):
            session.end(why)
            self._close(session, "stopped")
        self.tidy()

    def _dispatch(self, message: ClientMessage) -> bytes:
        if isinstance(message, Hello):
            return self._hello(message)
        if isinstance(message, Decisions):
            return self._decide(message)
        if message.session in self._over:  # the goodbye was lost
            return encode(Goodbye())
        session = self._find(message.session)
        session.end("the client left")
        self._close(session, "client_left")
        return encode(Goodbye())

    def _decide(self, request: Decisions) -> bytes:
        epitaph = self._over.get(request.session)
        if epitaph is not None and epitaph.seq == request.seq:
            return epitaph.last_answer
        session = self._find(request.session)
        answer = session.decide(request)
        session.hear(self._listened_s())
        if session.ended_because:
            self._close(session, None if session.opened.run.complete else "simulation_stuck")
        return answer

    def _hello(self, hello: Hello) -> bytes:
        if hello.session:
            session = self._find(hello.session)
            session.hear(self._listened_s())
            return session.resume()
        known = self._by_nonce.get(hello.nonce) if hello.nonce else None
        if known is not None:
            if known.hello != hello:
                raise SessionRefused("invalid_message", "the nonce is that of another hello")
            return known.welcome()
        if len(self._open) >= self.limits.sessions:
            raise SessionRefused(
                "too_many_sessions",
                f"{self.limits.sessions} sessions are open, the most there may be",
            )
        if self._sessions_left == 0:
            raise SessionRefused(
                "too_many_sessions", "this server opens no more sessions: it was told how many"
            )
        opened = self._opener(hello)
        opened.run.policy = hello.policy
        if self._sessions_left is not None:
            self._sessions_left -= 1
        session = Session(hello, opened, self._options(opened), self._listened_s())
        self._open[session.name] = session
        if hello.nonce:
            self._by_nonce[hello.nonce] = session
        log.info("session_opened", **names_of(session), jobs=opened.jobs, seed=opened.run.seed)
        return session.welcome()

    def _listened_s(self) -> float:
        """Return a clock that stands while the server is busy, and hears nobody."""
        return time.monotonic() - self._busy_s

    def _options(self, opened: Opened) -> Options:
        rules = opened.simulation.rules
        return Options(
            kill_at_walltime=rules.kill_at_walltime,
            dynamic_jobs=rules.dynamic_jobs,
            wake_on_allocation=rules.wake_on_allocation,
            max_message_bytes=self.limits.message_bytes,
            max_decisions=self.limits.decisions,
            idle_timeout_s=self.limits.idle_s,
        )

    def _find(self, name: str) -> Session:
        session = self._open.get(name)
        if session is not None:
            return session
        if name in self._over:
            raise SessionRefused("unknown_session", f"it is over: {self._over[name].why}")
        raise SessionRefused("unknown_session", "there is no such session; say hello first")

    def _close(self, session: Session, failed: Cause | None) -> None:
        del self._open[session.name]
        self._by_nonce.pop(session.hello.nonce, None)
        self._over[session.name] = Epitaph(session.ended_because, session.seq, session.last_answer)
        if len(self._over) > REMEMBERED:
            self._over.popitem(last=False)
        self._to_write.append(session)
        self._tell(progress_of(session))
        if failed:
            self._fail(Failure(failed, session.ended_because))
        level = log.warning if failed else log.info
        level("session_closed", **names_of(session), why=session.ended_because, failed=bool(failed))

    def _fail(self, failure: Failure) -> None:
        if len(self.failures) < REMEMBERED:
            self.failures.append(failure)
        self._tell(failure)

    def _write(self, session: Session) -> None:
        if self._out is None:
            return
        folder = self._out / folder_name(session) if self._folder_per_session else self._out
        if failure := write_session(folder, session, self._also):
            self._fail(failure)


def _error(
    code: ErrorCode, message: str, where: str = "", *, fatal: bool = False, seq: int = 0
) -> bytes:
    return encode(Error(code=code, message=message, where=where, fatal=fatal, seq=seq))
