"""The power manager that weighs energy against waits in samples of the future."""

from __future__ import annotations

import math

import numpy as np

from hpcosim_client.power.manager import IdleClock, Manager
from hpcosim_client.power.settings import Predictive
from hpcosim_client.predictive.costs import costs_j
from hpcosim_client.predictive.energy import NodeEnergy
from hpcosim_client.predictive.futures import FutureSampler, FutureSource
from hpcosim_client.predictive.need import need_of
from hpcosim_client.view import View

SOONEST = 1.0 / 32.0
"""Least time between two decisions, relative to `NodeEnergy.break_even_s`."""
FIRST_STEP = 0.125
"""Time from an event to the next decision without one, relative to `NodeEnergy.break_even_s`."""
GROWTH = 1.5
"""Ratio of one such time to that before it; they grow up to `NodeEnergy.break_even_s`."""


def predictive(settings: Predictive, source: FutureSource | None = None) -> Manager:
    """Return the manager that chooses the number of spare nodes of the least expected cost.

    At each event in which jobs come or go, and after a time without one, it draws samples of the
    submissions and of the ends of jobs to come, and switches nodes off and on as `costs.costs_j`
    advises. The longest idle nodes are switched off first, and nodes that the job scheduler has
    reserved are left alone, and so are idle nodes that are drained.

    Args:
        settings: the settings.
        source: has the samples; None: forecasts that learn while the manager runs.
    """
    return _Planner(settings, source).manage


class _Planner:
    def __init__(self, settings: Predictive, source: FutureSource | None) -> None:
        self._settings = settings
        self._idle = IdleClock()
        self._source = source
        self._energy: NodeEnergy | None = None
        self._decided_s = self._due_s = -math.inf
        self._step_s = 0.0

    def manage(self, view: View) -> float | None:
        """Switch nodes; return the time of the next decision."""
        if self._source is None:
            self._source = FutureSampler(self._settings.samples, view)
        if self._energy is None:
            self._energy = NodeEnergy(view, self._settings.wait_price_w)
        self._idle.update(view)
        self._source.update(view)
        even_s = self._energy.break_even_s
        if view.arrived or view.left:
            self._due_s = min(self._due_s, self._decided_s + SOONEST * even_s)
            self._step_s = 0.0
        if view.now_s >= self._due_s:
            self._step_s = min(max(GROWTH * self._step_s, FIRST_STEP * even_s), even_s)
            self._decide(view, self._source, self._energy)
            self._idle.update(view)
            self._decided_s, self._due_s = view.now_s, view.now_s + self._step_s
        return self._due_s

    def _decide(self, view: View, source: FutureSource, energy: NodeEnergy) -> None:
        nodes, planned = view.nodes, view.power_exchange.planned
        is_spare = ~np.isnan(self._idle.since_s) & ~planned
        is_spare[nodes.unavailable()] = False
        idle = np.flatnonzero(is_spare)
        idle = idle[np.argsort(-self._idle.since_s[idle], kind="stable")]
        booting = [node for node in nodes.unused("switching_on") if not planned[node]]
        asleep = np.array(nodes.unused("sleeping"), dtype=np.int64)
        order = np.concatenate([idle, booting, asleep]).astype(np.int64)
        if not len(order):
            return
        future = source.drawn(view.now_s, float(energy.holds_s[-1]))
        need = need_of(future, len(order), _slack(view))
        spares = energy.spares(order, len(idle), len(booting))
        price_w = self._settings.wait_price_w
        cost_j = costs_j(need, spares, price_w, energy.holds_s, self._step_s)
        best, warm = int(np.argmin(cost_j)), len(idle) + len(booting)
        for node in idle[best:].tolist():
            view.set_node_power(node, on=False)
        for node in order[warm : max(best, warm)].tolist():
            view.set_node_power(node, on=True)


def _slack(view: View) -> float:
    """Return the free cores of nodes with jobs, in nodes."""
    nodes = view.nodes
    if nodes.single_core:
        return 0.0
    shared = nodes.on & (nodes.jobs > 0)
    return float((nodes.free[shared] / nodes.capacity[shared]).sum())
