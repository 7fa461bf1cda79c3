"""All that a policy sees, and the decisions it can make."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Job, Place
from hpcosim_client.mirror import Mirror
from hpcosim_client.nodes import fill, usable_nodes
from hpcosim_client.power_exchange import PowerExchange
from hpcosim_protocol import (
    AllocateJob,
    CancelAlarm,
    Decision,
    Event,
    EventKind,
    KillJob,
    Platform,
    RejectJob,
    SetAlarm,
    SetNodePower,
    SubmitJob,
)

POLICY = 2  # sets a policy's random numbers apart from those of the workload and of the simulator

FIRST_ALLOCATED_ALARM = 2**62
"""Alarm numbers from here on are handed out by `View.new_alarm`; user code may use those below."""


class View(Mirror):
    """All that a policy sees (see `Mirror`), and the decisions it can make.

    A job that is `start`ed leaves the queue and holds its cores at once, so that a policy can go
    on deciding. Should the server reject the decision, job and cores return.

    Args:
        platform, wake_on_allocation: see `Mirror`.
        seed: seed of the simulation, from which the policy's random numbers follow.

    Attributes:
        rng: the policy's source of random numbers.
        power_exchange: what job scheduler and power manager tell each other.
        wake_on: kinds of events to be woken for next time; None: the protocol's default. Reset to
            None before each decision.
        elapsed_s: simulated seconds that the policy's thinking takes this time; reset to 0 before
            each decision.
        decisions: what has been decided since the last answer.

    Example:
        >>> def first_come_first_served(view: View) -> None:
        ...     for job in view.queue.values():
        ...         if not view.start(job):
        ...             break
    """

    def __init__(
        self, platform: Platform, seed: int = 0, *, wake_on_allocation: bool = True
    ) -> None:
        super().__init__(platform, wake_on_allocation=wake_on_allocation)
        self.rng = np.random.default_rng([seed, POLICY])
        self.power_exchange = PowerExchange(len(self.nodes.free))
        self.wake_on: Collection[EventKind] | None = None
        self.elapsed_s = 0.0
        self.decisions: list[Decision] = []
        self._next_alarm = FIRST_ALLOCATED_ALARM

    def apply(self, now_s: float, events: Iterable[Event]) -> None:
        """Take in the events up to a time; forget those before, and the last decisions."""
        self.decisions, self.wake_on, self.elapsed_s = [], None, 0.0
        super().apply(now_s, events)

    def start(self, job: Job, nodes: Sequence[int] | None = None) -> bool:
        """Start a waiting job, and return whether there was room for it.

        Args:
            job: a job of the queue.
            nodes: node numbers; the job fills those of them that it may use, in this order. None:
                it gets the lowest-numbered nodes.

        Raises:
            PolicyError: the job does not wait, or there is no such node.
        """
        place = self.nodes.find(job) if nodes is None else self._place_on(job, nodes)
        if place is None:
            return False
        self._start(job, place)
        return True

    def start_at(self, job: Job, place: Place) -> bool:
        """Start a waiting job on exactly these cores, and return whether they were free.

        Raises:
            PolicyError: the job does not wait.
        """
        if (self.nodes.free[place.nodes] < place.held).any():
            return False
        self._start(job, place)
        return True

    def reject(self, job: Job) -> None:
        """Reject a waiting job."""
        self.decisions.append(RejectJob(job.job_id))

    def kill(self, job: Job) -> None:
        """End a running job."""
        self.decisions.append(KillJob(job.job_id))

    def submit(self, job: SubmitJob) -> None:
        """Add a job to the workload, where the scenario allows it."""
        self.decisions.append(job)

    def new_alarm(self) -> int:
        """Return an alarm number that nothing else on this view uses.

        A policy, a power manager and user code that are combined do not disturb each other's
        alarms if each allocates its own. Numbers below `FIRST_ALLOCATED_ALARM` are never returned.
        """
        self._next_alarm += 1
        return self._next_alarm - 1

    def set_alarm(self, at_s: float, alarm_id: int = 0) -> None:
        """Ask to be woken at a time; an alarm of the same number is replaced.

        Args:
            at_s: simulated second, after now.
            alarm_id: number of the alarm, from `new_alarm` or below `FIRST_ALLOCATED_ALARM`.
        """
        self.pending_alarms[alarm_id] = at_s
        self.decisions.append(SetAlarm(at_s, alarm_id))

    def cancel_alarm(self, alarm_id: int = 0) -> None:
        """Cancel an alarm that is set."""
        self.pending_alarms.pop(alarm_id, None)
        self.decisions.append(CancelAlarm(alarm_id))

    def set_node_power(self, node: int, *, on: bool) -> None:
        """Switch a node on, or off.

        The view shows the change at once: a node to be switched off is not given to jobs any more.
        Should the server reject the decision, the node is what it was.

        Raises:
            PolicyError: there is no such node.
        """
        if not 0 <= node < len(self.nodes.free):
            last = len(self.nodes.free) - 1
            raise PolicyError(f"node {node} can't be switched: expected a node from 0 to {last}")
        node = int(node)
        self._switched[len(self.decisions)] = node
        told = (self.nodes.power[node], self.nodes.power_since_s[node])
        self._told.setdefault(node, told)
        self._set_power(node, "switching_on" if on else "switching_off", self.now_s)
        self.decisions.append(SetNodePower(node, "on" if on else "sleeping"))

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


Policy = Callable[[View], None]
"""Looks at the view and decides through it. It may keep state between calls."""
