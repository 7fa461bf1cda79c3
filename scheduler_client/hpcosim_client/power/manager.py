"""A power manager beside a job scheduler, in one policy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Floats, Ints
from hpcosim_client.view import Policy, View
from hpcosim_protocol import EventKind, SetAlarm

Manager = Callable[[View], None]
"""Looks at the view after the job scheduler has decided, and switches nodes through it."""

ALARM = 2**62
"""The number of a manager's alarm; job schedulers use small ones."""

NEWS: frozenset[EventKind] = frozenset({"job_completed", "node_power_changed"})
"""What makes a node idle: a manager hears of it whatever its job scheduler wants to hear."""


def managed(policy: Policy, manager: Manager) -> Policy:
    """Return the policy that lets one schedule jobs, and then the other switch nodes.

    When every job is over the run is, too: nothing is switched any more, and the manager's alarm
    does not keep the run alive.
    """
    alarm_is_set = False

    def decide(view: View) -> None:
        nonlocal alarm_is_set
        policy(view)
        alarm_is_set = alarm_is_set and ALARM not in view.alarms
        if view.no_more_jobs and not view.queue and not view.running:
            if alarm_is_set:
                view.cancel_alarm(ALARM)
            alarm_is_set = False
            return
        manager(view)
        alarm_is_set |= any(
            isinstance(decision, SetAlarm) and decision.alarm_id == ALARM
            for decision in view.decisions
        )
        if view.wake_on is not None:
            view.wake_on = NEWS.union(view.wake_on)

    return decide


class IdleClock:
    """Tells since when each node has been idle.

    A node is idle while it is on and no job holds a core of it, running or about to. Its clock
    starts when the scheduler hears of that: at the instant it happens, or after the scheduler's
    thinking time. Nodes that can't be switched off are never idle here. One that the job scheduler
    counts on for a job (`NodePool.planned`) is never due, though its clock goes on.

    Attributes:
        since_s: float64[nodes]; NaN: not idle.
    """

    def __init__(self) -> None:
        self.since_s: Floats = np.zeros(0)
        self._planned: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._can_sleep: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)

    def update(self, view: View) -> None:
        """Bring `since_s` up to date, after all starts of this round."""
        nodes = view.nodes
        self._planned = nodes.planned
        if not len(self.since_s):
            groups = view.platform.nodes
            can_sleep = np.array([group.power_states is not None for group in groups])
            self._can_sleep = can_sleep[nodes.group]
            self.since_s = np.full(len(nodes.free), np.nan)
        idle = self._can_sleep & nodes.on & (nodes.jobs == 0)
        began = idle & np.isnan(self.since_s)
        self.since_s[began] = view.now_s
        self.since_s[~idle] = np.nan

    def due(self, now_s: float, timeout_s: float) -> Ints:
        """Return the nodes that have been idle for so long, the longest first, ties by number."""
        due = np.flatnonzero((now_s >= self.since_s + timeout_s) & ~self._planned)  # NaN never is
        return due[self.since_s[due].argsort(kind="stable")]

    def wake_at_next(self, view: View, timeout_s: float) -> None:
        """Set the manager's alarm for when the next node will have been idle for so long."""
        later_s = self.since_s + timeout_s
        later_s = later_s[later_s > view.now_s]
        if len(later_s):
            view.set_alarm(float(later_s.min()), ALARM)
