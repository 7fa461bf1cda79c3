"""The engine: the state of a simulation and its transitions, and the options of a simulation.

The engine does not advance time and does not call a scheduler. Its front ends do:
`simulation.Simulation` for the hpcosim protocol, `hpcosim_batsim.bridge` for Batsim's protocol.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from hpcosim_protocol import (
    Alarm,
    Event,
    JobAllocated,
    JobCompleted,
    JobStarted,
    JobState,
    NodeGroup,
    NodePowerChanged,
    NoMoreJobs,
    Platform,
    PowerState,
    SimulationBegan,
)
from hpcosim_sim.engine.clock import Clock, Rank, Timer
from hpcosim_sim.engine.eligibility import Eligibility, Histories
from hpcosim_sim.engine.end_timers import EndTimers
from hpcosim_sim.engine.job_runs import LOST, Graces, JobActions, change_node, leave, lost_work
from hpcosim_sim.engine.jobs import (
    JobRegister,
    SimulatedJob,
    ineligible_submission_of,
    start_of,
    submission_of,
)
from hpcosim_sim.engine.outbox import Outbox
from hpcosim_sim.engine.signals import Signal, Signals
from hpcosim_sim.engine.site_events import (
    NO_SITE_EVENTS,
    Distribution,
    FailureModel,
    NodeChangeKind,
    SiteEvents,
)
from hpcosim_sim.engine.validation import check_cores, check_energy, check_jobs, check_resources
from hpcosim_sim.errors import Rejection
from hpcosim_sim.physics.allocation import infeasibility
from hpcosim_sim.physics.cluster import Cluster
from hpcosim_sim.physics.execution import Execution
from hpcosim_sim.physics.grants import Grant
from hpcosim_sim.physics.node_power import NEXT, Availability, NodePower
from hpcosim_sim.physics.resources import Resources
from hpcosim_sim.record.economics import UNKNOWN, Rates
from hpcosim_sim.record.recording import Recording
from hpcosim_sim.record.run_record import RunRecord, record_of
from hpcosim_workloads.table import MAX_TIME_S, JobSpec, JobTable

# Failures, drains and repairs of nodes: from a list, and drawn at random.

MIN_TIME_S = 1e-3
"""Shortest drawn time, s: shorter ones would let no time pass."""


class NodeChanges:
    """Lets nodes fail, drain and be repaired at the times of the site's events.

    A node that failed by a model is repaired by the model, unless the list repairs it before. A
    node that failed by the list is repaired by the list. The next failure of a model is drawn at
    the begin and at each repair of the node.

    Args:
        apply: called with the kind of the change and a node; returns False if the change had no
            effect, such as the failure of a node that has failed.
    """

    def __init__(
        self,
        clock: Clock,
        events: SiteEvents,
        rng: np.random.Generator,
        apply: Callable[[NodeChangeKind, int], bool],
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._apply = apply
        self._next: dict[int, Timer] = {}  # of the model of each node
        self.count = 0
        for change in sorted(events.node_changes, key=lambda change: change.at_s):
            at_s = max(change.at_s, clock.now)
            clock.at(at_s, Rank.NODE, self._on_change, change)
        self._model_of: Mapping[int, FailureModel] = {
            node: model for model in events.failure_models for node in model.nodes
        }
        for node in self._model_of:
            self._plan(node, "fail")

    def _on_change(self, timer: Timer) -> None:
        change = timer.subject
        for node in change.nodes:
            if self._change(change.kind, node) and change.kind != "drain":
                self._drop(node)
                if change.kind == "repair" and node in self._model_of:
                    self._plan(node, "fail")

    def _on_model(self, timer: Timer) -> None:
        node, kind = timer.subject
        del self._next[node]
        self._change(kind, node)
        self._plan(node, "repair" if kind == "fail" else "fail")

    def _change(self, kind: NodeChangeKind, node: int) -> bool:
        has_effect = self._apply(kind, node)
        self.count += has_effect
        return has_effect

    def _plan(self, node: int, kind: NodeChangeKind) -> None:
        model = self._model_of[node]
        after = model.until_failure if kind == "fail" else model.until_repair
        now_s = self._clock.now
        at_s = now_s + max(draw_s(after, self._rng), MIN_TIME_S)
        at_s = max(at_s, math.nextafter(now_s, math.inf))  # late times have no milliseconds
        if at_s <= MAX_TIME_S:
            self._next[node] = self._clock.at(at_s, Rank.NODE, self._on_model, (node, kind))

    def _drop(self, node: int) -> None:
        timer = self._next.pop(node, None)
        if timer is not None:
            self._clock.cancel(timer)


def draw_s(distribution: Distribution, rng: np.random.Generator) -> float:
    """Return a random time, s; its mean is `distribution.mean_s`."""
    mean_s, shape = distribution.mean_s, distribution.shape
    if distribution.kind == "exponential":
        return float(rng.exponential(mean_s))
    if distribution.kind == "weibull":  # mean = scale * gamma(1 + 1/shape)
        return float(rng.weibull(shape)) * mean_s / math.gamma(1.0 + 1.0 / shape)
    if distribution.kind == "lognormal":  # mean = exp(mu + shape^2 / 2)
        return float(rng.lognormal(math.log(mean_s) - shape**2 / 2.0, shape))
    return mean_s


class Switching:
    """Switches nodes between power states and starts jobs when their nodes are on.

    Args:
        recording: receives every change of a power state.
        emit: called with a `NodePowerChanged` event at each change.
        start: called with an allocated job when the last of its nodes is on.
    """

    def __init__(
        self,
        clock: Clock,
        power: NodePower,
        recording: Recording,
        emit: Callable[[Event], None],
        start: Callable[[SimulatedJob], None],
    ) -> None:
        self._clock = clock
        self._power = power
        self._recording = recording
        self._emit = emit
        self._start = start
        self._waiting_for: dict[int, list[SimulatedJob]] = {}
        self._timers: dict[int, Timer] = {}  # of nodes in transitional states

    def switch(self, node: int, after: PowerState) -> None:
        """Move a node to a power state and set the timer that ends a transitional state."""
        now_s = self._clock.now
        lasts_s = self._power.enter(now_s, node, after)
        self._recording.powered(now_s, node, after)
        self._emit(NodePowerChanged(now_s, node, after))
        if lasts_s < math.inf:
            end = (node, NEXT[after])
            self._timers[node] = self._clock.at(now_s + lasts_s, Rank.POWER, self._on_switched, end)

    def cancel(self, node: int) -> None:
        """Cancel the transition of a node, for which no job waits; nothing happens without one."""
        timer = self._timers.pop(node, None)
        if timer is not None:
            self._clock.cancel(timer)

    def complete(self, node: int) -> None:
        """End the transition of a node now; nothing happens without one."""
        timer = self._timers.get(node)
        if timer is not None:
            self._clock.cancel(timer)
            self._on_switched(timer)

    def switch_on_for(self, job: SimulatedJob) -> None:
        """Switch on the sleeping nodes of an allocated job and start it when all are on."""
        state = self._power.state
        off = [node for node in job.nodes if state[node] != "on"]
        job.nodes_off = len(off)
        for node in off:
            self._waiting_for.setdefault(node, []).append(job)
            if state[node] == "sleeping":
                self.switch(node, "switching_on")

    def cancel_wait(self, job: SimulatedJob) -> None:
        """Remove an allocated job from the waiting lists; started transitions continue."""
        for node in job.nodes:
            if job in self._waiting_for.get(node, ()):
                self._waiting_for[node].remove(job)

    def _on_switched(self, timer: Timer) -> None:
        node, after = timer.subject
        del self._timers[node]
        self.switch(node, after)
        if after == "on":
            for job in self._waiting_for.pop(node, ()):
                job.nodes_off -= 1
                if not job.nodes_off:
                    self._start(job)


class NodeKinds:
    """Changes the kinds of nodes and records the changes."""

    def __init__(self, clock: Clock, cluster: Cluster, recording: Recording) -> None:
        self._clock = clock
        self._cluster = cluster
        self._recording = recording
        self._number_of: dict[NodeGroup, int] = {}  # of the added kinds

    def change(self, nodes: Iterable[int], kind: NodeGroup) -> None:
        """Change the kind of nodes: their speed, their power and their power states.

        The nodes are on. Every node has one processor, and the number of cores stays the same. The
        end times of running jobs do not change.
        """
        cluster, now_s = self._cluster, self._clock.now
        number = self._number_of.get(kind)
        if number is None:
            number = self._number_of[kind] = cluster.add_kind(kind, now_s)
            self._recording.kinds.append(kind)
        changed = [node for node in nodes if cluster.group_of[node] != number]
        if changed:
            cluster.change_kind(now_s, changed, number)
            for node in changed:
                self._recording.changed_kind(now_s, node, number)


# Alarms: a scheduler sets an alarm to be called at a given simulation time.

MAX_ALARMS = 100_000
"""Maximum number of alarms that are set at the same time."""


class Alarms:
    """The pending alarms of a simulation."""

    def __init__(self, clock: Clock, emit: Callable[[Event], None]) -> None:
        self._clock = clock
        self._emit = emit
        self._timers: dict[int, Timer] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def times_s(self) -> dict[int, float]:
        """Return the time of each pending alarm, s, by alarm id."""
        return {alarm_id: timer.at_s for alarm_id, timer in self._timers.items()}

    def set(self, alarm_id: int, at_s: float) -> None:
        """Set an alarm. It replaces a pending alarm with the same id.

        Args:
            alarm_id: number of the alarm, chosen by the scheduler.
            at_s: simulation time at which it goes off, s; above now, at most `MAX_TIME_S`.

        Raises:
            Rejection: `at_s` is out of range, or `MAX_ALARMS` alarms are pending.
        """
        now_s = self._clock.now
        if not now_s < at_s <= MAX_TIME_S:
            raise Rejection(
                "bad_time",
                f"set_alarm.at_s is {at_s}; expected a time above {now_s} (now) and at most "
                f"{MAX_TIME_S}",
            )
        previous = self._timers.get(alarm_id)
        if previous is not None:
            self._clock.cancel(previous)
        elif len(self._timers) >= MAX_ALARMS:
            raise Rejection(
                "not_allowed", f"{MAX_ALARMS} alarms are pending, the maximum of a session"
            )
        self._timers[alarm_id] = self._clock.at(at_s, Rank.ALARM, self._on_alarm, alarm_id)

    def cancel(self, alarm_id: int) -> None:
        """Cancel a pending alarm.

        Raises:
            Rejection: no pending alarm has this id.
        """
        timer = self._timers.pop(alarm_id, None)
        if timer is None:
            raise Rejection("unknown_alarm", f"cancel_alarm: alarm {alarm_id} is not pending")
        self._clock.cancel(timer)

    def _on_alarm(self, timer: Timer) -> None:
        del self._timers[timer.subject]
        self._emit(Alarm(self._clock.now, timer.subject))


class Engine:
    """A cluster, its jobs and its clock, without scheduling policy, sockets or files.

    The order of events at one instant is: jobs end, nodes change their power states, signals
    change, jobs are submitted, alarms go off (`Rank`). Events of equal rank keep the order in which
    their timers were set.

    Args:
        rules: options of the simulation; None selects the defaults of `Rules`.
        rng: generator for the durations of power state transitions that have a standard
            deviation; None selects a generator with seed 0.
        rates: price and carbon intensity of the energy; they have no effect on the simulation.
        signals: signals to report to the scheduler, by default none.
        site_events: failures of nodes and actions on jobs, by default none.
        failure_rng: generator for random failures and repairs; None selects a generator with
            seed 0.

    Attributes:
        resources: memory, devices and licences that jobs hold beside their cores.
        actions: pending actions of users and administrators on jobs.
        jobs: the submitted jobs that are not over.
        job_ids: job ids in use; maintained only with `rules.dynamic_jobs`.
        switching: the pending transitions of power states.
        end_timers: timers for the ends of running jobs.
        graces: jobs that end after a time of grace.
        all_submitted: whether every job of the workload has been submitted.
        outbox: events that no front end has taken yet.
    """

    def __init__(
        self,
        platform: Platform,
        jobs: JobTable,
        rules: Rules | None = None,
        rng: np.random.Generator | None = None,
        rates: Rates = UNKNOWN,
        signals: Iterable[Signal] = (),
        site_events: SiteEvents = NO_SITE_EVENTS,
        failure_rng: np.random.Generator | None = None,
    ) -> None:
        self.rules = rules = rules or Rules()
        self.rates = rates
        first_s = float(jobs.submit_s[0]) if len(jobs) else 0.0
        self.start_s = first_s if rules.initial_time_s is None else rules.initial_time_s
        self.clock = Clock(self.start_s)
        self.cluster = Cluster(platform, self.start_s)
        self.power = NodePower(self.cluster, rng or np.random.default_rng(0))
        self.recording = Recording()
        self.outbox = Outbox()
        self.all_submitted = False
        self.jobs = JobRegister(self.recording)
        self.job_ids = set(jobs.job_id.tolist()) if rules.dynamic_jobs else set()
        self.alarms = Alarms(self.clock, self.outbox.add)
        self.switching = Switching(
            self.clock, self.power, self.recording, self.outbox.add, self.start
        )
        execution = Execution(platform, rules.reference_ghz)
        self.end_timers = EndTimers(self.clock, execution, rules.kill_at_walltime, self.end)
        self._future_jobs = jobs.rows()
        self.resources = Resources(platform)
        self.availability = Availability()
        histories = Histories(self.jobs, self.recording, jobs)
        self.eligibility = Eligibility(
            self.clock, self.jobs, histories, self.outbox.add, self.end, self.drop_hopeless
        )
        self.graces = Graces(self.clock)
        self.actions = JobActions(self, site_events.job_actions)
        self.node_kinds = NodeKinds(self.clock, self.cluster, self.recording)
        self.outbox.add(SimulationBegan(self.start_s))
        self.signals = Signals(self.clock, self.outbox.add_signal, signals)
        self.node_changes = NodeChanges(
            self.clock,
            site_events,
            failure_rng or np.random.default_rng(0),
            lambda kind, node: change_node(self, kind, node),
        )
        self._await_submission()

    @property
    def now_s(self) -> float:
        """Current simulation time, s."""
        return self.clock.now

    @property
    def is_over(self) -> bool:
        """Whether every job is over and no further job can be submitted.

        With `rules.dynamic_jobs`, a pending alarm keeps the simulation open: the scheduler may
        submit jobs when it goes off.
        """
        return (
            self.all_submitted
            and self.jobs.is_empty
            and not (self.rules.dynamic_jobs and self.alarms)
        )

    def settle(self) -> None:
        """Integrate the energy of all nodes up to now."""
        self.cluster.settle(self.clock.now)

    def record(self) -> RunRecord:
        """Return the run up to now as plain data; it is valid until the next change of state."""
        return record_of(self.cluster, self.recording, self.start_s, self.now_s, self.rates)

    def validate(self) -> None:
        """Check the invariants of `validation`. The engine is unchanged.

        Raises:
            InvariantError: an invariant is violated; the simulator has a bug.
        """
        check_cores(self.cluster, self.jobs)
        check_resources(self.resources, self.jobs)
        check_jobs(self.jobs, self.recording, self.power, self.now_s)
        check_energy(self.cluster, self.recording, self.start_s, self.now_s)

    # Jobs

    def admission_error(self, spec: JobSpec) -> str:
        """Return the reason to reject a job at its submission; empty if it enters the queue.

        The engine rejects a job that cannot run on the empty cluster. A front end may override
        this method.
        """
        return infeasibility(self.cluster, spec)

    def submit(self, spec: JobSpec) -> None:
        """Submit a job now. Its job id is unused."""
        row = self.recording.submitted(spec)
        if reason := self.admission_error(spec):
            self.recording.ended(row, self.clock.now, "rejected", reason)
            self.eligibility.rejected(spec.job_id)
            return
        job = SimulatedJob(spec, row)
        self.jobs.add(job)
        if spec.request is None and not self.eligibility.is_used:
            self.outbox.add(submission_of(spec))
            return
        self.eligibility.enter(job)
        self.outbox.add((ineligible_submission_of if job.blocked else submission_of)(spec))
        self.eligibility.settle()

    def allocate(
        self, job: SimulatedJob, nodes: list[int], tasks: list[int], grant: Grant | None = None
    ) -> None:
        """Allocate nodes to a waiting job. It starts when all of them are on.

        Args:
            nodes: distinct node numbers; none of the nodes is being switched off.
            tasks: number of tasks on each of `nodes`.
            grant: what the job holds beside its tasks; None: what its placement implies.
        """
        spec, now_s = job.spec, self.clock.now
        job.nodes, job.tasks = nodes, tasks
        if grant is None:
            job.held = self.cluster.hold(nodes, tasks, spec.placement == "whole_nodes")
        else:
            job.held = self.cluster.hold(nodes, tasks, grant.whole)
            self.resources.hold(grant.resources)
            job.resources = grant.resources
        job.allocated_s = now_s
        if not self.power.nodes_off or self.power.are_on(nodes):
            self.start(job)
        else:
            self.jobs.move(job, "allocated")
            self.outbox.add(JobAllocated(now_s, spec.job_id, nodes, tasks))
            self.switching.switch_on_for(job)

    def start(self, job: SimulatedJob) -> None:
        """Start a job on its allocated nodes, which are all on."""
        now_s = self.clock.now
        self.jobs.move(job, "running")
        job.parts = self.cluster.occupy(now_s, job.nodes, job.tasks)
        job.started_s = now_s
        if job.spec.request is not None:
            self.end_timers.begin(job)
        self.end_timers.set(job)
        self.recording.started(job.row, now_s, job.nodes, job.tasks)
        self.outbox.add(
            JobStarted(now_s, job.spec.job_id, job.nodes, job.tasks)
            if job.resources is None
            else start_of(job)
        )
        if self.eligibility.is_used:
            self.eligibility.started(job)

    def end(self, job: SimulatedJob, final_state: JobState, reason: str = "") -> None:
        """End a job that is not over and release what it holds.

        Args:
            reason: reason of the end, for the results; empty: none.
        """
        now_s = self.clock.now
        before = job.state
        self.jobs.move(job, "over")
        if job.nodes:
            if final_state in LOST:
                self.recording.lost(job.row, lost_work(self, job, before))
            leave(self, job, before, now_s)
        self.recording.ended(job.row, now_s, final_state, reason)
        self.outbox.add(JobCompleted(now_s, job.spec.job_id, final_state))
        if self.eligibility.is_used:
            self.eligibility.over(job)
            self.drop_hopeless()

    def drop_hopeless(self) -> None:
        """End waiting jobs that can never start, once nothing else can happen.

        Such jobs are held and never released, depend on each other, or the scheduler has given them
        up (`RejectJob.at_end`). The simulation ends.
        """
        if self.all_submitted and not self.jobs.has_placed and not self.actions.pending:
            self.eligibility.give_up()

    # Submissions

    def _await_submission(self) -> None:
        for spec in self._future_jobs:
            self.clock.at(spec.submit_s, Rank.SUBMISSION, self._on_submission, spec)
            return
        self.all_submitted = True
        self.outbox.add(NoMoreJobs(self.clock.now))

    def _on_submission(self, timer: Timer) -> None:
        self.submit(timer.subject)
        self._await_submission()
        if self.all_submitted and self.eligibility.is_used:
            self.drop_hopeless()


@dataclass(frozen=True, slots=True)
class Rules:
    """Options of a simulation.

    Attributes:
        reference_ghz: clock at which run times hold, GHz, at one operation per cycle; run times
            scale with `reference_ghz` / core speed. It applies to jobs without operations. None:
            their run times hold on every node.
        kill_at_walltime: whether a job is killed at its requested time.
        dynamic_jobs: whether the scheduler may submit jobs.
        wake_on_allocation: whether an allocation may contain sleeping nodes or nodes that are
            being switched on. The engine switches on the sleeping ones. The job starts when all
            are on.
        initial_time_s: initial simulation time, s, at most the first submission time; None: the
            first submission time.
        stuck_after_wakeups: number of wake-ups of the scheduler in a row, without a job that is
            submitted, starts or ends, after which the simulation is stuck. While a job runs or is
            due otherwise, it is `WAKEUPS_WHILE_DUE` times this number. Jobs that are requeued
            more often than this between two ends or submissions are stuck as well.
        max_jobs: maximum number of jobs in a session.
        validate: whether the simulation checks its invariants after each batch. Each check replays
            the whole recording and is slow.
    """

    reference_ghz: float | None = None
    kill_at_walltime: bool = False
    dynamic_jobs: bool = False
    wake_on_allocation: bool = True
    initial_time_s: float | None = None
    stuck_after_wakeups: int = 50_000
    max_jobs: int = 2_000_000
    validate: bool = False
