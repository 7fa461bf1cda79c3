"""A power manager beside a job scheduler, in one policy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hpcosim_client.job import Bools, Floats, Ints
from hpcosim_client.view import Policy, PolicyAlarm, View
from hpcosim_protocol import EventKind

Manager = Callable[[View], float | None]
"""A function that switches nodes through the view, called after the job scheduler.

It returns the simulated second at which it is called again even without an event; None keeps the
earlier one.
"""

IDLING_EVENTS: frozenset[EventKind] = frozenset({"job_completed", "node_power_changed"})
"""Events that can make a node idle. A manager is called at these whatever `wake_on` is."""


def managed(policy: Policy, manager: Manager) -> Policy:
    """Return the policy that calls a job scheduler and then a power manager.

    Once every job is over, the manager is not called any more and its alarm is cancelled, so that
    the simulation can end.

    Example:
        >>> from hpcosim_schedulers import make_policy, managed, timeout
        >>> policy = managed(make_policy("easy", "aware"), timeout(900.0))
    """
    alarm = PolicyAlarm()

    def decide(view: View) -> None:
        view.power_exchange.switches = True
        policy(view)
        if view.no_more_jobs and not view.queue and not view.running:
            alarm.cancel(view)
            return
        next_s = manager(view)
        if next_s is not None:
            alarm.set(view, next_s)
        if view.wake_on is not None:
            view.wake_on = IDLING_EVENTS.union(view.wake_on)

    return decide


class IdleClock:
    """The idle time of each node.

    A node is idle while it is on and no core of it is allocated. Its idle time starts when the
    scheduler is called with the event, which is later than the event by the scheduler's own
    simulated time (`View.elapsed_s`). Nodes that cannot be switched off are never idle here.

    Attributes:
        since_s: float64[nodes], simulated seconds; NaN: not idle.
    """

    def __init__(self) -> None:
        self.since_s: Floats = np.zeros(0)
        self._planned: Bools = np.zeros(0, dtype=np.bool_)

    def update(self, view: View) -> None:
        """Update `since_s`, after all starts of a call."""
        nodes = view.nodes
        self._planned = view.power_exchange.planned
        if not len(self.since_s):
            self.since_s = np.full(len(nodes.free), np.nan)
        idle = nodes.can_sleep & nodes.idle()
        began = idle & np.isnan(self.since_s)
        self.since_s[began] = view.now_s
        self.since_s[~idle] = np.nan
        view.power_exchange.idle_since_s = self.since_s

    def due(self, now_s: float, timeout_s: float) -> Ints:
        """Return the nodes idle for >= `timeout_s`, the longest first, ties by number.

        Nodes that the job scheduler has reserved (`PowerExchange.planned`) are left out.
        """
        due = np.flatnonzero(self.is_due(now_s, timeout_s))
        return due[self.since_s[due].argsort(kind="stable")]

    def is_due(self, now_s: float, timeout_s: float) -> Bools:
        """Return bool[nodes]: the nodes that `due` returns."""
        return (now_s >= self.since_s + timeout_s) & ~self._planned

    def next_due_s(self, now_s: float, timeout_s: float) -> float | None:
        """Return when the next node will have been idle for `timeout_s`; None: no node is idle."""
        later_s = self.since_s + timeout_s
        later_s = later_s[later_s > now_s]
        return float(later_s.min()) if len(later_s) else None
