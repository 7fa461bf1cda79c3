"""The state of the cluster as a scheduler knows it: queue, running jobs, nodes and signals."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Allocation, Floats, Job
from hpcosim_client.nodes import NodePool
from hpcosim_protocol import (
    Alarm,
    DecisionRejected,
    Event,
    JobAllocated,
    JobCompleted,
    JobEligible,
    JobHeld,
    JobRequeued,
    JobResumed,
    JobStarted,
    JobSubmitted,
    JobSuspended,
    JobUpdated,
    NodeDrained,
    NodeFailed,
    NodePowerChanged,
    NodeRepaired,
    NoMoreJobs,
    Placement,
    Platform,
    PowerState,
    SignalChanged,
)


class SchedulerState:
    """The state of the cluster, updated by events. `View` adds the decisions.

    Args:
        platform: the cluster's description.
        wake_on_allocation: whether an allocation switches its sleeping nodes on. If not, only nodes
            that are on can be allocated.

    Attributes:
        now_s: simulated time, in seconds.
        queue: waiting jobs that may start, by number, in submission order; safe to iterate while
            jobs start.
        pending: the other waiting jobs by number: their begin time is not reached, dependencies are
            not met, or somebody holds them.
        running: running jobs by number, including those just started and those whose nodes boot.
        suspended: suspended jobs by number; they hold resources other than cores.
        nodes: free resources and power states of the nodes.
        arrived: jobs that joined the queue since the last decisions, in that order; also jobs of
            the queue whose request changed.
        left: jobs that stopped running since the last decisions; also those that wait again.
        alarms: numbers of the alarms that went off since the last decisions.
        pending_alarms: simulated second of each alarm that is set, by number.
        rejected: decisions that the server rejected since the last decisions.
        placements: the kinds of placement that jobs have requested so far.
        is_plain: whether all jobs so far only need cores (`Job.demand` is None), and no node has
            failed or been drained.
        signals: value and forecast of each signal, by name, such as `power_cap_w`.
        no_more_jobs: whether the last job of the workload has been submitted.
    """

    def __init__(self, platform: Platform, *, wake_on_allocation: bool = True) -> None:
        self.platform = platform
        self.now_s = 0.0
        self.queue = JobQueue()
        self.pending: dict[int, Job] = {}
        self.running: dict[int, Job] = {}
        self.suspended: dict[int, Job] = {}
        self.nodes = NodePool(platform)
        self.arrived: list[Job] = []
        self.left: list[Job] = []
        self.placements: set[Placement] = set()
        self.is_plain = True
        self._is_plain_platform = self.nodes.demands.is_plain
        self._suspended_at_s: dict[int, float] = {}
        self._submissions = 0
        self.wake_on_allocation = wake_on_allocation
        self.alarms: list[int] = []
        self.pending_alarms: dict[int, float] = {}
        self.rejected: list[DecisionRejected] = []
        self.signals: dict[str, Signal] = {}
        self.no_more_jobs = False
        # Node of each decision to switch, by the index of the decision in the message.
        self._switched: dict[int, int] = {}
        # Power state of these nodes as the server last reported it, and since when.
        self._reported: dict[int, tuple[PowerState, float]] = {}
        self._any_off = False  # whether any node was ever off

    def apply(self, now_s: float, events: Iterable[Event]) -> None:
        """Apply the events up to `now_s`, and clear what earlier events left in the attributes."""
        self.now_s = self.nodes.now_s = now_s
        self.arrived, self.left, self.alarms, self.rejected = [], [], [], []
        for event in events:
            handler = _HANDLERS.get(type(event))
            if handler is not None:
                handler(self, event)
        if self._reported:
            self._switched, self._reported = {}, {}

    def _on_submitted(self, event: JobSubmitted) -> None:
        job = Job(
            event.job_id,
            event.time_s,
            event.cores,
            event.requested_s,
            event.placement,
            self._submissions,
            event.memory_mb,
            event.memory_volume_mb,
            math.inf if event.max_energy_j is None else event.max_energy_j,
            event.profile,
            math.inf if event.deadline_s is None else event.deadline_s,
            event.user,
            event.group,
            event.account,
            event.qos,
            event.partitions,
            event.request,
        )
        self._submissions += 1
        self.placements.add(event.placement)
        if event.request is not None or not self._is_plain_platform:
            job.demand = self.nodes.demands.of(job)
            self.is_plain = self.is_plain and job.demand is None
        if not event.eligible:
            self.pending[event.job_id] = job
            return
        self.queue[event.job_id] = job
        self.arrived.append(job)

    def _on_eligible(self, event: JobEligible) -> None:
        job = self.pending.pop(event.job_id, None)
        if job is not None:
            self._join_queue(job)

    def _on_held(self, event: JobHeld) -> None:
        job = self.queue.pop(event.job_id, None)
        if job is not None:
            self.pending[event.job_id] = job
            self.arrived = [other for other in self.arrived if other is not job]

    def _on_updated(self, event: JobUpdated) -> None:
        job = self.job(event.job_id)
        if job is None:
            return
        job.requested_s, job.request = event.requested_s, event.request
        job.demand = self.nodes.demands.of(job)
        if job.demand is not None:
            self.is_plain = False
        if event.job_id in self.queue and job not in self.arrived:
            self.arrived.append(job)

    def job(self, job_id: int) -> Job | None:
        """Return a waiting, running or suspended job by number; None: there is none."""
        for jobs in (self.queue, self.running, self.pending, self.suspended):
            if job_id in jobs:
                return jobs[job_id]
        return None

    def _join_queue(self, job: Job) -> None:
        """Insert a job into the queue, which is in submission order."""
        last = next(reversed(self.queue), None)
        behind = last is None or self.queue[last].order < job.order
        self.queue[job.job_id] = job
        if not behind:
            self.queue = JobQueue(sorted(self.queue.items(), key=lambda item: item[1].order))
        self.arrived.append(job)

    def _on_started(self, event: JobStarted) -> None:
        job = self.running.get(event.job_id) or self._restored(event)
        job.start_s = event.time_s

    def _on_allocated(self, event: JobAllocated) -> None:
        job = self.running.get(event.job_id) or self._restored(event)
        job.start_s = event.time_s
        if job.allocation is not None:
            job.start_s = self._ready_s(job.allocation, event.time_s)

    def _restored(self, event: JobStarted | JobAllocated) -> Job:
        """Move a job to the running ones that runs in a snapshot, and return it."""
        job = self.queue.pop(event.job_id)
        self.arrived = [other for other in self.arrived if other is not job]
        job.allocation = self._allocation_of(job, event)
        self.nodes.take(job.allocation, of_snapshot=True)
        self.running[event.job_id] = job
        return job

    def _allocation_of(self, job: Job, event: JobStarted | JobAllocated) -> Allocation:
        """Return the allocation of a job that runs in a snapshot."""
        nodes, tasks = np.array(event.nodes), np.array(event.cores)
        gres = event.gres if isinstance(event, JobStarted) else []
        found = self.nodes.complete(job, nodes, tasks, gres)
        if found is not None:
            return found
        # A reservation or a drained node does not end the job that is there.
        held = self.nodes.capacity[nodes] if job.placement == "whole_nodes" else tasks
        return Allocation(nodes, tasks, held, int(held.sum()))

    def _on_completed(self, event: JobCompleted) -> None:
        job = self.running.pop(event.job_id, None)
        if job is not None:
            job.ended_as = event.state
            if job.allocation is not None:
                self.nodes.give_back(job.allocation)
            self.left.append(job)
        elif self.queue.pop(event.job_id, None) is None:
            self.pending.pop(event.job_id, None)
            self._leave_suspended(event.job_id)

    def _on_suspended(self, event: JobSuspended) -> None:
        self._suspend(event.job_id, event.time_s)

    def _on_resumed(self, event: JobResumed) -> None:
        self._resume(event.job_id, event.time_s)

    def _suspend(self, job_id: int, at_s: float) -> None:
        """Move a running job to the suspended ones, unless a decision has done so."""
        job = self.running.pop(job_id, None)
        if job is not None:
            self.suspended[job_id] = job
            self._suspended_at_s[job_id] = at_s
            if job.allocation is not None:
                self.nodes.suspend(job.allocation)

    def _resume(self, job_id: int, at_s: float) -> None:
        """Move a suspended job to the running ones, unless a decision has done so."""
        job = self.suspended.pop(job_id, None)
        if job is not None:
            self.running[job_id] = job
            job.suspended_s += at_s - self._suspended_at_s.pop(job_id)
            if job.allocation is not None:
                self.nodes.resume(job.allocation)

    def _on_requeued(self, event: JobRequeued) -> None:
        job = self.running.pop(event.job_id, None)
        if job is None:
            job = self._leave_suspended(event.job_id)
        elif job.allocation is not None:
            self.nodes.give_back(job.allocation)
        if job is None:  # of a snapshot
            job = self.queue.pop(event.job_id, None)
            self.arrived = [other for other in self.arrived if other is not job]
        elif job not in self.left:
            self.left.append(job)
        if job is not None:
            job.runs += 1
            job.allocation, job.start_s, job.suspended_s = None, math.nan, 0.0
            job.explanation = None
            self.pending[event.job_id] = job

    def _leave_suspended(self, job_id: int) -> Job | None:
        """Remove a suspended job that is over or waits again, and free what it holds."""
        job = self.suspended.pop(job_id, None)
        if job is not None:
            del self._suspended_at_s[job_id]
            if job.allocation is not None:
                self.nodes.give_back(job.allocation, suspended=True)
            self.left.append(job)
        return job

    def _ready_s(self, allocation: Allocation, at_s: float) -> float:
        """Return when the last node of an allocation made at `at_s` is expected to be on."""
        return float(self.nodes.expected_on_s(at_s)[allocation.nodes].max())

    def _on_rejected(self, event: DecisionRejected) -> None:
        self.rejected.append(event)
        if event.decision == "set_node_power" and event.index in self._switched:
            node = self._switched[event.index]
            self._set_power(node, *self._reported[node])
        if event.decision == "suspend_job" and event.job_id is not None:
            self._resume(event.job_id, event.time_s)
        if event.decision == "resume_job" and event.job_id is not None:
            self._suspend(event.job_id, event.time_s)
        if event.decision != "allocate_job" or event.job_id is None:
            return
        job = self.running.get(event.job_id)
        if job is None or event.code in _JOB_DID_NOT_WAIT:
            return
        del self.running[event.job_id]
        if job.allocation is not None:
            self.nodes.give_back(job.allocation)
        job.allocation, job.start_s = None, np.nan
        if event.code == "job_not_eligible":
            self.pending[event.job_id] = job
            return
        self.queue[event.job_id] = job
        self.queue = JobQueue(sorted(self.queue.items(), key=lambda item: item[1].order))
        self.arrived.append(job)

    def _on_power_changed(self, event: NodePowerChanged) -> None:
        if event.node in self._reported:
            self._reported[event.node] = (event.state, event.time_s)
        self._set_power(event.node, event.state, event.time_s)

    def _set_power(self, node: int, state: PowerState, since_s: float) -> None:
        returns_s = None
        if state == "switching_off" and self.wake_on_allocation:
            returns_s = since_s + float(self.nodes.switch_off_s[node])
        elif state != "on" and not self.wake_on_allocation:
            returns_s = math.inf
        self.nodes.set_power(node, state, since_s, returns_s)
        self._any_off = True

    def _on_node_failed(self, event: NodeFailed) -> None:
        self.is_plain = False
        self.nodes.fail(event.node)

    def _on_node_drained(self, event: NodeDrained) -> None:
        self.is_plain = False
        self.nodes.drain(event.node)

    def _on_node_repaired(self, event: NodeRepaired) -> None:
        self.nodes.repair(event.node, event.time_s)

    def _on_alarm(self, event: Alarm) -> None:
        self.alarms.append(event.alarm_id)
        self.pending_alarms.pop(event.alarm_id, None)

    def _on_signal(self, event: SignalChanged) -> None:
        self.signals[event.name] = Signal(event.time_s, event.value, event.forecast)

    def _on_no_more_jobs(self, _: NoMoreJobs) -> None:
        self.no_more_jobs = True


# With these codes the job of a rejected allocation was not waiting: it does not requeue.
_JOB_DID_NOT_WAIT = frozenset({"unknown_job", "job_not_waiting"})

_HANDLERS: dict[type, Callable[[Any, Any], None]] = {
    JobSubmitted: SchedulerState._on_submitted,
    JobAllocated: SchedulerState._on_allocated,
    JobStarted: SchedulerState._on_started,
    JobCompleted: SchedulerState._on_completed,
    JobEligible: SchedulerState._on_eligible,
    JobHeld: SchedulerState._on_held,
    JobUpdated: SchedulerState._on_updated,
    JobSuspended: SchedulerState._on_suspended,
    JobResumed: SchedulerState._on_resumed,
    JobRequeued: SchedulerState._on_requeued,
    NodeFailed: SchedulerState._on_node_failed,
    NodeDrained: SchedulerState._on_node_drained,
    NodeRepaired: SchedulerState._on_node_repaired,
    DecisionRejected: SchedulerState._on_rejected,
    NodePowerChanged: SchedulerState._on_power_changed,
    Alarm: SchedulerState._on_alarm,
    SignalChanged: SchedulerState._on_signal,
    NoMoreJobs: SchedulerState._on_no_more_jobs,
}


class JobQueue(dict[int, Job]):
    """Waiting jobs by number, in submission order.

    Every iteration is over a copy, so a policy may start jobs while it iterates:

        for job in view.queue.values():
            view.start(job)
    """

    def __init__(self, jobs: Iterable[tuple[int, Job]] = ()) -> None:
        super().__init__(jobs)
        # A dictionary finds its first key in the time of all keys that were removed before it.
        # The numbers in the order of the queue; those of jobs that left are removed at either end.
        self._numbers = deque(super().keys())

    def __setitem__(self, number: int, job: Job) -> None:
        numbers = self._numbers
        while numbers and numbers[-1] not in self:
            numbers.pop()
        if number not in self:
            numbers.append(number)
        super().__setitem__(number, job)

    def first(self) -> Job:
        """Return the job at the head of the queue, without a copy."""
        numbers = self._numbers
        while numbers:
            if numbers[0] in self:
                return self[numbers[0]]
            numbers.popleft()
        return next(iter(super().values()))

    def first_jobs(self, count: int) -> list[Job]:
        """Return the first jobs, at most `count`, without a copy of the queue."""
        return list(islice(super().values(), count))

    def values(self) -> list[Job]:  # type: ignore[override]  # a copy instead of a view
        """Return the jobs that wait now."""
        return list(super().values())

    def items(self) -> list[tuple[int, Job]]:  # type: ignore[override]
        """Return the numbers and the jobs that wait now."""
        return list(super().items())

    def keys(self) -> list[int]:  # type: ignore[override]
        """Return the numbers of the jobs that wait now."""
        return list(super().__iter__())

    def __iter__(self) -> Iterator[int]:
        return iter(list(super().__iter__()))

    def __reduce__(self) -> tuple[Any, ...]:  # copies and pickles set the items first otherwise
        return JobQueue, (self.items(),)


@dataclass(frozen=True)
class Signal:
    """Value and forecast of a signal.

    A forecast value holds until the next forecast change, and the last one for ever.

    Attributes:
        since_s: time of the last event of the signal, simulated seconds.
        value: value since then, in the unit of the signal.
        forecast: the next changes: simulated second and value from then on, ascending by time.
    """

    since_s: float
    value: float
    forecast: Sequence[tuple[float, float]] = ()

    @property
    def known_until_s(self) -> float:
        """Time of the last change in the forecast, simulated seconds."""
        return self.forecast[-1][0] if self.forecast else self.since_s

    @cached_property
    def times_s(self) -> Floats:
        """float64[steps], begin of each step of value and forecast, simulated seconds."""
        return np.array([self.since_s, *(at_s for at_s, _ in self.forecast)])

    @cached_property
    def values(self) -> Floats:
        """float64[steps], value of each step."""
        return np.array([self.value, *(value for _, value in self.forecast)])

    def integrals(self, until_s: Floats) -> Floats:
        """Return the integral from `since_s` to each of these times, in the unit times seconds.

        Args:
            until_s: float64[n], simulated seconds, not before `since_s`.
        """
        step = np.searchsorted(self.times_s, until_s, side="right") - 1
        integrals: Floats = self._before[step] + self.values[step] * (until_s - self.times_s[step])
        return integrals

    @cached_property
    def _before(self) -> Floats:
        """float64[steps], integral up to the begin of each step."""
        return np.append(0.0, np.cumsum(self.values[:-1] * np.diff(self.times_s)))


def signal_of(signals: Mapping[str, Signal], name: str, scheduler: str) -> Signal:
    """Return a signal that a scheduler needs.

    Raises:
        PolicyError: the simulation has no such signal.
    """
    if name in signals:
        return signals[name]
    known = f"has only the signals {', '.join(signals)}" if signals else "has no signals"
    raise PolicyError(
        f"{scheduler} needs the signal {name}, but the simulation {known}; add signals.{name} to "
        "the scenario"
    )
