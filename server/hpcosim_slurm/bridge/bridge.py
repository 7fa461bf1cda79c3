"""The bridge: messages of schedulers and states of the cluster in, replies out, no socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hpcosim_protocol import (
    Bye,
    Decisions,
    Error,
    GetHistory,
    GetStatus,
    Goodbye,
    Hello,
    ServerStatus,
    encode,
)
from hpcosim_server import log
from hpcosim_server.service.held import Envelope
from hpcosim_server.service.requests import decode_request, error_reply, too_large
from hpcosim_server.service.sessions import new_name
from hpcosim_server.wire.address import address_of, key_of
from hpcosim_slurm.bridge.acting import Acting
from hpcosim_slurm.bridge.course import Course
from hpcosim_slurm.bridge.refusing import refusal_of
from hpcosim_slurm.bridge.session import SchedulerSession
from hpcosim_slurm.bridge.status import status_of
from hpcosim_slurm.commands import Order
from hpcosim_slurm.errors import SlurmError
from hpcosim_slurm.ledger.journal import Journal
from hpcosim_slurm.ledger.records import (
    AnyRecord,
    Asked,
    CameBack,
    Closed,
    FellBack,
    Opened,
    Quiet,
    Refused,
    Replied,
    Seen,
)
from hpcosim_slurm.state import ClusterState
from hpcosim_slurm.worlds.difference import difference
from hpcosim_slurm.worlds.live import LiveWorld
from hpcosim_slurm.worlds.promises import releases_of
from hpcosim_slurm.worlds.site import chosen

QUIET_S = 60.0
"""Longest time without a record while the cluster can be read, s: a report ends with the last."""


class Bridge:
    """Serves one scheduler at a time.

    Args:
        course: the state of the bridge.
        journal: where its records are written.
        now_s: returns the Unix time, s.
        version: name and version of the server, for its status.
        acting: carries out what a live world orders; None: the bridge only watches.

    Attributes:
        course: see above.
        unreachable: why the state of the cluster cannot be read; empty: it can.
    """

    def __init__(
        self,
        course: Course,
        journal: Journal,
        now_s: Callable[[], float],
        version: str = "",
        acting: Acting | None = None,
    ) -> None:
        self.course = course
        self.unreachable = ""
        self._journal = journal
        self._now_s = now_s
        self._version = version
        self._envelope: Envelope = ()
        self._address: bytes | None = None  # connection of the scheduler; None: it is closed
        self._began_s = now_s()
        self._opened = b""  # the welcome of the open session
        self._acting = acting
        self._last_words: list[tuple[Envelope, bytes]] = []
        self._starting: frozenset[int] = frozenset()  # jobs of a scheduler that is gone
        self._knocking: tuple[Hello, Envelope, float] | None = None  # waits for these, until then
        self._silent_since_s: float | None = None  # the scheduler should say something
        self._unreachable_since_s: float | None = None
        if course.session is not None:
            self._silent_since_s = now_s()
            if isinstance(course.session.world, LiveWorld):
                course.session.world.take_orders()  # the bridge before has carried them out

    # The cluster

    def note(self, state: ClusterState) -> None:
        """Note the state of the cluster.

        Raises:
            SlurmError: a partition of the site is gone.
        """
        now_s = self._time_s()
        after = chosen(state, self.course.site)
        change = difference(self.course.state, after, now_s)
        if self.unreachable:
            log.info("slurm_reachable")
            self.unreachable = ""
            self._unreachable_since_s = None
        if change:
            self._do(Seen(at_s=now_s, change=change))
        elif now_s >= self.course.last_s + QUIET_S:
            self._do(Quiet(at_s=now_s))
        if self._acting is not None and self.course.fell_back:  # new jobs wait for nobody
            self._acting.release(self._releases())

    def lost(self, why: SlurmError) -> None:
        """Note that the state of the cluster cannot be read."""
        if not self.unreachable:
            self._unreachable_since_s = self._time_s()
        if str(why) != self.unreachable:
            log.warning("slurm_unreachable", error=str(why))
        self.unreachable = str(why)

    # The scheduler

    def answer(self, body: bytes, size: int, envelope: Envelope) -> bytes:
        """Return the reply to a message; empty: it gets none now.

        Args:
            body: the message.
            size: its size, bytes; of a body that is too large, which is empty here, too.
            envelope: return address of its sender.
        """
        most = SchedulerSession.limits.message_bytes
        if size > most:
            return too_large(size, most)
        message = decode_request(body, most)
        if isinstance(message, Error):
            return encode(message)
        if isinstance(message, GetStatus):
            return encode(self._status())
        if isinstance(message, Hello) and not message.session:
            return self._open(message, envelope)
        session = self.course.session
        if session is None or message.session != session.name or not self._is_owner(envelope):
            return error_reply("unknown_session", "no session of this name is open")
        self._envelope, self._address = envelope, address_of(envelope)
        self._silent_since_s = None if session.waiting is not None else self._time_s()
        if isinstance(message, Hello):
            log.info("session_resumed", **session.names)
            return self._do(CameBack(at_s=self._time_s()))
        if isinstance(message, Bye):
            self._close("the scheduler left")
            return encode(Goodbye())
        if isinstance(message, GetHistory):
            return error_reply("invalid_message", "the bridge keeps no history of replies")
        return self._decide(session, message)

    def due(self) -> Iterator[tuple[Envelope, bytes]]:
        """Yield the reply that is due and its return address."""
        self._act()
        last, self._last_words = self._last_words, []
        yield from last
        if self._knocking is not None and not self._must_wait(self._knocking[2]):
            (hello, envelope, _), self._knocking = self._knocking, None
            yield envelope, self._open(hello, envelope, waits=False)
        session = self.course.session
        if session is not None and session.is_due(self._time_s()):
            assert session.waiting is not None
            self._silent_since_s = self._time_s()
            reply = self._do(Replied(at_s=self._time_s(), seq=session.waiting.seq))
            if self._envelope:
                yield self._envelope, reply

    def left(self, address: bytes) -> None:
        """Note that a connection was closed."""
        if address == self._address:
            self._address = None
            if self._silent_since_s is None:
                self._silent_since_s = self._time_s()
            if self.course.session is not None:
                log.info("scheduler_disconnected", **self.course.session.names)

    def next_s(self) -> float:
        """Return the time until something may happen by itself, s; infinity: nothing does."""
        session = self.course.session
        if session is None or session.waiting is None:
            return float("inf")
        return max(session.world.engine.clock.next_s() - self._now_s(), 0.0)

    def close(self) -> None:
        """End the journal."""
        self._do(Quiet(at_s=self._time_s()))
        self._journal.close()

    def stop(self) -> Iterator[tuple[Envelope, bytes]]:
        """Yield a last reply, if no bridge will continue the session."""
        session = self.course.session
        if session is not None and session.waiting is not None and self._envelope:
            what = "the bridge is stopping"
            reply = error_reply("shutting_down", what, fatal=True, seq=session.waiting.seq)
            yield self._envelope, reply

    def _must_wait(self, until_s: float) -> bool:
        """Return whether Slurm still starts jobs of the scheduler before.

        The next one would see them wait, and their nodes free, and start them a second time.
        """
        session, jobs = self.course.session, self.course.state.jobs
        if session is not None and isinstance(session.world, LiveWorld):
            self._starting = session.world.promised()
        is_pending = any(job in jobs and jobs[job].state == "pending" for job in self._starting)
        return is_pending and self._time_s() < until_s

    def _open(self, hello: Hello, envelope: Envelope, *, waits: bool = True) -> bytes:
        session = self.course.session
        if session is not None and hello.nonce and hello == session.hello and not session.seq:
            self._envelope, self._address = envelope, address_of(envelope)
            return self._opened or encode(session.welcome())
        is_connected = self._address is not None
        if refusal := refusal_of(hello, self.course, is_connected=is_connected):
            return refusal
        until_s = self._time_s() + self.course.site.start_timeout_s
        if self._knocking is not None:  # it repeats its hello
            until_s = self._knocking[2]
        if waits and self._must_wait(until_s):
            self._knocking = (hello, envelope, until_s)
            return b""
        if session is not None:
            self._close("another scheduler came after it had gone")
        self._envelope, self._address = envelope, address_of(envelope)
        opened = Opened(at_s=self._time_s(), session=new_name(), hello=hello)
        self._opened = self._do(opened)
        self._silent_since_s = self._time_s()
        assert self.course.session is not None
        log.info("session_opened", **self.course.session.names)
        return self._opened

    def _status(self) -> ServerStatus:
        uptime_s, failing = self._now_s() - self._began_s, bool(self._journal.failure)
        return status_of(self.course, self._version, uptime_s, self.unreachable, failing)

    def _decide(self, session: SchedulerSession, request: Decisions) -> bytes:
        repeated = session.repeated(request)
        if repeated is not None:
            return repeated
        error = session.error_in(request)
        if error is not None:
            return encode(error)
        self._silent_since_s = None
        return self._do(Asked(at_s=self._time_s(), request=request))

    # Acting

    def _act(self) -> None:
        """Carry out the orders of a live world, and stop acting if that is not safe."""
        session, acting = self.course.session, self._acting
        if acting is None or self.course.fell_back:
            return
        why = acting.why_stop(
            session, self._silent_since_s, self._unreachable_since_s, self._time_s()
        )
        if why:
            self._fall_back(acting, why)
        elif session is not None and isinstance(session.world, LiveWorld):
            orders = session.world.take_orders()
            try:
                for order, words in acting.carry_out(orders) if orders else ():
                    self._do(
                        Refused(at_s=self._time_s(), seq=order.seq, index=order.index, words=words)
                    )
            except SlurmError as error:
                self.lost(error)

    def _fall_back(self, acting: Acting, why: str) -> None:
        session = self.course.session
        log.error("fell_back_to_shadow", reason=why)
        if session is not None and session.waiting is not None and self._envelope:
            what = f"the bridge has stopped acting: {why}"
            reply = error_reply("shutting_down", what, fatal=True, seq=session.waiting.seq)
            self._last_words = [(self._envelope, reply)]
        self._do(FellBack(at_s=self._time_s(), why=why))
        self._envelope, self._address, self._opened = (), None, b""
        self._silent_since_s = None
        acting.release(self._releases())

    def _releases(self) -> list[Order]:
        return releases_of(self.course.state, self.course.site, self.course.suspended)

    def _close(self, why: str) -> None:
        session = self.course.session
        if session is not None and isinstance(session.world, LiveWorld):
            self._starting = session.world.promised()
        if session is not None:
            log.info("session_closed", **session.names, reason=why)
            self._do(Closed(at_s=self._time_s(), why=why))
        self._envelope, self._address, self._opened = (), None, b""
        self._silent_since_s = self._time_s()  # nobody decides

    def _is_owner(self, envelope: Envelope) -> bool:
        owner = key_of(address_of(self._envelope)) if self._envelope else b""
        return not owner or key_of(address_of(envelope)) == owner

    def _do(self, record: AnyRecord) -> bytes:
        self._journal.append(record)
        return self.course.happen(record)

    def _time_s(self) -> float:
        """Return the time; it never goes back."""
        return max(self._now_s(), self.course.last_s)
