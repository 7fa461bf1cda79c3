"""One client's simulation, without a socket, and the basic profile of its events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import structs
from msgspec.structs import replace

from hpcosim_protocol import (
    PROTOCOL_VERSION,
    DecisionRejected,
    Decisions,
    Error,
    Event,
    Events,
    Hello,
    JobCompleted,
    JobEligible,
    JobHeld,
    JobRequeued,
    JobResumed,
    JobStarted,
    JobState,
    JobSubmitted,
    JobSuspended,
    JobUpdated,
    NodeDrained,
    NodeFailed,
    Options,
    RejectionCode,
    ServerMessage,
    SimulationEnded,
    Welcome,
    encode,
)
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.pace import Pace
from hpcosim_server.wire.listener import key_of
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.errors import SimulationStuck
from hpcosim_sim.record.results import Run, metrics_of
from hpcosim_workloads.table import MAX_TIME_S

if TYPE_CHECKING:
    from hpcosim_server.journal.journal_file import JournalWriter


_STATES: Mapping[JobState, JobState] = {
    "failed": "completed",
    "cancelled": "killed",
    "preempted": "killed",
    "deadline": "killed",
}
_CODES: Mapping[RejectionCode, RejectionCode] = {
    "job_not_eligible": "job_not_waiting",
    "node_unavailable": "node_busy",
    "reserved": "node_busy",
    "insufficient_memory": "node_busy",
    "insufficient_gres": "node_busy",
    "insufficient_licenses": "node_busy",
    "constraint_violated": "bad_allocation",
}


@dataclass(frozen=True, slots=True)
class Opened:
    """A simulation for a new session.

    Attributes:
        span_s: simulated time from the start to the end of the last job if no job waited, s;
            0: unknown.
        file: absolute path of the scenario's file, for journals; empty: unknown.
    """

    simulation: Simulation
    run: Run
    jobs: int
    span_s: float = 0.0
    file: str = ""

    def complete(self) -> None:
        """Mark the run as complete: every job is over."""
        self.run.complete, self.run.ended_because = True, "every job is over"


class Session:
    """A simulation with its client.

    Args:
        address: address of the client's connection; empty: unknown.

    Attributes:
        name: secret session name; it authenticates the client.
        last_message_s: time of the client's last message on the service's clock, s.
        seq: number of the last request with a reply; 0 before the first.
        pace: when its replies are sent; None: at once.
        address: address of the connection of its hello or, later, of its last request.
        events: number of events in its replies.
    """

    pace: Pace | None = None
    journal: JournalWriter | None = None
    resumed_at = -1
    results_written = False

    def __init__(
        self,
        name: str,
        hello: Hello,
        opened: Opened,
        options: Options,
        now_s: float,
        address: bytes = b"",
        limits: Limits | None = None,
    ) -> None:
        self.name = name
        self.label = self.name[:8]
        self.opened = opened
        self.last_message_s = self._reported_s = now_s
        self.seq = 0
        self.last_answer = b""
        self._last_request: Decisions | None = None
        self._ended: SimulationEnded | None = None
        self.hello = hello
        self.address = address
        self.events = 0
        self.limits = limits or Limits()
        self._options = options
        self._start_s = opened.simulation.now_s
        self._profile: BasicProfile | None = None
        if not hello.workload_manager:
            self._profile = BasicProfile()
            opened.simulation.outbox.profile = self._profile.events
        self._welcome = encode(self._make_welcome())

    @property
    def ended_because(self) -> str:
        """Reason for the end of the session; empty while it is open."""
        return self.opened.run.ended_because

    def belongs_to(self, address: bytes) -> bool:
        """Return whether the client at an address may use the session: it has the same key."""
        owner = key_of(self.address)
        return not owner or key_of(address) == owner

    def note_message(self, now_s: float) -> None:
        """Record that a message of the client arrived."""
        self.last_message_s = now_s

    def has_progressed(self, now_s: float) -> bool:
        """Return whether a message arrived since the last call that returned True."""
        progressed = self.last_message_s > self._reported_s
        if progressed:
            self._reported_s = now_s
        return progressed

    def welcome(self) -> bytes:
        """Return the encoded reply to the hello that opened the session."""
        return self._welcome

    def resume(self) -> bytes:
        """Return an encoded welcome with a snapshot, for a client that resumes the session."""
        welcome = self._make_welcome()
        welcome.snapshot = self.opened.simulation.snapshot()
        if self._profile is not None:
            welcome.snapshot = self._profile.snapshot(welcome.snapshot)
        return encode(welcome)

    def resume_with_history(self) -> bytes:
        """Return an encoded welcome without a snapshot, for a client that asks for the history."""
        welcome = self._make_welcome()
        welcome.options = replace(welcome.options, history=True)
        return encode(welcome)

    def decide(self, request: Decisions, elapsed_s: float | None = None) -> bytes:
        """Return the encoded reply to a request. A repeated request gets the same reply.

        Args:
            elapsed_s: simulated time that passes before the decisions, s; None: that of the
                request.
        """
        if request.seq == self.seq and request == self._last_request:
            return self.last_answer
        error = self._error_in(request)
        if error is not None:
            return encode(error)
        passes_s = request.elapsed_s if elapsed_s is None else elapsed_s
        answer = encode(self._advance(request, passes_s))
        self.seq, self.last_answer, self._last_request = request.seq, answer, request
        return answer

    def tell_results_error(self, why: str) -> bytes:
        """Return the last reply of a complete session, which says why there are no results."""
        assert self._ended is not None
        self.last_answer = encode(replace(self._ended, results_error=why))
        return self.last_answer

    def end(self, why: str) -> None:
        """End the session, unless it has ended. `why` becomes `ended_because` in `run.json`."""
        if not self.ended_because:
            self.opened.run.ended_because = why

    def _advance(self, request: Decisions, elapsed_s: float) -> ServerMessage:
        try:
            batch = self.opened.simulation.advance(
                request.decisions,
                wake_on=request.wake_on,
                elapsed_s=elapsed_s,
                seq=request.seq,
            )
        except SimulationStuck as stuck:
            self.end(str(stuck))
            return Error(code="simulation_stuck", message=str(stuck), fatal=True, seq=request.seq)
        self.events += len(batch.events)
        if not batch.ended:
            if batch.now_s - self._start_s > self.limits.simulated_s:
                return self._end_at_limit(request)
            return Events(seq=request.seq, now_s=batch.now_s, events=batch.events)
        self.opened.complete()
        metrics = metrics_of(self.opened.simulation.record(), self.opened.run)
        self._ended = SimulationEnded(seq=request.seq, now_s=batch.now_s, metrics=metrics)
        return self._ended

    def _end_at_limit(self, request: Decisions) -> Error:
        what = (
            f"the session has simulated {self.limits.simulated_s:g} s, the maximum of this server "
            "(limits.max_simulated_s)"
        )
        self.end(what)
        return Error(code="simulation_stuck", message=what, fatal=True, seq=request.seq)

    def _error_in(self, request: Decisions) -> Error | None:
        """Return the error of a request that the session does not carry out."""
        if request.seq != self.seq + 1:
            return Error(
                code="out_of_order",
                message=f"seq is {request.seq}; expected {self.seq + 1}, or the last request "
                "unchanged",
                where="$.seq",
                seq=request.seq,
            )
        if len(request.decisions) > self._options.max_decisions:
            return Error(
                code="too_many_decisions",
                message=f"the message has {len(request.decisions)} decisions; "
                f"expected at most {self._options.max_decisions}, the maximum of this server "
                "(limits.max_decisions)",
                where="$.decisions",
                seq=request.seq,
            )
        if request.elapsed_s > min(self.limits.elapsed_s, MAX_TIME_S):
            return Error(
                code="invalid_message",
                message=f"elapsed_s is {request.elapsed_s}; expected at most "
                f"{min(self.limits.elapsed_s, MAX_TIME_S)}, the maximum of this server "
                "(limits.max_elapsed_s)",
                where="$.elapsed_s",
                seq=request.seq,
            )
        return None

    def _make_welcome(self) -> Welcome:
        simulation, run = self.opened.simulation, self.opened.run
        return Welcome(
            version=PROTOCOL_VERSION,
            session=self.name,
            scenario=run.scenario,
            seed=run.seed,
            platform=simulation.cluster.platform,
            options=self._options,
            seq=self.seq,
            now_s=simulation.now_s,
        )


class BasicProfile:
    """Replaces the events of workload managers in one session.

    The client knows a job from the time at which it is eligible. A job that is held or requeued is
    over for the client, and submitted again when it is eligible again.
    """

    def __init__(self) -> None:
        self._jobs: dict[int, JobSubmitted] = {}  # jobs that are not over, as they are now
        self._known: dict[int, float] = {}  # submissions that the client knows: job and time, s

    def events(self, event: Event) -> Sequence[Event]:
        """Return what the client receives for an event."""
        match event:
            case JobStarted():
                return (event,)
            case JobSubmitted():
                self._jobs[event.job_id] = event
                return self._submitted(event) if event.eligible else ()
            case JobEligible():
                job = self._jobs[event.job_id]
                return self._submitted(structs.replace(job, time_s=event.time_s, eligible=True))
            case JobCompleted():
                del self._jobs[event.job_id]
                return self._completed(event, _STATES.get(event.state, event.state))
            case JobHeld() | JobRequeued():
                return self._completed(event, "killed")
            case JobUpdated():
                self._jobs[event.job_id] = structs.replace(
                    self._jobs[event.job_id], requested_s=event.requested_s, request=event.request
                )
                return ()
            case JobSuspended() | JobResumed():
                return ()
            case NodeDrained():
                return (NodeFailed(event.time_s, event.node),)
            case DecisionRejected():
                return (structs.replace(event, code=_CODES.get(event.code, event.code)),)
            case _:
                return (event,)

    def snapshot(self, events: Iterable[Event]) -> list[Event]:
        """Return what a client that resumes its session receives for a snapshot."""
        known = dict(self._known)
        self._jobs.clear()
        self._known.clear()
        received = [each for event in events for each in self.events(event)]
        jobs = {each.job_id: each for each in received if isinstance(each, JobSubmitted)}
        # In the order and with the times in which the client learned of them.
        submitted = [
            structs.replace(jobs.pop(job_id), time_s=time_s)
            for job_id, time_s in known.items()
            if job_id in jobs
        ]
        submitted += jobs.values()
        self._known = {each.job_id: each.time_s for each in submitted}
        following = iter(submitted)
        return [next(following) if isinstance(e, JobSubmitted) else e for e in received]

    def _submitted(self, job: JobSubmitted) -> Sequence[Event]:
        self._known[job.job_id] = job.time_s
        return (job,)

    def _completed(
        self, event: JobCompleted | JobHeld | JobRequeued, state: JobState
    ) -> Sequence[Event]:
        if self._known.pop(event.job_id, None) is None:
            return ()
        return (JobCompleted(event.time_s, event.job_id, state),)
