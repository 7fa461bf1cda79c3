"""The whole simulator: one plain object with one verb, and finer ones for some shells."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hpcosim_protocol import (
    Alarm,
    AllocateJob,
    CancelAlarm,
    Decision,
    DecisionRejected,
    Event,
    EventKind,
    JobAllocated,
    JobCompleted,
    JobStarted,
    JobState,
    JobSubmitted,
    KillJob,
    NodeGroup,
    NodePowerChanged,
    NoMoreJobs,
    Platform,
    PowerState,
    RejectionCode,
    RejectJob,
    SetAlarm,
    SetNodePower,
    SimulationBegan,
    SubmitJob,
)
from hpcosim_protocol.events import snake_case
from hpcosim_server.engine.clock import Clock, Rank, Timer
from hpcosim_server.engine.endings import Endings
from hpcosim_server.engine.job import Job
from hpcosim_server.engine.switching import Switching
from hpcosim_server.engine.wake import BIT, DEFAULT_MASK, mask_of
from hpcosim_server.errors import SimulationStuck
from hpcosim_server.physics.allocation import (
    Refusal,
    check_power,
    check_switch,
    impossible,
    tasks_by_node,
)
from hpcosim_server.physics.cluster import Cluster
from hpcosim_server.physics.execution import Execution
from hpcosim_server.physics.node_power import NodePower
from hpcosim_server.record.recording import Recording
from hpcosim_server.record.run_record import RunRecord, record_of
from hpcosim_workloads.table import LATEST_S, JobSpec, JobTable

# A scheduler whose every decision is refused this often in a row, at one instant, never gets on.
MOST_REFUSED_IN_A_ROW = 1000
MOST_ALARMS = 100_000
MOST_POWER_CHANGES = 20_000_000


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds in a simulation.

    Attributes:
        reference_ghz: the clock at which run times hold; None: they hold on every node.
        kill_at_walltime: a job past its requested time is killed.
        dynamic_jobs: the scheduler may submit jobs.
        wake_on_allocation: a job may be given nodes that are not on; they are switched on for it.
        turn_away: a job that could not run even on an empty cluster is rejected at its submission;
            else the scheduler is told of it like of any other.
        start_s: when the clock starts, by the first submission; None: just there.
        max_jobs: more can't be submitted.
    """

    reference_ghz: float | None = None
    kill_at_walltime: bool = False
    dynamic_jobs: bool = False
    wake_on_allocation: bool = True
    turn_away: bool = True
    start_s: float | None = None
    max_jobs: int = 2_000_000


class Batch(NamedTuple):
    """What an `advance` brought.

    Attributes:
        now_s: simulated time.
        events: what has happened since the last batch, in order.
        ended: every job is over; there are no events.
    """

    now_s: float
    events: list[Event]
    ended: bool


_SUBMITTED, _STARTED = BIT["job_submitted"], BIT["job_started"]
_ALLOCATED, _POWER = BIT["job_allocated"], BIT["node_power_changed"]
_COMPLETED, _REJECTED = BIT["job_completed"], BIT["decision_rejected"]


