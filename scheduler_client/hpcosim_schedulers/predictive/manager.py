"""The power manager that weighs energy against waits in samples of the future."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hpcosim_client.arrays import Floats, Ints
from hpcosim_client.view import View
from hpcosim_schedulers.power.manager import IdleClock, Manager
from hpcosim_schedulers.power.settings import Predictive
from hpcosim_schedulers.predictive.costs import Spares, costs_j
from hpcosim_schedulers.predictive.energy import NodeEnergy
from hpcosim_schedulers.predictive.futures import FutureSampler, FutureSource
from hpcosim_schedulers.predictive.need import Need, need_of

SOONEST = 1.0 / 32.0
"""Least time between two decisions, relative to `NodeEnergy.break_even_s`."""
FIRST_STEP = 0.125
"""Time from an event to the next decision without one, relative to `NodeEnergy.break_even_s`."""
GROWTH = 1.5
"""Ratio of one such time to that before it; they grow up to `NodeEnergy.break_even_s`."""
LONGEST_STEP_S = 60.0
"""Time to which they grow where nodes break even sooner, s."""


class Plan(NamedTuple):
    """What a decision is taken from.

    Attributes:
        need: the need of samples of the future.
        spares: the nodes without a job.
        energy: what it costs to hold and to switch them.
        price_w: price of waiting, J/s.
        next_s: time to the next decision without an event, s.
    """

    need: Need
    spares: Spares
    energy: NodeEnergy
    price_w: float
    next_s: float


Costs = Callable[[View, Plan], Floats]
"""Returns the expected cost of 0, 1, ... spare nodes, as `costs.costs_j`."""


def sampled_costs_j(_: View, plan: Plan) -> Floats:
    """Return the mean costs over the samples of a plan."""
    return costs_j(plan.need, plan.spares, plan.price_w, plan.energy.holds_s, plan.next_s)


def predictive(
    settings: Predictive, source: FutureSource | None = None, costs: Costs = sampled_costs_j
) -> Manager:
    """Return the manager that chooses the number of spare nodes of the least expected cost.

    At each event in which jobs come or go, and after a time without one, it draws samples of the
    submissions and of the ends of jobs to come, and switches nodes off and on as `costs.costs_j`
    advises. The longest idle nodes are switched off first, and nodes that the job scheduler has
    reserved are left alone, and so are idle nodes that are drained.

    Args:
        settings: the settings.
        source: has the samples; None: forecasts that learn while the manager runs.
        costs: the expected costs of a plan.
    """
    return _Planner(settings, source, costs).manage


class _Planner:
    def __init__(self, settings: Predictive, source: FutureSource | None, costs: Costs) -> None:
        self._settings, self._costs = settings, costs
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
            longest_s = max(even_s, LONGEST_STEP_S)
            self._step_s = min(max(GROWTH * self._step_s, FIRST_STEP * even_s), longest_s)
            self._decide(view, self._source, self._energy)
            self._idle.update(view)
            self._decided_s, self._due_s = view.now_s, view.now_s + self._step_s
        return self._due_s

    def _decide(self, view: View, source: FutureSource, energy: NodeEnergy) -> None:
        order = spare_order(view, self._idle.since_s)
        if not len(order.nodes):
            return
        price_w = self._settings.wait_price_w
        cost_j = self._costs(view, plan_of(view, source, order, energy, price_w, self._step_s))
        best, warm = int(np.argmin(cost_j)), order.idle + order.booting
        for node in order.nodes[best : max(best, order.idle)].tolist():
            view.set_node_power(node, on=False)
        for node in order.nodes[warm : max(best, warm)].tolist():
            view.set_node_power(node, on=True)


class SpareOrder(NamedTuple):
    """The nodes without a job in the order of `Spares`.

    Attributes:
        nodes: int64[k], the nodes; the longest idle first, then those that boot or sleep.
        idle, booting: numbers of idle nodes, and of those that boot.
    """

    nodes: Ints
    idle: int
    booting: int


def spare_order(view: View, since_s: Floats) -> SpareOrder:
    """Return the nodes without a job that are neither reserved nor drained.

    Args:
        view: the view.
        since_s: `IdleClock.since_s`.
    """
    nodes, planned = view.nodes, view.power_exchange.planned
    is_spare = ~np.isnan(since_s) & ~planned
    is_spare[nodes.unavailable()] = False
    idle = np.flatnonzero(is_spare)
    idle = idle[np.argsort(-since_s[idle], kind="stable")]
    booting = [node for node in nodes.unused("switching_on") if not planned[node]]
    asleep = np.array(nodes.unused("sleeping"), dtype=np.int64)
    order = np.concatenate([idle, booting, asleep]).astype(np.int64)
    return SpareOrder(order, len(idle), len(booting))


def plan_of(
    view: View,
    source: FutureSource,
    order: SpareOrder,
    energy: NodeEnergy,
    price_w: float,
    next_s: float,
) -> Plan:
    """Return a plan for the spare nodes; for the arguments see `Plan`."""
    future = source.drawn(view.now_s, float(energy.holds_s[-1]))
    need = need_of(future, len(order.nodes), _slack(view))
    spares = energy.spares(*order)
    return Plan(need, spares, energy, price_w, next_s)


def _slack(view: View) -> float:
    """Return the free cores of nodes with jobs, in nodes."""
    nodes = view.nodes
    if nodes.single_core:
        return 0.0
    shared = nodes.on & (nodes.jobs > 0)
    return float((nodes.free[shared] / nodes.capacity[shared]).sum())
