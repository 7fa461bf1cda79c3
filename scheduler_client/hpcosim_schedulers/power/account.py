"""Wasted energy, switching, idle and waiting times, from what a scheduler knows of its nodes."""

from __future__ import annotations

from collections import deque

import numpy as np

from hpcosim_client.job import Bools as Bools
from hpcosim_client.job import Floats, Ints, Job
from hpcosim_client.nodes import NodePool
from hpcosim_client.view import View
from hpcosim_protocol import DEFAULT_WAKE_ON, EventKind, NodeGroup, Platform, PowerState

# The number of recent submissions.

HOUR_S = 3600.0


# In the order of a node's way from asleep to on.
POWER_CODES: dict[PowerState, int] = {
    "sleeping": 0,
    "switching_off": 1,
    "switching_on": 2,
    "on": 3,
}
SLEEPING, SWITCHING_OFF, SWITCHING_ON, ON = range(4)


class Submissions:
    """Counts submissions; `update` is called at every call of the policy."""

    def __init__(self) -> None:
        self.count = 0
        self._last_hour_s: deque[float] = deque()  # times of submission

    def update(self, view: View) -> None:
        """Count the jobs that arrived."""
        for job in view.arrived:
            if job.order >= self.count:  # not a job that is requeued after a rejected start
                self.count = job.order + 1
                self._last_hour_s.append(job.submit_s)

    def in_last_hour(self, now_s: float) -> int:
        """Return the number of submissions after `now_s` - 3600 s. `now_s` must not decrease."""
        times_s = self._last_hour_s
        while times_s and times_s[0] <= now_s - HOUR_S:
            times_s.popleft()
        return len(times_s)


INTEGRAND_EVENTS: frozenset[EventKind] = frozenset(
    {"job_submitted", "job_completed", "node_power_changed"}
)
"""Events that change an integrand of the account. A start is not among them: it coincides with the
decision, or with the `node_power_changed` of the last node that boots for the job."""


def listen(view: View) -> None:
    """Make the policy be called at every event that an account needs at its instant."""
    if view.wake_on is None:
        view.wake_on = INTEGRAND_EVENTS | DEFAULT_WAKE_ON
        if not view.signals:  # earlier servers reject the kind
            view.wake_on -= {"signal_changed"}
    else:
        view.wake_on = INTEGRAND_EVENTS.union(view.wake_on)


class EnergyAccount:
    """Exact integrals over simulated time, updated at every event.

    They equal the server's metrics if the policy is called at every event (see `listen`), no node
    fails and `View.elapsed_s` is 0; otherwise a start counts from its decision. A node wastes
    energy while no job runs on it, allocated or not.

    Attributes:
        start_s, now_s: start and end of the account, simulated seconds; NaN: not started.
        wasted_j: float64[nodes], energy not spent computing, in J.
        switching_s: float64[nodes], time spent switching on and off, in seconds.
        idle_since_s: float64[nodes], since when a node has been on without a job, simulated
            seconds, not before the start of the account; NaN: not idle.
        waited_s: waiting time summed over jobs, in seconds, including jobs whose nodes boot.
        waited: the jobs that have waited for a time > 0 since the last `begin_interval`.
        on_w: float64[nodes], power of a node that computes on all cores, in W.
        state: int64[nodes], `POWER_CODES` of the nodes at the last update.
    """

    def __init__(self, platform: Platform) -> None:
        groups, counts = platform.nodes, [group.count for group in platform.nodes]
        self._watts = Watts(platform)
        self.on_w: Floats = np.repeat([_computing_w(group) for group in groups], counts)
        nodes = len(self.on_w)
        self.start_s = self.now_s = np.nan
        self.wasted_j: Floats = np.zeros(nodes)
        self.switching_s: Floats = np.zeros(nodes)
        self.idle_since_s: Floats = np.full(nodes, np.nan)
        self.waited_s = 0.0
        self.submissions = Submissions()
        self.waiting: list[Job] = []
        self.waited: set[int] = set()
        self.state: Ints = np.full(nodes, ON)
        self._wasting_w: Floats = np.zeros(nodes)
        self._switching: Bools = np.zeros(nodes, dtype=np.bool_)

    @property
    def elapsed_s(self) -> float:
        """Duration of the account, in seconds."""
        return self.now_s - self.start_s

    def update(self, view: View) -> None:
        """Integrate up to now, then take the integrands of the view, all decisions included."""
        if np.isnan(self.start_s):
            self.start_s = self.now_s = view.now_s
        if view.now_s > self.now_s:
            self._integrate(view.now_s)
        self.submissions.update(view)
        self._note(view)

    def begin_interval(self) -> None:
        """Clear `waited`."""
        self.waited = set()

    def _integrate(self, until_s: float) -> None:
        dt = until_s - self.now_s
        self.wasted_j += self._wasting_w * dt
        self.switching_s += self._switching * dt
        self.waited_s += len(self.waiting) * dt
        self.waited.update(job.job_id for job in self.waiting)
        self.now_s = until_s

    def _note(self, view: View) -> None:
        nodes = view.nodes
        self.state = codes_of(nodes)
        computing = nodes.jobs > 0
        self.waiting = view.queue.values()
        if (computing & (self.state != ON)).any():
            computing = self._note_booting(view)
        self._wasting_w = np.where(computing, 0.0, self._watts.in_state(self.state))
        self._switching = (self.state == SWITCHING_ON) | (self.state == SWITCHING_OFF)
        idle = (self.state == ON) & (nodes.jobs == 0)
        began = idle & np.isnan(self.idle_since_s)
        self.idle_since_s[began] = view.now_s
        self.idle_since_s[~idle] = np.nan

    def _note_booting(self, view: View) -> Bools:
        """Add jobs whose nodes boot to `waiting`; return bool[nodes]: the nodes that compute."""
        computing = np.zeros(len(self.state), dtype=np.bool_)
        for job in view.running.values():
            if job.allocation is not None and (self.state[job.allocation.nodes] == ON).all():
                computing[job.allocation.nodes] = True
            else:
                self.waiting.append(job)
        return computing


def _computing_w(group: NodeGroup) -> float:
    return sum(
        processor.static_w + processor.cores * processor.dynamic_w for processor in group.processors
    )


class Watts:
    """The power of every node without a job.

    Attributes:
        by_state: float64[nodes, 4], power by `POWER_CODES`, in W; 0 in the states that a node
            without power states never has.
    """

    def __init__(self, platform: Platform) -> None:
        groups, counts = platform.nodes, [group.count for group in platform.nodes]
        self.by_state: Floats = np.repeat([_of_group(group) for group in groups], counts, axis=0)
        self._every = np.arange(len(self.by_state))

    def in_state(self, state: Ints) -> Floats:
        """Return float64[nodes], the power of each node in a state, in W."""
        found: Floats = self.by_state[self._every, state]
        return found


def codes_of(nodes: NodePool) -> Ints:
    """Return int64[nodes]: the `POWER_CODES` of the nodes, decisions included."""
    codes = map(POWER_CODES.__getitem__, nodes.power)
    return np.fromiter(codes, np.int64, len(nodes.power))


def _of_group(group: NodeGroup) -> list[float]:
    states = group.power_states
    if states is None:
        return [0.0, 0.0, 0.0, group.idle_w]
    return [states.sleep_w, states.switch_off_w, states.switch_on_w, group.idle_w]
