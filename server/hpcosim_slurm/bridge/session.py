"""The session of a scheduler with a live cluster, and the state of a bridge; no socket."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import hpcosim_protocol as protocol
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.session import BasicProfile
from hpcosim_sim.engine.outbox import DEFAULT_MASK, mask_of
from hpcosim_sim.engine.simulation import snapshot_of
from hpcosim_slurm import journal
from hpcosim_slurm.state import ClusterState
from hpcosim_slurm.worlds.cluster_copy import ClusterCopy, ShadowWorld
from hpcosim_slurm.worlds.difference import NO_STATE, applied
from hpcosim_slurm.worlds.live import LiveWorld
from hpcosim_slurm.worlds.site import Site

PUBLIC = 8  # characters of a session's name in logs

MakeWorld = Callable[[ClusterState, Site], ClusterCopy]


class SchedulerSession:
    """A scheduler and the world that it sees. At most one request waits for its reply."""

    limits = Limits()

    def __init__(self, name: str, hello: protocol.Hello, world: ClusterCopy, cluster: str) -> None:
        self.name = name
        self.hello = hello
        self.world = world
        self.seq = 0
        self.last_answer = b""
        self.waiting: protocol.Decisions | None = None
        self.decisions = 0
        self._cluster = cluster
        self._last_request: protocol.Decisions | None = None
        self._wake = 0
        self._told_s = world.engine.now_s  # time of the last message to the scheduler
        self._profile: BasicProfile | None = None
        if not hello.workload_manager:
            self._use_basic_profile()

    @property
    def label(self) -> str:
        """Public label of the session."""
        return self.name[:PUBLIC]

    @property
    def names(self) -> dict[str, str]:
        """Label and scheduler, for the log."""
        return {"session": self.label, "scheduler": self.hello.client}

    def welcome(self) -> protocol.Welcome:
        """Return the reply to the hello that opened the session."""
        engine = self.world.engine
        return protocol.Welcome(
            version=protocol.PROTOCOL_VERSION,
            session=self.name,
            scenario=self._cluster,
            seed=self.hello.seed or 0,
            platform=engine.cluster.platform,
            options=protocol.Options(
                kill_at_walltime=True,
                wake_on_allocation=True,
                explain=True,
                workload_manager=self.hello.workload_manager,
                realtime=True,
                max_message_bytes=self.limits.message_bytes,
                max_decisions=self.limits.decisions,
            ),
            seq=self.seq,
            now_s=engine.now_s,
        )

    def come_back(self) -> bytes:
        """Return a welcome with a snapshot; pending events are part of it."""
        welcome = self.welcome()
        engine = self.world.engine
        self._told_s = engine.now_s
        welcome.snapshot = snapshot_of(engine)
        engine.outbox.take()
        if self._profile is not None:
            welcome.snapshot = self._profile.snapshot(welcome.snapshot)
        self.waiting = None
        return protocol.encode(welcome)

    def repeated(self, request: protocol.Decisions) -> bytes | None:
        """Return the reply to a copy of a request; None: it is a new request."""
        if request.seq == self.seq and request == self._last_request:
            return self.last_answer
        waiting = self.waiting
        if waiting is None or request.seq != waiting.seq or request != waiting:
            return None
        if not self.hello.held_replies:
            return b""
        return protocol.encode(protocol.Held(seq=request.seq, now_s=self.world.engine.now_s))

    def error_in(self, request: protocol.Decisions) -> protocol.Error | None:
        """Return the error of a request that the session does not carry out."""
        if self.waiting is not None or request.seq != self.seq + 1:
            expected = (self.seq if self.waiting is None else self.waiting.seq) + 1
            what = f"seq is {request.seq}; expected {expected}, or the last request unchanged"
            if self.waiting is not None:
                what += f"; the reply to {self.waiting.seq} is still to come"
            return protocol.Error(code="out_of_order", message=what, where="$.seq", seq=request.seq)
        if len(request.decisions) > self.limits.decisions:
            return protocol.Error(
                code="too_many_decisions",
                message=f"the message has {len(request.decisions)} decisions; expected at most "
                f"{self.limits.decisions}",
                where="$.decisions",
                seq=request.seq,
            )
        return None

    def decide(self, request: protocol.Decisions, now_s: float) -> None:
        """Carry out the decisions of a request; its reply waits for an event."""
        self.world.pass_to(now_s)
        for index, decision in enumerate(request.decisions):
            self.world.carry_out(self._in_time(decision), request.seq, index)
        self.world.pass_to(now_s)
        self.decisions += len(request.decisions)
        self.waiting = request
        self._wake = DEFAULT_MASK if request.wake_on is None else mask_of(request.wake_on)

    def is_due(self, now_s: float) -> bool:
        """Return whether an event up to now wakes the scheduler."""
        if self.waiting is None:
            return False
        return self.world.engine.pass_to_event(now_s, self._wake)

    def reply(self, now_s: float) -> bytes:
        """Return the reply to the request that waits, for which `is_due` is true."""
        request, self.waiting, engine = self.waiting, None, self.world.engine
        assert request is not None
        engine.pass_to_event(now_s, self._wake)
        self._told_s = engine.now_s
        events = protocol.Events(seq=request.seq, now_s=engine.now_s, events=engine.outbox.take())
        self.seq, self.last_answer, self._last_request = (
            request.seq,
            protocol.encode(events),
            request,
        )
        return self.last_answer

    def _in_time(self, decision: protocol.Decision) -> protocol.Decision:
        """Return a decision; an alarm whose time has come while the scheduler decided is due now.

        The scheduler knows only the time of the last message.
        """
        now_s = self.world.engine.now_s
        if isinstance(decision, protocol.SetAlarm) and self._told_s < decision.at_s <= now_s:
            return protocol.SetAlarm(math.nextafter(now_s, math.inf), decision.alarm_id)
        return decision

    def _use_basic_profile(self) -> None:
        """Send the events of the basic profile from now on, those that are pending too."""
        self._profile = BasicProfile()
        outbox = self.world.engine.outbox
        pending = outbox.take()
        outbox.profile = self._profile.events
        for event in pending:
            outbox.add(event)


class BridgeState:
    """The state of a bridge.

    A bridge makes a record of all that happens, appends it to its journal, and lets it happen here.
    A bridge that starts again lets all records happen first.

    Attributes:
        last_s: time of the last record, s.
        suspended: jobs that schedulers had suspended when their sessions ended.
    """

    def __init__(self, site: Site, make_world: MakeWorld) -> None:
        self.site = site
        self.state = NO_STATE
        self.session: SchedulerSession | None = None
        self.sessions_over = 0
        self.last_s = 0.0
        self.fell_back = False
        self.suspended: frozenset[int] = frozenset()
        self._make_world = make_world

    def happen(self, record: journal.AnyRecord) -> bytes:
        """Let a record happen.

        Returns:
            The encoded reply to the scheduler; empty: it gets none now.
        """
        self.last_s = max(self.last_s, record.at_s)
        if isinstance(record, journal.Seen):
            self.state = applied(self.state, record.change)
            self.suspended &= {
                job.id for job in self.state.jobs.values() if job.state == "suspended"
            }
            if self.session is not None:
                self.session.world.note(record.change)
        elif isinstance(record, journal.Opened):
            return self._open(record)
        elif isinstance(record, journal.Closed | journal.FellBack):
            self.fell_back = self.fell_back or isinstance(record, journal.FellBack)
            if self.session is not None and isinstance(self.session.world, LiveWorld):
                self.suspended |= self.session.world.to_resume()
            self.sessions_over += self.session is not None
            self.session = None
        elif self.session is None or isinstance(record, journal.Began):
            return b""
        elif isinstance(record, journal.Asked):
            self.session.decide(record.request, record.at_s)
        elif isinstance(record, journal.Replied):
            return self.session.reply(record.at_s)
        elif isinstance(record, journal.CameBack):
            self.session.world.pass_to(record.at_s)
            return self.session.come_back()
        elif isinstance(record, journal.Refused) and isinstance(self.session.world, LiveWorld):
            self.session.world.refused(record.seq, record.index, record.words)
        return b""

    def _open(self, record: journal.Opened) -> bytes:
        make_world = ShadowWorld if self.fell_back else self._make_world
        world = make_world(replace(self.state, at_s=record.at_s), self.site)
        self.session = SchedulerSession(record.session, record.hello, world, self.site.name)
        return protocol.encode(self.session.welcome())
