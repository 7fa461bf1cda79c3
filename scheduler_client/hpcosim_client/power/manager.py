"""A power manager beside a job scheduler, in one policy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hpcosim_client.alarm import PolicyAlarm
from hpcosim_client.job import Bools, Floats, Ints
from hpcosim_client.view import Policy, View
from hpcosim_protocol import EventKind

Manager = Callable[[View], float | None]
"""Looks at the view after the job scheduler has decided, and switches nodes through it.

It returns the simulated second at which it is to be called again at the latest; None leaves that
as it was.
"""

NEWS: frozenset[EventKind] = frozenset({"job_completed", "node_power_changed"})
"""What makes a node idle: a manager is called at these whatever its job scheduler waits for."""


def managed(policy: Policy, manager: Manager) -> Policy:
    """Return the policy that first schedules jobs with one, then switches nodes with the other.

    Once every job is over, nothing is switched any more, and the manager's alarm is cancelled, so
    that it does not keep the run alive.

    Example:
        >>> from hpcosim_client import make_policy, managed, timeout
        >>> policy = managed(make_policy("easy", "aware"), timeout(900.0))
    """
    alarm = PolicyAlarm()

    def decide(view: View) -> None:
        policy(view)
        if view.no_more_jobs and not view.queue and not view.running:
            alarm.cancel(view)
            return
        next_s = manager(view)
        if next_s is not None:
            alarm.set(view, next_s)
        if view.wake_on is not None:
            view.wake_on = NEWS.union(view.wake_on)

    return decide


class IdleClock:
    """Tells since when each node has been idle.

    A node is idle while it is on and no job holds a core of it, running or about to. Its clock
    starts when the scheduler hears of that: at the instant it happens, or after the scheduler's
    thinking time. Nodes that can't be switched off are never idle here. One that the job scheduler
    reserves for a job (`PowerExchange.planned`) is never due, though its clock goes on.

    Attributes:
        since_s: float64[nodes]; NaN: not idle.
    """

    def __init__(self) -> None:
        self.since_s: Floats = np.zeros(0)
        self._planned: Bools = np.zeros(0, dtype=np.bool_)

    def update(self, view: View) -> None:
        """Bring `since_s` up to date, after all starts of this round."""
        nodes = view.nodes
        self._planned = view.power_exchange.planned
        if not len(self.since_s):
            self.since_s = np.full(len(nodes.free), np.nan)
        idle = nodes.can_sleep & nodes.idle()
        began = idle & np.isnan(self.since_s)
        self.since_s[began] = view.now_s
        self.since_s[~idle] = np.nan

    def due(self, now_s: float, timeout_s: float) -> Ints:
        """Return the nodes idle for `timeout_s` at least, the longest first, ties by number."""
        due = np.flatnonzero((now_s >= self.since_s + timeout_s) & ~self._planned)  # NaN never is
        return due[self.since_s[due].argsort(kind="stable")]

    def next_due_s(self, now_s: float, timeout_s: float) -> float | None:
        """Return when the next node will have been idle for `timeout_s`; None: none is idle."""
        later_s = self.since_s + timeout_s
        later_s = later_s[later_s > now_s]
        return float(later_s.min()) if len(later_s) else None
