"""The state of the cluster as a scheduler knows it: queue, running jobs and nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from hpcosim_client.job import Allocation, Job
from hpcosim_client.nodes import NodePool
from hpcosim_client.queue import JobQueue
from hpcosim_client.signals import Signal
from hpcosim_protocol import (
    Alarm,
    DecisionRejected,
    Event,
    JobAllocated,
    JobCompleted,
    JobStarted,
    JobSubmitted,
    NodePowerChanged,
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
        platform, wake_on_allocation: the arguments.
        now_s: simulated time, in seconds.
        queue: waiting jobs by number, in submission order; safe to iterate while jobs start.
        running: running jobs by number, including those just started and those whose nodes boot.
        nodes: free cores and power states of the nodes.
        arrived: jobs that joined the queue since the last decisions, in that order.
        left: jobs that stopped running since the last decisions.
        alarms: numbers of the alarms that went off since the last decisions.
        pending_alarms: simulated second of each alarm that is set, by number.
        rejected: decisions that the server rejected since the last decisions.
        placements: the kinds of placement that jobs have requested so far.
        signals: value and forecast of each signal, by name, such as `power_cap_w`.
        no_more_jobs: whether the last job of the workload has been submitted.
    """

    def __init__(self, platform: Platform, *, wake_on_allocation: bool = True) -> None:
        self.platform = platform
        self.wake_on_allocation = wake_on_allocation
        self.now_s = 0.0
        self.queue = JobQueue()
        self.running: dict[int, Job] = {}
        self.nodes = NodePool(platform)
        self.arrived: list[Job] = []
        self.left: list[Job] = []
        self.alarms: list[int] = []
        self.pending_alarms: dict[int, float] = {}
        self.rejected: list[DecisionRejected] = []
        self.placements: set[Placement] = set()
        self.signals: dict[str, Signal] = {}
        self.no_more_jobs = False
        # Node of each decision to switch, by the index of the decision in the message.
        self._switched: dict[int, int] = {}
        # Power state of these nodes as the server last reported it, and since when.
        self._reported: dict[int, tuple[PowerState, float]] = {}
        self._submissions = 0
        self._any_off = False  # whether any node was ever off

    def apply(self, now_s: float, events: Iterable[Event]) -> None:
        """Apply the events up to `now_s`, and clear what earlier events left in the attributes."""
        self.now_s = now_s
        self.arrived, self.left, self.alarms, self.rejected = [], [], [], []
        for event in events:
            handler = _HANDLERS.get(type(event))
            if handler is not None:
                handler(self, event)
        self._switched, self._reported = {}, {}

    def _on_submitted(self, event: JobSubmitted) -> None:
        job = Job(
            event.job_id,
            event.time_s,
            event.cores,
            event.requested_s,
            event.placement,
            self._submissions,
            memory_mb=event.memory_mb,
            memory_volume_mb=event.memory_volume_mb,
            max_energy_j=math.inf if event.max_energy_j is None else event.max_energy_j,
            profile=event.profile,
            deadline_s=math.inf if event.deadline_s is None else event.deadline_s,
            user=event.user,
            group=event.group,
            account=event.account,
            qos=event.qos,
            partitions=event.partitions,
            request=event.request,
        )
        self._submissions += 1
        self.placements.add(event.placement)
        self.queue[event.job_id] = job
        self.arrived.append(job)

    def _on_started(self, event: JobStarted | JobAllocated) -> None:
        job = self.running.get(event.job_id)
        if job is None:  # of a snapshot
            job = self.queue.pop(event.job_id)
            self.arrived = [other for other in self.arrived if other is not job]
            nodes, tasks = np.array(event.nodes), np.array(event.cores)
            held = self.nodes.capacity[nodes] if job.placement == "whole_nodes" else tasks
            job.allocation = Allocation(nodes, tasks, held, int(held.sum()))
            self.nodes.take(job.allocation)
            self.running[event.job_id] = job
        job.start_s = event.time_s
        if isinstance(event, JobAllocated) and job.allocation is not None:
            job.start_s = self._ready_s(job.allocation, event.time_s)

    def _on_completed(self, event: JobCompleted) -> None:
        job = self.running.pop(event.job_id, None)
        if job is None:
            self.queue.pop(event.job_id, None)
            return
        if job.allocation is not None:
            self.nodes.give_back(job.allocation)
        self.left.append(job)

    def _on_rejected(self, event: DecisionRejected) -> None:
        self.rejected.append(event)
        if event.decision == "set_node_power" and event.index in self._switched:
            node = self._switched[event.index]
            self._set_power(node, *self._reported[node])
        if event.decision != "allocate_job" or event.job_id is None:
            return
        job = self.running.get(event.job_id)
        if job is None or event.code in _JOB_DID_NOT_WAIT:
            return
        del self.running[event.job_id]
        if job.allocation is not None:
            self.nodes.give_back(job.allocation)
        job.allocation, job.start_s = None, np.nan
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

    def _ready_s(self, allocation: Allocation, at_s: float) -> float:
        """Return when the last node of an allocation made at `at_s` is expected to be on."""
        return float(self.nodes.expected_on_s(at_s)[allocation.nodes].max())

    def _on_alarm(self, event: Alarm) -> None:
        self.alarms.append(event.alarm_id)
        self.pending_alarms.pop(event.alarm_id, None)

    def _on_signal(self, event: SignalChanged) -> None:
        self.signals[event.name] = Signal(event.time_s, event.value, event.forecast)

    def _on_no_more_jobs(self, _: NoMoreJobs) -> None:
        self.no_more_jobs = True


# With these codes the job of a rejected allocation was not waiting: it does not requeue.
_JOB_DID_NOT_WAIT = frozenset({"unknown_job", "job_not_waiting"})

_HANDLERS: dict[type, Callable[[SchedulerState, Any], None]] = {
    JobSubmitted: SchedulerState._on_submitted,
    JobAllocated: SchedulerState._on_started,
    JobStarted: SchedulerState._on_started,
    JobCompleted: SchedulerState._on_completed,
    DecisionRejected: SchedulerState._on_rejected,
    NodePowerChanged: SchedulerState._on_power_changed,
    Alarm: SchedulerState._on_alarm,
    SignalChanged: SchedulerState._on_signal,
    NoMoreJobs: SchedulerState._on_no_more_jobs,
}
