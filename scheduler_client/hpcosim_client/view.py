"""The scheduler's mirror of queue, running jobs and nodes, kept up to date by the events."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Job, Place
from hpcosim_client.nodes import NodePool, fill, usable_nodes
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
    JobSubmitted,
    KillJob,
    NodePowerChanged,
    NoMoreJobs,
    Placement,
    Platform,
    PowerState,
    RejectJob,
    SetAlarm,
    SetNodePower,
    SubmitJob,
)

POLICY = 2  # sets a policy's draws apart from those of the workload and of the simulator


class View:
    """All a policy sees, and the pen it decides with.

    A job `start`ed here leaves the queue and holds its cores at once, so that a policy can go
    on deciding; should the server reject the decision, both come back.

    Attributes:
        platform: the cluster's description.
        wake_on_allocation: nodes that sleep, or are being switched on, may be given to jobs.
        rng: the policy's source of chance, from the simulation's seed.
        now_s: simulated time.
        queue: waiting jobs by number, in submission order.
        running: running jobs by number (and those whose start was just asked for, and those
            whose nodes are being switched on for them).
        nodes: free cores by node.
        arrived: jobs that joined the queue since the last decision, in that order.
        left: jobs that stopped running since the last decision.
        alarms: numbers of the alarms that went off since the last decision.
        rejected: decisions that were rejected since the last decision.
        placements: the kinds of placement asked for so far.
        no_more_jobs: the last job of the workload has been submitted.
        wake_on: what to be woken for next time; None: the protocol's default. Reset to that
            before each decision.
        wait_price_w: energy that a second of a job's wait is worth, J/s, to a job scheduler that is
            aware of power states; infinity: any, no job waits longer to save some. A power
            manager's to set.
        elapsed_s: simulated seconds the policy's thinking takes this time; reset to 0.
        decisions: what has been decided since the last answer.
    """

    def __init__(
        self, platform: Platform, seed: int = 0, *, wake_on_allocation: bool = True
    ) -> None:
        self.platform = platform
        self.wake_on_allocation = wake_on_allocation
        self.rng = np.random.default_rng([seed, POLICY])
        self.now_s = 0.0
        self.queue: OrderedDict[int, Job] = OrderedDict()
        self.running: dict[int, Job] = {}
        self.nodes = NodePool(platform)
        self.arrived: list[Job] = []
        self.left: list[Job] = []
        self.alarms: list[int] = []
        self.rejected: list[DecisionRejected] = []
        self.placements: set[Placement] = set()
        self.no_more_jobs = False
        self.wake_on: Collection[EventKind] | None = None
        self.elapsed_s = 0.0
        self.wait_price_w = math.inf
        self.decisions: list[Decision] = []
        self._switched: dict[int, int] = {}  # nodes, by the decision's place in the message
        self._told: dict[int, tuple[PowerState, float]] = {}  # what these are unless switched
        self._heard_of = 0
        self._any_off = False  # whether any node ever was not on

    # What the policy does

    def start(self, job: Job, nodes: Sequence[int] | None = None) -> bool:
        """Start a waiting job, and return whether there was room for it.

        Args:
            job: it.
            nodes: on those of these nodes it may use, filled in this order, as many as it takes;
                None: on the lowest-numbered.

        Raises:
            PolicyError: the job does not wait.
        """
        place = self.nodes.find(job) if nodes is None else self._place_on(job, nodes)
        if place is None:
            return False
        self._start(job, place)
        return True

    def start_at(self, job: Job, place: Place) -> bool:
        """Start a waiting job just there, and return whether there was room for it.

        Raises:
            PolicyError: the job does not wait.
        """
        if (self.nodes.free[place.nodes] < place.held).any():
            return False
        self._start(job, place)
        return True

    def reject(self, job: Job) -> None:
        """Turn a waiting job away."""
        self.decisions.append(RejectJob(job.job_id))

    def kill(self, job: Job) -> None:
        """End a running job."""
        self.decisions.append(KillJob(job.job_id))

    def set_alarm(self, at_s: float, alarm_id: int = 0) -> None:
        """Ask to be woken at a time; an alarm of the same number is replaced."""
        self.decisions.append(SetAlarm(at_s, alarm_id))

    def cancel_alarm(self, alarm_id: int = 0) -> None:
        """Forget an alarm."""
        self.decisions.append(CancelAlarm(alarm_id))

    def set_node_power(self, node: int, *, on: bool) -> None:
        """Switch a node on, or off.

        The view has it so at once: a node to be switched off is not given to a job any more.
        Should the server reject it, the node is what it was.

        Raises:
            PolicyError: there is no such node.
        """
        if not 0 <= node < len(self.nodes.free):
            raise PolicyError(f"node {node} can't be switched: there is none")
        node = int(node)
        self._switched[len(self.decisions)] = node
        told = (self.nodes.power[node], self.nodes.power_since_s[node])
        self._told.setdefault(node, told)
        self._set_power(node, "switching_on" if on else "switching_off", self.now_s)
        self.decisions.append(SetNodePower(node, "on" if on else "sleeping"))

    def submit(self, job: SubmitJob) -> None:
        """Add a job to the workload, where the scenario allows it."""
        self.decisions.append(job)

    # What the loop does

    def apply(self, now_s: float, events: Iterable[Event]) -> None:
        """Take in what happened; forget what had happened before, and what was decided."""
        self.now_s = now_s
        self.arrived, self.left, self.alarms, self.rejected = [], [], [], []
        self.decisions, self.wake_on, self.elapsed_s = [], None, 0.0
        for event in events:
            handler = _HANDLERS.get(type(event))
            if handler is not None:
                handler(self, event)
        self._switched, self._told = {}, {}

    def _start(self, job: Job, place: Place) -> None:
        if job.job_id not in self.queue:
            raise PolicyError(f"job {job.job_id} can't be started: it does not wait")
        self.nodes.take(place)
        job.place, job.start_s = place, self.now_s
        if self._any_off:
            job.start_s = self._ready_s(place, self.now_s)
        del self.queue[job.job_id]
        self.running[job.job_id] = job
        # On nodes of one core it is plain how many tasks go where.
        tasks = [] if self.nodes.single_core else place.tasks.tolist()
        self.decisions.append(AllocateJob(job.job_id, place.nodes.tolist(), tasks))

    def _place_on(self, job: Job, nodes: Sequence[int]) -> Place | None:
        if not all(0 <= node < len(self.nodes.free) for node in nodes):
            raise PolicyError(f"job {job.job_id} can't be started: no such nodes, {list(nodes)}")
        chosen = np.array(nodes, dtype=np.int64)
        usable = usable_nodes(job, self.nodes.free, self.nodes.capacity)
        return fill(job, chosen[np.isin(chosen, usable)], self.nodes.free)

    def _on_submitted(self, event: JobSubmitted) -> None:
        job = Job(
            event.job_id,
            event.time_s,
            event.cores,
            event.requested_s,
            event.placement,
            self._heard_of,
            memory_mb=event.memory_mb,
            memory_volume_mb=event.memory_volume_mb,
            max_energy_j=event.max_energy_j,
            profile=event.profile,
        )
        self._heard_of += 1
        self.placements.add(event.placement)
        self.queue[event.job_id] = job
        self.arrived.append(job)

    def _on_started(self, event: JobStarted | JobAllocated) -> None:
        job = self.running.get(event.job_id)
        if job is None:  # a snapshot, or a start decided before this client came
            job = self.queue.pop(event.job_id)
            self.arrived = [other for other in self.arrived if other is not job]
            nodes, tasks = np.array(event.nodes), np.array(event.cores)
            held = self.nodes.capacity[nodes] if job.placement == "whole_nodes" else tasks
            job.place = Place(nodes, tasks, held, int(held.sum()))
            self.nodes.take(job.place)
            self.running[event.job_id] = job
        job.start_s = event.time_s
        if isinstance(event, JobAllocated) and job.place is not None:
            job.start_s = self._ready_s(job.place, event.time_s)

    def _on_completed(self, event: JobCompleted) -> None:
        job = self.running.pop(event.job_id, None)
        if job is None:
            self.queue.pop(event.job_id, None)
            return
        if job.place is not None:
            self.nodes.give_back(job.place)
        self.left.append(job)

    def _on_rejected(self, event: DecisionRejected) -> None:
        self.rejected.append(event)
        if event.decision == "set_node_power" and event.index in self._switched:
            node = self._switched[event.index]
            self._set_power(node, *self._told[node])
        if event.decision != "allocate_job" or event.job_id is None:
            return
        job = self.running.get(event.job_id)
        if job is None or event.code in _JOB_IS_NOT_OURS:
            return
        del self.running[event.job_id]
        if job.place is not None:
            self.nodes.give_back(job.place)
        job.place, job.start_s = None, np.nan
        self.queue[event.job_id] = job
        self.queue = OrderedDict(sorted(self.queue.items(), key=lambda item: item[1].order))
        self.arrived.append(job)

    def _on_power_changed(self, event: NodePowerChanged) -> None:
        if event.node in self._told:
            self._told[event.node] = (event.state, event.time_s)
        self._set_power(event.node, event.state, event.time_s)

    def _set_power(self, node: int, state: PowerState, since_s: float) -> None:
        returns_s = None
        if state == "switching_off" and self.wake_on_allocation:
            returns_s = since_s + float(self.nodes.switch_off_s[node])
        elif state != "on" and not self.wake_on_allocation:
            returns_s = math.inf
        self.nodes.set_power(node, state, since_s, returns_s)
        self._any_off = True

    def _ready_s(self, place: Place, at_s: float) -> float:
        """Return when the last node of a place, given to a job at `at_s`, is expected to be on."""
        return float(self.nodes.expected_on_s(at_s)[place.nodes].max())

    def _on_alarm(self, event: Alarm) -> None:
        self.alarms.append(event.alarm_id)

    def _on_no_more_jobs(self, _: NoMoreJobs) -> None:
        self.no_more_jobs = True


# An allocation rejected for one of these was not of a job that waits, so none goes back.
_JOB_IS_NOT_OURS = frozenset({"unknown_job", "job_not_waiting"})

_HANDLERS: dict[type, Callable[[View, Any], None]] = {
    JobSubmitted: View._on_submitted,
    JobAllocated: View._on_started,
    JobStarted: View._on_started,
    JobCompleted: View._on_completed,
    DecisionRejected: View._on_rejected,
    NodePowerChanged: View._on_power_changed,
    Alarm: View._on_alarm,
    NoMoreJobs: View._on_no_more_jobs,
}

Policy = Callable[[View], None]
"""Looks at the view and decides, through it. It may keep what it likes between calls."""
