"""The simulation as a scheduler of the protocol sees it: `advance`, and its state as events."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hpcosim_protocol import (
    Decision,
    DecisionRejected,
    Event,
    EventKind,
    JobAllocated,
    JobSuspended,
    NodeDrained,
    NodeFailed,
    NodePowerChanged,
    NoMoreJobs,
    RequeueJob,
    SimulationBegan,
    SuspendJob,
)
from hpcosim_protocol.requests import snake_case
from hpcosim_sim.engine.decisions import CARRY_OUT
from hpcosim_sim.engine.engine import Engine, Rules
from hpcosim_sim.engine.jobs import SimulatedJob, ineligible_submission_of, start_of, submission_of
from hpcosim_sim.engine.outbox import (
    DEFAULT_MASK,
    FINAL,
    QUIET,
    REJECTIONS_ONLY,
    REQUEUED,
    STARTED,
    mask_of,
)
from hpcosim_sim.errors import MAX_NAMED, Rejection, SimulationStuck
from hpcosim_workloads.table import MAX_TIME_S

__all__ = [
    "MAX_CHANGES",
    "MAX_REJECTED_IN_A_ROW",
    "MAX_SIGNALS_IN_A_ROW",
    "MAX_TAKEN_BACK",
    "WAKEUPS_WHILE_DUE",
    "Batch",
    "Rules",
    "Simulation",
]

MAX_REJECTED_IN_A_ROW = 1000
"""Livelock limit: consecutive batches at one instant that contain only rejected decisions."""

MAX_SIGNALS_IN_A_ROW = 10_000
"""Limit of changes of signals and nodes in a row while jobs wait and nothing else can happen."""

MAX_CHANGES = 200_000
"""Limit of changes of nodes in one request. It bounds the work for the request: nodes that fail at
random do so for ever."""

MAX_TAKEN_BACK = 10_000
"""Livelock limit: how often decisions requeue or suspend jobs again at one instant."""

WAKEUPS_WHILE_DUE = 20
"""How many times `Rules.stuck_after_wakeups` is permitted while a job runs, whose end is due."""

_TAKES_BACK = (RequeueJob, SuspendJob)


class Batch(NamedTuple):
    """Result of one call of `advance`.

    Attributes:
        events: events since the previous batch, in chronological order.
        ended: whether every job is over; `events` is then empty.
    """

    now_s: float
    events: list[Event]
    ended: bool


class Simulation(Engine):
    """A simulation that a scheduler advances from batch to batch.

    The clock starts at the first submission or at `rules.initial_time_s`. Arguments and attributes
    are those of `Engine`.

    Attributes:
        requests: number of calls of `advance`.
    """

    requests = decisions = rejected = 0
    _rejected_in_a_row = 0
    _wakeups = 0  # since a job was last submitted, started or ended
    _requeues = 0  # since a job was last submitted or ended
    _quiet_before = 0  # `_quiet_events` at the last other event
    _changes_before = 0  # changes of nodes before the present request
    _taken_back_s = -math.inf  # instant of `_taken_back`
    _taken_back_again = 0
    _taken_back: set[int]  # jobs that decisions requeued or suspended at this instant

    def advance(
        self,
        decisions: Sequence[Decision] = (),
        wake_on: Iterable[EventKind] | None = None,
        elapsed_s: float = 0.0,
        *,
        seq: int = 0,
    ) -> Batch:
        """Carry out decisions, then advance time until an event wakes the scheduler.

        It is the link of a scheduler in the same process: `play(policy, platform,
        simulation.advance)` runs a policy to the end.

        Args:
            wake_on: kinds of events that wake the scheduler; None: `DEFAULT_WAKE_ON`. Alarms and
                rejected decisions always wake it. If no timer is left, if nothing but changes of
                signals and nodes can happen, or after `MAX_CHANGES` of nodes, the method returns
                the events of any kind.
            elapsed_s: simulated duration before the decisions are carried out, s; from 0 to
                `MAX_TIME_S`.
            seq: request number for the `decision_rejected` events.

        Returns:
            All events since the previous batch, up to the end of an instant.

        Raises:
            SimulationStuck: jobs wait and no further event can occur, the decisions let no time
                pass for ever, the scheduler only wakes (`Rules.stuck_after_wakeups`), or more than
                `MAX_CHANGES` of nodes occur in `elapsed_s`.
            ValueError: `elapsed_s` is out of range.
        """
        before_s, outbox = self.clock.now, self.outbox
        if not 0.0 <= elapsed_s <= MAX_TIME_S:
            raise ValueError(f"elapsed_s is {elapsed_s}; expected 0 to {MAX_TIME_S}")
        self.requests += 1
        self.decisions += len(decisions)
        self._changes_before = self.node_changes.count
        if elapsed_s > 0.0:
            self._advance_to(before_s + elapsed_s)
        for index, decision in enumerate(decisions):
            try:
                CARRY_OUT[type(decision)](self, decision)
            except Rejection as rejection:
                self._reject(seq, index, decision, rejection)
            else:
                if type(decision) in _TAKES_BACK:
                    self._note_taken_back(decision.job_id)  # type: ignore[union-attr]
        self._run(DEFAULT_MASK if wake_on is None else mask_of(wake_on))
        if outbox.kinds == REJECTIONS_ONLY and self.clock.now <= before_s:
            self._note_rejected_only()
        else:
            self._rejected_in_a_row = 0
        if outbox.kinds & ~QUIET:
            self._quiet_before = self.signals.count + self.node_changes.count
        else:
            self._check_quiet()
        if outbox.kinds & FINAL:
            self._wakeups = self._requeues = 0
        else:
            self._check_wakeups(outbox.kinds)
        events = outbox.take()
        if self.rules.validate:
            self.validate()
        # As `Batch(...)`, which calls a Python function and takes twice as long.
        return tuple.__new__(Batch, (self.clock.now, events, not events))

    def advance_until(
        self, until_s: float, decisions: Sequence[Decision], *, elapsed_s: float, seq: int
    ) -> None:
        """Carry out decisions as `advance` does, then let time pass, whatever happens.

        Args:
            until_s: simulated time, s; not before now. Decisions after it are not carried out.
        """
        if (decided_s := self.now_s + elapsed_s) <= until_s:
            if elapsed_s > 0.0:
                self._advance_to(decided_s)
            for index, decision in enumerate(decisions):
                try:
                    CARRY_OUT[type(decision)](self, decision)
                except Rejection as rejection:
                    self._reject(seq, index, decision, rejection)
            self.clock.finish_instant()
        self._advance_to(until_s)

    def snapshot(self) -> list[Event]:
        """Return events that bring an empty view to the current state.

        The snapshot includes the effects of pending events and clears them. Pending `alarm` and
        `decision_rejected` events are lost: they address the client before the reconnection.
        """
        events = snapshot_of(self)
        self.outbox.take()
        return events

    # Time

    def _run(self, wake: int) -> None:
        """Advance to the end of the first instant with an event of `wake`, or to the last one."""
        clock, outbox = self.clock, self.outbox
        clock.finish_instant()
        while not (outbox.kinds & wake or (self.all_submitted and self.is_over)):
            if not clock.run_instant():
                if not outbox.events:
                    raise self._stuck(
                        "no job runs, no alarm is set, no node is being switched, no signal "
                        "changes any more and no submission is left"
                    )
                return
            if not outbox.kinds & QUIET:
                continue
            if not outbox.kinds & ~QUIET:
                self._check_quiet()
            elif self._quiet_events - self._quiet_before > MAX_SIGNALS_IN_A_ROW and self._is_quiet:
                return
            if self.node_changes.count - self._changes_before > MAX_CHANGES:
                return

    def _advance_to(self, until_s: float) -> None:
        clock = self.clock
        while clock.next_s() <= until_s and not self.is_over:
            clock.step()
            if self._is_quiet:
                self._check_quiet()
            else:
                self._quiet_before = self._quiet_events
            if self.node_changes.count - self._changes_before > MAX_CHANGES:
                raise self._stuck(
                    f"in the elapsed_s of one request, up to {until_s} s, nodes failed and were "
                    f"repaired more than {MAX_CHANGES} times; expected a shorter time"
                )
        if not self.is_over:
            clock.advance_to(until_s)

    # Schedulers that make no progress

    def _reject(self, seq: int, index: int, decision: Decision, rejection: Rejection) -> None:
        self.rejected += 1
        self.outbox.add(
            DecisionRejected(
                self.now_s,
                seq,
                index,
                snake_case(type(decision).__name__),
                rejection.code,
                rejection.reason,
                getattr(decision, "job_id", None),
            )
        )

    def _note_rejected_only(self) -> None:
        """Raise SimulationStuck after more than `MAX_REJECTED_IN_A_ROW` such batches."""
        self._rejected_in_a_row += 1
        if self._rejected_in_a_row > MAX_REJECTED_IN_A_ROW:
            last = self.outbox.events[-1]
            assert isinstance(last, DecisionRejected)
            raise self._stuck(
                f"{self._rejected_in_a_row} requests in a row contained only rejected decisions, "
                f"the last because: {last.reason}"
            )

    def _note_taken_back(self, job_id: int) -> None:
        """Raise SimulationStuck if jobs start and are taken back in turn while no time passes."""
        if self.now_s > self._taken_back_s:
            self._taken_back_s, self._taken_back_again = self.now_s, 0
            self._taken_back = set()
        if job_id not in self._taken_back:
            self._taken_back.add(job_id)
            return
        self._taken_back_again += 1
        if self._taken_back_again > MAX_TAKEN_BACK:
            raise self._stuck(
                f"decisions requeued or suspended jobs {self._taken_back_again} times again while "
                f"no time passed, the last time job {job_id}; expected requeue_job with begin_s "
                "after now, or no start at the instant of the requeue"
            )

    @property
    def _quiet_events(self) -> int:
        """Number of changes of signals and nodes so far."""
        return self.signals.count + self.node_changes.count

    @property
    def _is_quiet(self) -> bool:
        """Whether nothing but changes of signals and nodes can happen without the scheduler."""
        return not (self.alarms or self._is_due)

    @property
    def _is_due(self) -> bool:
        """Whether something happens to a job without the scheduler."""
        return bool(
            self.jobs.running
            or self.jobs.allocated
            or not self.all_submitted
            or self.eligibility.expects
            or self.actions.pending
        )

    def _check_wakeups(self, kinds: int) -> None:
        """Raise SimulationStuck if the scheduler only wakes, or only requeues jobs."""
        limit = self.rules.stuck_after_wakeups
        if kinds & REQUEUED:
            self._requeues += 1
            if self._requeues > limit:
                raise self._stuck(
                    f"jobs were requeued at {self._requeues} times while none was submitted or "
                    f"ended; stuck_after_wakeups is {limit}"
                )
        if kinds & STARTED:
            self._wakeups = 0
            return
        self._wakeups += 1
        if self._wakeups <= limit or (self.jobs.is_empty and not self.all_submitted):
            return
        allowed, while_due = limit, ""
        if self._is_due:
            allowed *= WAKEUPS_WHILE_DUE
            while_due = (
                f", and {WAKEUPS_WHILE_DUE} times that is allowed while a job runs or is due"
            )
        if self._wakeups > allowed:
            raise self._stuck(
                f"the scheduler was woken {self._wakeups} times in a row, but no job was "
                f"submitted, started or ended; stuck_after_wakeups is {limit}{while_due}"
            )

    def _check_quiet(self) -> None:
        """Raise SimulationStuck after more than `MAX_SIGNALS_IN_A_ROW` such changes."""
        in_a_row = self._quiet_events - self._quiet_before
        if in_a_row > MAX_SIGNALS_IN_A_ROW and self._is_quiet:
            raise self._stuck(
                f"no job runs, no alarm is set, no submission is left and the last {in_a_row} "
                f"events were changes of signals{' or nodes' if self.node_changes.count else ''}"
            )

    def _stuck(self, why: str) -> SimulationStuck:
        waiting, suspended = self.jobs.waiting, self.jobs.suspended
        since_s = min((job.spec.submit_s for job in waiting.values()), default=self.now_s)
        named = [*waiting.values(), *suspended.values()][:MAX_NAMED]
        reasons = {job.spec.job_id: self._reason(job) for job in named}
        return SimulationStuck(self.now_s, list(waiting), since_s, why, list(suspended), reasons)

    def _reason(self, job: SimulatedJob) -> str:
        """Return why a job waits, as far as it is known."""
        if job.blocked:
            return self.eligibility.why_blocked(job)
        return self.recording.explanations.last(job.row)


def snapshot_of(engine: Engine) -> list[Event]:
    """Return the events that bring an empty view to the current state."""
    power, jobs = engine.power, engine.jobs
    events: list[Event] = [SimulationBegan(engine.start_s), *engine.signals.last_events()]
    events += [
        NodePowerChanged(power.since_s[node], node, state)
        for node, state in enumerate(power.state)
        if state != "on"
    ]
    available = engine.availability
    for node in sorted({*available.failed, *available.drained}):
        if node in available.failed:
            events.append(NodeFailed(available.failed[node], node))
        else:
            events.append(NodeDrained(available.drained[node], node))
    for job in jobs.in_order():
        is_blocked = job.state == "waiting" and job.blocked
        submission = ineligible_submission_of if is_blocked else submission_of
        events.append(submission(job.spec))
    events += [
        JobAllocated(job.allocated_s, job.spec.job_id, job.nodes, job.tasks)
        for job in jobs.allocated.values()
    ]
    events += [start_of(job) for job in (*jobs.running.values(), *jobs.suspended.values())]
    since_s = engine.recording.suspended_since_s
    events += [JobSuspended(since_s[job.row], job.spec.job_id) for job in jobs.suspended.values()]
    if engine.all_submitted:
        events.append(NoMoreJobs(engine.now_s))
    return events
