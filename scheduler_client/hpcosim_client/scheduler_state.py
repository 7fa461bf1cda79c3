"""The state of the cluster as a scheduler knows it: queue, running jobs and nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from hpcosim_client.job_states import JOB_HANDLERS, JobStates
from hpcosim_client.queue import JobQueue
from hpcosim_client.signals import Signal
from hpcosim_protocol import (
    Alarm,
    DecisionRejected,
    Event,
    NodeDrained,
    NodeFailed,
    NodePowerChanged,
    NodeRepaired,
    NoMoreJobs,
    Platform,
    PowerState,
    SignalChanged,
)


class SchedulerState(JobStates):
    """The state of the cluster, updated by events. `View` adds the decisions.

    Args:
        platform: the cluster's description.
        wake_on_allocation: whether an allocation switches its sleeping nodes on. If not, only nodes
            that are on can be allocated.

    Attributes:
        platform, wake_on_allocation: the arguments.
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
        super().__init__(platform)
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
    **JOB_HANDLERS,
    NodeFailed: SchedulerState._on_node_failed,
    NodeDrained: SchedulerState._on_node_drained,
    NodeRepaired: SchedulerState._on_node_repaired,
    DecisionRejected: SchedulerState._on_rejected,
    NodePowerChanged: SchedulerState._on_power_changed,
    Alarm: SchedulerState._on_alarm,
    SignalChanged: SchedulerState._on_signal,
    NoMoreJobs: SchedulerState._on_no_more_jobs,
}