class Simulation:
    """A cluster, its jobs and its clock. It knows no policy, no socket, no file.

    `advance` does all that a scheduler of our protocol needs. A shell for schedulers of another
    one has finer verbs: `step`, `take_events`, `carry_out`, `submit`, `reshape`, `turn_node`.

    The clock starts at the first submission, unless the rules say otherwise. At one instant, jobs
    complete, then nodes have been switched, then jobs are submitted, and alarms come last; what is
    equal in that comes in the order it was set.

    Args:
        platform: the cluster.
        jobs: the workload.
        rules: what holds.
        rng: for the times of switching nodes on and off, where those vary.

    Attributes:
        cluster: the state of the nodes.
        recording: what happened.
        power: the power states of the nodes.
        start_s: when the clock started.
    """

    def __init__(
        self,
        platform: Platform,
        jobs: JobTable,
        rules: Rules | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.rules = rules or Rules()
        first_s = float(jobs.submit_s[0]) if len(jobs) else 0.0
        self.start_s = first_s if self.rules.start_s is None else self.rules.start_s
        self._clock = Clock(self.start_s)
        self.cluster = Cluster(platform, self.start_s)
        self._endings = Endings(
            self._clock,
            Execution(platform, self.rules.reference_ghz),
            self.rules.kill_at_walltime,
            self._end,
        )
        self.recording = Recording()
        self.power = NodePower(self.cluster, self.recording, rng or np.random.default_rng(0))
        self._switching = Switching(self._clock, self.power, self._tell_power, self._start)
        self._waiting: dict[int, Job] = {}
        self._allocated: dict[int, Job] = {}  # their nodes are not all on yet
        self._running: dict[int, Job] = {}
        self._alarms: dict[int, Timer] = {}
        self._to_come = jobs.rows()
        self._all_submitted = False
        self._ids = set(jobs.job_id.tolist()) if self.rules.dynamic_jobs else set()
        self._submitted: set[int] = set()  # brought up to date when it is looked into
        self._events: list[Event] = []
        self._kinds = 0  # the bits of the kinds in `_events`
        self._refused_in_a_row = 0
        self._kind_of: dict[NodeGroup, int] = {}  # the nodes' kinds by what they are
        self._tell(SimulationBegan(self.start_s), BIT["simulation_began"])
        self._await_next_submission()

    @property
    def now_s(self) -> float:
        """The simulated second."""
        return self._clock.now

    def advance(
        self,
        decisions: Sequence[Decision] = (),
        *,
        wake_on: Iterable[EventKind] | None = None,
        elapsed_s: float = 0.0,
        seq: int = 0,
    ) -> Batch:
        """Carry out decisions, then let time pass until the scheduler is to be woken.

        Args:
            decisions: what to do, in this order.
            wake_on: kinds of events to return for; None: `DEFAULT_WAKE_ON`. Alarms and
                rejected decisions always count. When nothing more can happen, what has
                happened is returned whatever its kind.
            elapsed_s: seconds that pass before the decisions are carried out.
            seq: to be named in `decision_rejected`.

        Returns:
            Everything that happened since the last batch, up to the end of one instant.

        Raises:
            SimulationStuck: jobs wait and nothing can happen any more.
            ValueError: `elapsed_s` can't be.
        """
        before = self._clock.now
        if not 0.0 <= elapsed_s <= LATEST_S:
            raise ValueError(f"elapsed_s must be from 0 to {LATEST_S}, not {elapsed_s}")
        if elapsed_s > 0.0:
            self._let_pass(before + elapsed_s)
        for index, decision in enumerate(decisions):
            try:
                _CARRY_OUT[type(decision)](self, decision)
            except Refusal as refusal:
                self._reject(seq, index, decision, refusal)
        self._run(DEFAULT_MASK if wake_on is None else mask_of(wake_on))
        self._watch_for_refusals(before)
        events, self._events, self._kinds = self._events, [], 0
        return Batch(self._clock.now, events, ended=not events)

    def step(self, until_s: float = math.inf) -> list[Event]:
        """Let the next instant happen, and return what it brought.

        The last job being over ends nothing: nodes on the way, and alarms, go on.

        Args:
            until_s: if nothing happens by then, time passes up to there, or not at all if that is
                infinity.

        Returns:
            What `take_events` does.
        """
        clock = self._clock
        next_s = clock.next_s()
        if next_s < math.inf and next_s <= until_s:
            while clock.next_s() == next_s:
                clock.step()
        elif until_s < math.inf:
            clock.pass_to(until_s)
        return self.take_events()

    def take_events(self) -> list[Event]:
        """Return what has happened and was not returned yet, in order."""
        events, self._events, self._kinds = self._events, [], 0
        return events

    def next_s(self) -> float:
        """Return when the next instant is at which something happens; infinity: never."""
        return self._clock.next_s()

    def carry_out(self, decision: Decision) -> None:
        """Carry out a decision now.

        Raises:
            Refusal: it can't be.
        """
        _CARRY_OUT[type(decision)](self, decision)

    def submit(self, spec: JobSpec) -> None:
        """Submit a job now, whose number no other has, whatever the rules say of dynamic jobs."""
        self._admit(spec)

    def reshape(self, job_id: int, cores: int, run_s: float) -> None:
        """Say what a waiting job asks for, and how long it runs, on the nodes it will be given.

        Raises:
            Refusal: it does not wait.
        """
        job = self._waiting_job(job_id)
        job.spec = job.spec._replace(cores=cores, run_s=run_s)
        self.recording.cores[job.row] = cores

    def turn_node(self, node: int, kind: NodeGroup) -> None:
        """Turn a node into one of another kind: its speed, its power, its power states.

        All nodes have one processor, of as many cores before as after. The node is on; what runs
        on it goes on as it did.
        """
        cluster, now_s = self.cluster, self._clock.now
        number = self._kind_of.get(kind)
        if number is None:
            number = self._kind_of[kind] = cluster.add_kind(kind, now_s)
            self.recording.kinds.append(kind)
        if cluster.group_of[node] != number:
            cluster.turn_into(now_s, node, number)
            self.recording.changed_kind(now_s, node, number)

    def snapshot(self) -> list[Event]:
        """Return events that bring an empty view to what it would be now.

        They stand for what `advance` has not returned yet, too, but for alarms that went off
        and decisions that were rejected: the client that was to hear of them is gone.
        """
        events: list[Event] = [SimulationBegan(self.start_s)]
        events += [
            NodePowerChanged(self.power.since_s[node], node, state)
            for node, state in enumerate(self.power.state)
            if state != "on"
        ]
        jobs = [*self._running.values(), *self._allocated.values(), *self._waiting.values()]
        events += [_submission(job.spec) for job in sorted(jobs, key=lambda job: job.row)]
        events += [
            JobAllocated(job.allocated_s, job.spec.job_id, job.nodes, job.tasks)
            for job in self._allocated.values()
        ]
        events += [
            JobStarted(job.started_s, job.spec.job_id, job.nodes, job.tasks)
            for job in self._running.values()
        ]
        if self._all_submitted:
            events.append(NoMoreJobs(self.now_s))
        self._events, self._kinds = [], 0
        return events

    def settle(self) -> None:
        """Integrate all energies up to now."""
        self.cluster.settle(self.now_s)

    def record(self) -> RunRecord:
        """Return the run up to now; it is valid until the simulation goes on."""
        return record_of(self.cluster, self.recording, self.start_s, self.now_s)

    # Time

    def _run(self, wake: int) -> None:
        clock = self._clock
        while True:
            next_s = clock.next_s()
            if next_s > clock.now:  # the instant is complete
                if self._kinds & wake or self._is_over():
                    return
                if next_s == math.inf:
                    if not self._events:
                        raise self._stuck("the scheduler lets nothing more happen")
                    return
            clock.step()

    def _let_pass(self, until_s: float) -> None:
        clock = self._clock
        while clock.next_s() <= until_s and not self._is_over():
            clock.step()
        if not self._is_over():
            clock.pass_to(until_s)

    def _is_over(self) -> bool:
        return (
            self._all_submitted
            and not self._waiting
            and not self._allocated
            and not self._running
            and not (self.rules.dynamic_jobs and self._alarms)
        )

    def _watch_for_refusals(self, before_s: float) -> None:
        """Raise SimulationStuck when for long nothing has come of anything decided."""
        if self._kinds != _REJECTED or self.now_s > before_s:
            self._refused_in_a_row = 0
            return
        self._refused_in_a_row += 1
        if self._refused_in_a_row > MOST_REFUSED_IN_A_ROW:
            last = self._events[-1]
            assert isinstance(last, DecisionRejected)
            raise self._stuck(
                f"{self._refused_in_a_row} messages in a row brought nothing but rejected "
                f"decisions, the last: {last.reason}"
            )

    def _stuck(self, why: str) -> SimulationStuck:
        since_s = min((job.spec.submit_s for job in self._waiting.values()), default=self.now_s)
        return SimulationStuck(self.now_s, list(self._waiting), since_s, why)

    def _tell(self, event: Event, bit: int) -> None:
        self._events.append(event)
        self._kinds |= bit

    # What happens

    def _await_next_submission(self) -> None:
        spec = next(self._to_come, None)
        if spec is None:
            self._all_submitted = True
            self._tell(NoMoreJobs(self.now_s), BIT["no_more_jobs"])
        else:
            self._clock.at(spec.submit_s, Rank.SUBMISSION, self._on_submission, spec)

    def _on_submission(self, timer: Timer) -> None:
        self._admit(timer.subject)
        self._await_next_submission()

    def _admit(self, spec: JobSpec) -> None:
        row = self.recording.submitted(spec)
        if self.rules.turn_away and (reason := impossible(self.cluster, spec)):
            self.recording.ended(row, self.now_s, "rejected", reason)
            return
        self._waiting[spec.job_id] = Job(spec, row)
        self._tell(_submission(spec), _SUBMITTED)

    def _end(self, job: Job) -> None:
        """End a job that runs, or that waits for its nodes to be on."""
        if self._running.pop(job.spec.job_id, None) is None:
            del self._allocated[job.spec.job_id]
            self._switching.forget(job)
        self._endings.call_off(job)
        self.cluster.vacate(self._clock.now, job.parts)
        self.cluster.release(job.nodes, job.held)
        self._over(job, job.state)

    def _over(self, job: Job, state: JobState) -> None:
        now_s = self._clock.now
        self.recording.ended(job.row, now_s, state)
        self._tell(JobCompleted(now_s, job.spec.job_id, state), _COMPLETED)

    def _tell_power(self, node: int, state: PowerState) -> None:
        self._tell(NodePowerChanged(self._clock.now, node, state), _POWER)

    def _on_alarm(self, timer: Timer) -> None:
        del self._alarms[timer.subject]
        self._tell(Alarm(self.now_s, timer.subject), BIT["alarm"])

    # What is decided

    def _allocate_job(self, wanted: AllocateJob) -> None:
        job = self._waiting_job(wanted.job_id)
        spec, now_s = job.spec, self._clock.now
        tasks = tasks_by_node(self.cluster, spec, wanted)
        wakes = self.rules.wake_on_allocation
        # Where no node was ever switched there is no need to look at each.
        all_on = not self.recording.power_s or check_power(self.power.state, wanted.nodes, wakes)
        job.nodes, job.tasks = list(wanted.nodes), tasks
        job.held = self.cluster.hold(job.nodes, job.tasks, spec.placement == "whole_nodes")
        job.allocated_s = now_s
        del self._waiting[spec.job_id]
        if all_on:
            self._start(job)
        else:
            self._allocated[spec.job_id] = job
            self._tell(JobAllocated(now_s, spec.job_id, job.nodes, job.tasks), _ALLOCATED)
            self._switching.bring_on(job)

    def _start(self, job: Job) -> None:
        """Let a job run on the nodes it holds, which are all on."""
        job_id, now_s = job.spec.job_id, self._clock.now
        self._allocated.pop(job_id, None)
        job.parts = self.cluster.occupy(now_s, job.nodes, job.tasks)
        job.started_s = now_s
        self._endings.begin(job)
        self._running[job_id] = job
        self.recording.started(job.row, now_s, job.nodes, job.tasks)
        self._tell(JobStarted(now_s, job_id, job.nodes, job.tasks), _STARTED)

    def _reject_job(self, wanted: RejectJob) -> None:
        job = self._waiting_job(wanted.job_id)
        del self._waiting[wanted.job_id]
        self._over(job, "rejected")

    def _kill_job(self, wanted: KillJob) -> None:
        job = self._running.get(wanted.job_id) or self._allocated.get(wanted.job_id)
        if job is None:
            raise self._not_there(wanted.job_id, "job_not_running")
        job.state = "killed"
        self._end(job)

    def _set_node_power(self, wanted: SetNodePower) -> None:
        check_switch(self.cluster, self.power.state, wanted)
        if len(self.recording.power_s) >= MOST_POWER_CHANGES:
            raise Refusal("not_allowed", f"a session has at most {MOST_POWER_CHANGES} switchings")
        self._switching.switch(
            wanted.node, "switching_on" if wanted.state == "on" else "switching_off"
        )

    def _set_alarm(self, wanted: SetAlarm) -> None:
        if not self.now_s < wanted.at_s <= LATEST_S:
            raise Refusal(
                "bad_time",
                f"an alarm must be after now, {self.now_s} s, and by {LATEST_S} s; "
                f"not at {wanted.at_s} s",
            )
        previous = self._alarms.get(wanted.alarm_id)
        if previous is not None:
            self._clock.cancel(previous)
        elif len(self._alarms) >= MOST_ALARMS:
            raise Refusal("not_allowed", f"a session has at most {MOST_ALARMS} alarms")
        self._alarms[wanted.alarm_id] = self._clock.at(
            wanted.at_s, Rank.ALARM, self._on_alarm, wanted.alarm_id
        )

    def _cancel_alarm(self, wanted: CancelAlarm) -> None:
        alarm = self._alarms.pop(wanted.alarm_id, None)
        if alarm is None:
            raise Refusal("unknown_alarm", f"there is no alarm {wanted.alarm_id}")
        self._clock.cancel(alarm)

    def _submit_job(self, wanted: SubmitJob) -> None:
        if not self.rules.dynamic_jobs:
            raise Refusal("not_allowed", "the scenario does not say dynamic_jobs: true")
        if wanted.job_id in self._ids:
            raise Refusal("job_exists", f"there was a job {wanted.job_id} before")
        if len(self._ids) >= self.rules.max_jobs:
            raise Refusal("not_allowed", f"a session has at most {self.rules.max_jobs} jobs")
        requested_s = wanted.run_s if wanted.requested_s is None else wanted.requested_s
        if not all(0 < time_s <= LATEST_S for time_s in (wanted.run_s, requested_s)):
            raise Refusal("bad_job", f"a job's times must be above 0 and up to {LATEST_S} s")
        spec = JobSpec(
            wanted.job_id, self.now_s, wanted.run_s, requested_s, wanted.cores, wanted.placement
        )
        reason = impossible(self.cluster, spec) if wanted.cores > 0 else "asks for no cores"
        if reason:
            raise Refusal("bad_job", f"the job {reason}")
        self._ids.add(wanted.job_id)
        self._admit(spec)

    def _waiting_job(self, job_id: int) -> Job:
        job = self._waiting.get(job_id)
        if job is None:
            raise self._not_there(job_id, "job_not_waiting")
        return job

    def _not_there(self, job_id: int, code: RejectionCode) -> Refusal:
        """Say why a job is not where a decision looks for it."""
        if job_id in self._running:
            return Refusal(code, f"job {job_id} is running")
        if job_id in self._allocated:
            return Refusal(code, f"job {job_id} has its nodes, and waits for them to be on")
        if job_id in self._waiting:
            return Refusal(code, f"job {job_id} is waiting")
        if self._was_submitted(job_id):
            return Refusal(code, f"job {job_id} is over")
        return Refusal("unknown_job", f"there is no job {job_id}, or it is not submitted yet")

    def _was_submitted(self, job_id: int) -> bool:
        """Look a number up among all there were; only clients in error pay for that."""
        known = self._submitted
        known.update(self.recording.job_id[len(known) :])
        return job_id in known

    def _reject(self, seq: int, index: int, decision: Decision, refusal: Refusal) -> None:
        self._tell(
            DecisionRejected(
                self.now_s,
                seq,
                index,
                snake_case(type(decision).__name__),
                refusal.code,
                refusal.reason,
                getattr(decision, "job_id", None),
            ),
            _REJECTED,
        )


def _submission(spec: JobSpec) -> JobSubmitted:
    event = JobSubmitted(spec.submit_s, spec.job_id, spec.cores, spec.requested_s, spec.placement)
    # What is not told stays the default, which is then left out on the wire.
    if spec.memory_mb:
        event.memory_mb = spec.memory_mb
    if spec.memory_volume_mb:
        event.memory_volume_mb = spec.memory_volume_mb
    if spec.max_energy_j < math.inf:
        event.max_energy_j = spec.max_energy_j
    if spec.profile:
        event.profile = spec.profile
    return event


_CARRY_OUT: dict[type[Decision], Callable[[Simulation, Any], None]] = {
    AllocateJob: Simulation._allocate_job,
    RejectJob: Simulation._reject_job,
    KillJob: Simulation._kill_job,
    SetNodePower: Simulation._set_node_power,
    SetAlarm: Simulation._set_alarm,
    CancelAlarm: Simulation._cancel_alarm,
    SubmitJob: Simulation._submit_job,
}
