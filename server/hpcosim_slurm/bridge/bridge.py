"""The bridge: messages of schedulers and states of the cluster in, replies out, no socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import hpcosim_protocol as protocol
from hpcosim_protocol.server_messages import SessionStatus
from hpcosim_server import log
from hpcosim_server.service.admission import decode_request, error_reply, too_large
from hpcosim_server.service.held_replies import Envelope
from hpcosim_server.service.sessions import new_name
from hpcosim_server.wire.listener import address_of, key_of
from hpcosim_slurm import journal as records
from hpcosim_slurm.bridge.session import BridgeState, SchedulerSession
from hpcosim_slurm.commands import Carrier, Order
from hpcosim_slurm.errors import SlurmError
from hpcosim_slurm.state import ClusterState
from hpcosim_slurm.worlds.difference import difference
from hpcosim_slurm.worlds.live import LiveOrder, LiveWorld, releases_of
from hpcosim_slurm.worlds.site import chosen

QUIET_S = 60.0
"""Longest time without a record while the cluster can be read, s: a report ends with the last."""


class Succession:
    """The hello of a scheduler that waits for its turn.

    The scheduler would see the jobs that were placed by the one before wait, and their nodes free,
    and start them a second time.
    """

    def __init__(self, course: BridgeState) -> None:
        self._course = course
        self._starting: frozenset[int] = frozenset()  # jobs of a scheduler that is gone
        self._waiting: tuple[protocol.Hello, Envelope, float] | None = (
            None  # until then at the latest
        )

    def note(self) -> None:
        """Note which jobs of the open session Slurm still starts."""
        session = self._course.session
        if session is not None and isinstance(session.world, LiveWorld):
            self._starting = session.world.promised()

    def postpones(self, hello: protocol.Hello, envelope: Envelope, now_s: float) -> bool:
        """Return whether a hello must wait; if so, keep it."""
        until_s = now_s + self._course.site.start_timeout_s
        if self._waiting is not None:  # it repeats its hello
            until_s = self._waiting[2]
        if not self._must_wait(until_s, now_s):
            return False
        self._waiting = (hello, envelope, until_s)
        return True

    def take(self, now_s: float) -> tuple[protocol.Hello, Envelope] | None:
        """Return the hello whose turn it is; None: there is none."""
        if self._waiting is None or self._must_wait(self._waiting[2], now_s):
            return None
        (hello, envelope, _), self._waiting = self._waiting, None
        return hello, envelope

    def _must_wait(self, until_s: float, now_s: float) -> bool:
        self.note()
        jobs = self._course.state.jobs
        is_pending = any(job in jobs and jobs[job].state == "pending" for job in self._starting)
        return is_pending and now_s < until_s


def refusal_of(hello: protocol.Hello, course: BridgeState, *, is_connected: bool) -> bytes:
    """Return the encoded error for a hello that cannot open a session; empty: it can.

    Args:
        is_connected: whether the scheduler of the open session is connected.
    """
    if (session := course.session) is not None and is_connected:
        what = (
            f"the bridge serves one scheduler at a time; {session.hello.client!r} is connected "
            f"(session {session.label})"
        )
        return error_reply("too_many_sessions", what)
    if hello.scenario not in ("", course.site.name):
        what = f"the cluster is {course.site.name!r}; got {hello.scenario!r}"
        return error_reply("unknown_scenario", what)
    if hello.overrides:
        return error_reply("invalid_scenario", "a live cluster has no values to override")
    if not course.state.nodes:
        return error_reply("too_many_sessions", "the state of the cluster is not known yet")
    return b""


class Caller:
    """The scheduler of the open session.

    Attributes:
        silent_since_s: Unix time since which it should say something, s; None: it need not.
    """

    def __init__(self, silent_since_s: float | None) -> None:
        self.envelope: Envelope = ()
        self.silent_since_s = silent_since_s
        self._address: bytes | None = None  # None: its connection is closed

    @property
    def is_connected(self) -> bool:
        """Whether its connection is open."""
        return self._address is not None

    def heard(self, envelope: Envelope) -> None:
        """Note the return address of a message."""
        self.envelope, self._address = envelope, address_of(envelope)

    def owns(self, envelope: Envelope) -> bool:
        """Return whether a message can be from it: with keys, only if it has the same key."""
        owner = key_of(address_of(self.envelope)) if self.envelope else b""
        return not owner or key_of(address_of(envelope)) == owner

    def left(self, address: bytes, now_s: float) -> bool:
        """Note that a connection was closed; return whether it was that of the scheduler."""
        if address != self._address:
            return False
        self._address = None
        if self.silent_since_s is None:
            self.silent_since_s = now_s
        return True

    def forget(self, silent_since_s: float | None) -> None:
        """Note that the session is over.

        Args:
            silent_since_s: the present time, s: nobody decides; None: nobody needs to.
        """
        self.envelope, self._address, self.silent_since_s = (), None, silent_since_s


class Bridge:
    """Serves one scheduler at a time.

    Args:
        acting: carries out what a live world orders; None: the bridge only watches.
    """

    def __init__(
        self,
        course: BridgeState,
        journal: records.Journal,
        now_s: Callable[[], float],
        version: str = "",
        acting: OrderExecutor | None = None,
    ) -> None:
        self.course = course
        self.unreachable = ""
        self._journal = journal
        self._now_s = now_s
        self._version = version
        self._began_s = now_s()
        self._opened = b""  # the welcome of the open session
        self._acting = acting
        self._caller = Caller(None if course.session is None else now_s())
        self._succession = Succession(course)
        self._last_words: list[tuple[Envelope, bytes]] = []
        self._unreachable_since_s: float | None = None
        if course.session is not None and isinstance(course.session.world, LiveWorld):
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
            self._do(records.Seen(at_s=now_s, change=change))
        elif now_s >= self.course.last_s + QUIET_S:
            self._do(records.Quiet(at_s=now_s))
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
        """Return the reply to a message; empty: it gets none now."""
        most = SchedulerSession.limits.message_bytes
        if size > most:
            return too_large(size, most)
        message = decode_request(body, most)
        if isinstance(message, protocol.Error):
            return protocol.encode(message)
        if isinstance(message, protocol.GetStatus):
            return protocol.encode(self._status())
        if isinstance(message, protocol.Hello) and not message.session:
            return self._open(message, envelope)
        session = self.course.session
        if session is None or message.session != session.name or not self._caller.owns(envelope):
            return error_reply("unknown_session", "no session of this name is open")
        self._caller.heard(envelope)
        self._caller.silent_since_s = None if session.waiting is not None else self._time_s()
        if isinstance(message, protocol.Hello):
            log.info("session_resumed", **session.names)
            return self._do(records.CameBack(at_s=self._time_s()))
        if isinstance(message, protocol.Bye):
            self._close("the scheduler left")
            return protocol.encode(protocol.Goodbye())
        if isinstance(message, protocol.GetHistory):
            return error_reply("invalid_message", "the bridge keeps no history of replies")
        return self._decide(session, message)

    def due(self) -> Iterator[tuple[Envelope, bytes]]:
        """Yield the reply that is due and its return address."""
        self._act()
        last, self._last_words = self._last_words, []
        yield from last
        if (successor := self._succession.take(self._time_s())) is not None:
            hello, envelope = successor
            yield envelope, self._open(hello, envelope, waits=False)
        session = self.course.session
        if session is not None and session.is_due(self._time_s()):
            assert session.waiting is not None
            self._caller.silent_since_s = self._time_s()
            reply = self._do(records.Replied(at_s=self._time_s(), seq=session.waiting.seq))
            if self._caller.envelope:
                yield self._caller.envelope, reply

    def left(self, address: bytes) -> None:
        """Note that a connection was closed."""
        session = self.course.session
        if self._caller.left(address, self._time_s()) and session is not None:
            log.info("scheduler_disconnected", **session.names)

    def next_s(self) -> float:
        """Return the time until something may happen by itself, s; infinity: nothing does."""
        session = self.course.session
        if session is None or session.waiting is None:
            return float("inf")
        return max(session.world.engine.clock.next_s() - self._now_s(), 0.0)

    def close(self) -> None:
        """End the journal."""
        self._do(records.Quiet(at_s=self._time_s()))
        self._journal.close()

    def stop(self) -> Iterator[tuple[Envelope, bytes]]:
        """Stop for good: no bridge will continue the session. Yield a last reply."""
        if self._acting is not None and not self.course.fell_back:
            self._fall_back(self._acting, "the bridge was stopped")
            yield from self._last_words
        else:
            yield from self._farewell("the bridge is stopping")

    def left_waiting(self) -> int:
        """Return the number of jobs that wait until a bridge goes on with this journal."""
        if self._acting is None or self.course.fell_back:
            return 0
        return len(self._releases())

    def _farewell(self, what: str) -> Iterator[tuple[Envelope, bytes]]:
        """Yield the last reply to a scheduler whose request waits."""
        session = self.course.session
        if session is not None and session.waiting is not None and self._caller.envelope:
            reply = error_reply("shutting_down", what, fatal=True, seq=session.waiting.seq)
            yield self._caller.envelope, reply

    def _open(self, hello: protocol.Hello, envelope: Envelope, *, waits: bool = True) -> bytes:
        session = self.course.session
        if session is not None and hello.nonce and hello == session.hello and not session.seq:
            self._caller.heard(envelope)
            return self._opened or protocol.encode(session.welcome())
        is_connected = self._caller.is_connected
        if refusal := refusal_of(hello, self.course, is_connected=is_connected):
            return refusal
        if waits and self._succession.postpones(hello, envelope, self._time_s()):
            return b""
        if session is not None:
            self._close("another scheduler came after it had gone")
        self._caller.heard(envelope)
        opened = records.Opened(at_s=self._time_s(), session=new_name(), hello=hello)
        self._opened = self._do(opened)
        self._caller.silent_since_s = self._time_s()
        assert self.course.session is not None
        log.info("session_opened", **self.course.session.names)
        return self._opened

    def _status(self) -> protocol.ServerStatus:
        found, session, course = [], self.course.session, self.course
        if session is not None:
            engine = session.world.engine
            found.append(
                SessionStatus(
                    label=session.label,
                    scenario=course.site.name,
                    scheduler=session.hello.client,
                    now_s=engine.now_s,
                    jobs_over=engine.recording.over,
                    jobs=len(engine.recording),
                )
            )
        return protocol.ServerStatus(
            server=self._version,
            uptime_s=self._now_s() - self._began_s,
            scenarios=[course.site.name],
            max_sessions=1,
            sessions=found,
            sessions_active=len(found),
            sessions_over=course.sessions_over,
            journal="failing" if self._journal.failure else "ok",
            failures={"slurm_unreachable": 1} if self.unreachable else {},
        )

    def _decide(self, session: SchedulerSession, request: protocol.Decisions) -> bytes:
        repeated = session.repeated(request)
        if repeated is not None:
            return repeated
        error = session.error_in(request)
        if error is not None:
            return protocol.encode(error)
        self._caller.silent_since_s = None
        return self._do(records.Asked(at_s=self._time_s(), request=request))

    # Acting

    def _act(self) -> None:
        """Carry out the orders of a live world, and stop acting if that is not safe."""
        session, acting = self.course.session, self._acting
        if acting is None or self.course.fell_back:
            return
        why = acting.why_stop(
            session, self._caller.silent_since_s, self._unreachable_since_s, self._time_s()
        )
        if why:
            self._fall_back(acting, why)
        elif session is not None and isinstance(session.world, LiveWorld):
            orders = session.world.take_orders()
            try:
                for order, words in acting.carry_out(orders) if orders else ():
                    self._do(
                        records.Refused(
                            at_s=self._time_s(), seq=order.seq, index=order.index, words=words
                        )
                    )
            except SlurmError as error:
                self.lost(error)

    def _fall_back(self, acting: OrderExecutor, why: str) -> None:
        log.error("fell_back_to_shadow", reason=why)
        self._last_words = list(self._farewell(f"the bridge has stopped acting: {why}"))
        self._do(records.FellBack(at_s=self._time_s(), why=why))
        self._caller.forget(None)
        self._opened = b""
        acting.release(self._releases())

    def _releases(self) -> list[Order]:
        return releases_of(self.course.state, self.course.site, self.course.suspended)

    def _close(self, why: str) -> None:
        session = self.course.session
        self._succession.note()
        if session is not None:
            log.info("session_closed", **session.names, reason=why)
            self._do(records.Closed(at_s=self._time_s(), why=why))
        self._caller.forget(self._time_s())
        self._opened = b""

    def _do(self, record: records.AnyRecord) -> bytes:
        self._journal.append(record)
        return self.course.happen(record)

    def _time_s(self) -> float:
        """Return the time; it never goes back."""
        return max(self._now_s(), self.course.last_s)


@dataclass(frozen=True, slots=True)
class SafetyLimits:
    """When a bridge stops acting.

    Attributes:
        diverged_s: longest time in which a job runs where the scheduler cannot see it, s.
    """

    silent_s: float = 60.0
    unreachable_s: float = 60.0
    diverged_s: float = 10.0
    rejected: int = 20


class OrderExecutor:
    """Carries out orders."""

    def __init__(self, carrier: Carrier, limits: SafetyLimits | None = None) -> None:
        self._carrier = carrier
        self._limits = limits or SafetyLimits()

    def carry_out(self, orders: Sequence[LiveOrder]) -> list[tuple[LiveOrder, str]]:
        """Carry out orders; return those that were refused, with Slurm's words.

        Raises:
            SlurmError: the controller does not answer.
        """
        by_order = {id(each.order): each for each in orders}
        refusals = self._carrier.carry_out([each.order for each in orders])
        return [(by_order[id(refusal.order)], refusal.words) for refusal in refusals]

    def release(self, orders: Sequence[Order]) -> None:
        """Let Slurm start jobs. If it cannot be told now, the caller tries again later."""
        if not orders:
            return
        try:
            self._carrier.carry_out(orders)
        except SlurmError as error:
            log.error("jobs_not_released", jobs=len(orders), error=str(error))

    def why_stop(
        self,
        session: SchedulerSession | None,
        silent_since_s: float | None,
        unreachable_since_s: float | None,
        now_s: float,
    ) -> str:
        """Return why the bridge must stop acting; empty: it need not.

        Args:
            unreachable_since_s: time since which the controller does not answer, s; None: it does.
        """
        limits = self._limits
        if unreachable_since_s is not None and now_s - unreachable_since_s > limits.unreachable_s:
            return f"the controller has not answered for {limits.unreachable_s:g} s"
        if silent_since_s is not None and now_s - silent_since_s > limits.silent_s:
            return f"the scheduler has been silent or gone for {limits.silent_s:g} s"
        if session is None or not isinstance(session.world, LiveWorld):
            return ""
        world = session.world
        if world.diverged and now_s - world.diverged_s > limits.diverged_s:
            return f"the scheduler's view differs from the cluster: {world.diverged}"
        if world.rejected_in_a_row > limits.rejected:
            return f"{world.rejected_in_a_row} decisions in a row were rejected"
        return ""
