"""The power manager that weighs energy against waits in samples of the future.

The expected cost of a number of spare nodes is that of held and switched nodes, and of waits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hpcosim_client.arrays import Floats, Ints
from hpcosim_client.view import View
from hpcosim_schedulers.power.account import ON, SLEEPING, SWITCHING_OFF, SWITCHING_ON, Watts
from hpcosim_schedulers.power.manager import IdleClock, Manager
from hpcosim_schedulers.power.settings import Predictive
from hpcosim_schedulers.predictive.futures import Futures, FutureSampler, FutureSource

SOONEST = 1.0 / 32.0
"""Least time between two decisions, relative to `NodeEnergy.break_even_s`."""
FIRST_STEP = 0.125
"""Time from an event to the next decision without one, relative to `NodeEnergy.break_even_s`."""
GROWTH = 1.5
"""Ratio of one such time to that before it; they grow up to `NodeEnergy.break_even_s`."""
LONGEST_STEP_S = 60.0
"""Time to which they grow where nodes break even sooner, s."""

HOLDS = 8
"""Number of times for which idle nodes may be held."""
FIRST_HOLD = 0.125
"""The first of them, relative to `NodeEnergy.break_even_s`."""
LEAST_EVEN_S = 1.0
"""Least `NodeEnergy.break_even_s`, for nodes that switch at once and for nothing, s."""
LONGEST_S = 10_800.0
"""Upper bound of the last, or twice `NodeEnergy.break_even_s` if that is longer, s."""


class Plan(NamedTuple):
    """What a decision is taken from.

    Attributes:
        spares: the nodes without a job.
        next_s: time to the next decision without an event, s.
    """

    need: Need
    spares: Spares
    energy: NodeEnergy
    price_w: float
    next_s: float


Costs = Callable[[View, Plan], Floats]
"""Returns the expected cost of 0, 1, ... spare nodes, as `costs_j`."""


def sampled_costs_j(_: View, plan: Plan) -> Floats:
    """Return the mean costs over the samples of a plan."""
    return costs_j(plan.need, plan.spares, plan.price_w, plan.energy.holds_s, plan.next_s)


def predictive(
    settings: Predictive, source: FutureSource | None = None, costs: Costs = sampled_costs_j
) -> Manager:
    """Return the manager that chooses the number of spare nodes of the least expected cost.

    At each event in which jobs come or go, and after a time without one, it draws samples of the
    submissions and of the ends of jobs to come, and switches nodes off and on as `costs_j`
    advises. The longest idle nodes are switched off first, and nodes that the job scheduler has
    reserved are left alone, and so are idle nodes that are drained.

    Args:
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
            self._step_s = next_step_s(self._step_s, even_s)
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


def next_step_s(step_s: float, even_s: float) -> float:
    """Return the time from a decision to the next one without an event, s.

    Args:
        step_s: the time before it, s; 0: from an event.
        even_s: see `NodeEnergy.break_even_s`.
    """
    return min(max(GROWTH * step_s, FIRST_STEP * even_s), max(even_s, LONGEST_STEP_S))


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
    """Return the nodes without a job that are neither reserved nor drained."""
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


class Spares(NamedTuple):
    """The nodes without a job, in the order in which jobs would use them.

    First the idle nodes, then those that boot, then those asleep.

    Attributes:
        hold_w: float64[k], power of a node that is idle less that of one asleep, in W.
        cycle_j: float64[k], energy of switching a node off and on, less that of sleeping, in J.
        boot_s: float64[k], time to switch it on, s.
    """

    idle: int
    booting: int
    hold_w: Floats
    cycle_j: Floats
    boot_s: Floats


def costs_j(need: Need, spares: Spares, price_w: float, holds_s: Floats, next_s: float) -> Floats:
    """Return the expected cost of 0, 1, ... spare nodes, compared with none, in J.

    With k spare nodes, idle nodes from the k-th on are switched off now, and sleeping nodes up to
    the k-th are switched on. A spare node stays on until it is needed, at most for a time of
    `holds_s`, the best of them for each k. Without it, it is switched on when it is needed. So the
    first record above level i, at T, decides about node i:

    - an idle node costs its power until T, and saves a cycle if T comes in time;
    - a node that is switched on costs its power from the end of the boot until T, and a cycle if T
      does not come in time (the boot takes the mean time over the sleeping nodes);
    - each submission that needs no more than k nodes saves its wait for the boot, at `price_w`.

    A submission later than `next_s` after the end of the boot is no reason to switch a node on now:
    the next decision comes in time.

    Args:
        holds_s: float64[h], times to hold, s, ascending.

    Returns:
        float64[k + 1].
    """
    least: Floats | None = None
    for hold_s in holds_s.tolist():
        energy_j = energies_j(need, spares, hold_s)
        saved_s = saved_waits_s(need, spares, hold_s, next_s)
        cost_j = np.concatenate([[0.0], energy_j.cumsum()]) - price_w * saved_s
        least = cost_j if least is None else np.minimum(least, cost_j)
    assert least is not None
    return least


def energies_j(need: Need, spares: Spares, hold_s: float) -> Floats:
    """Return the expected energy of each spare node, compared with no such node, in J."""
    count, idle, warm = len(spares.hold_w), spares.idle, spares.idle + spares.booting
    comes = need.record_s <= hold_s
    used = mean_by_node(need, comes.astype(np.float64), count)
    idle_s = hold_s - mean_by_node(need, np.where(comes, hold_s - need.record_s, 0.0), count)
    energy_j = spares.hold_w * idle_s - spares.cycle_j * used
    energy_j[idle:warm] = 0.0  # they cannot be stopped
    if count > warm:
        boot_s = float(spares.boot_s[warm:].mean())
        later_s = np.where(comes, hold_s - np.maximum(need.record_s, boot_s), 0.0)
        on_s = max(hold_s - boot_s, 0.0) - mean_by_node(need, np.maximum(later_s, 0.0), count)
        woken_j = spares.hold_w * on_s + spares.cycle_j * (1.0 - used)
        energy_j[warm:] = woken_j[warm:]
    return energy_j


def saved_waits_s(need: Need, spares: Spares, hold_s: float, next_s: float) -> Floats:
    """Return the expected wait that 0, 1, ... spare nodes save, in s."""
    count, idle, warm = len(spares.hold_w), spares.idle, spares.idle + spares.booting
    nodes, after_s = np.minimum(need.nodes, count), need.after_s
    boot_s = np.concatenate([[0.0], spares.boot_s])[nodes]
    wait_s = np.maximum(after_s[need.caller] + boot_s - after_s, 0.0)
    rest_s = np.maximum(boot_s - after_s, 0.0)
    woken_s = np.where(after_s <= boot_s + next_s, np.maximum(wait_s - rest_s, 0.0), 0.0)
    saved_s = np.where(nodes > warm, woken_s, np.where(nodes > idle, 0.0, wait_s))
    saved_s[(after_s > hold_s) | (nodes == 0)] = 0.0
    found: Floats = np.bincount(nodes, weights=saved_s, minlength=count + 1).cumsum()
    return found / need.samples


def mean_by_node(need: Need, value: Floats, count: int) -> Floats:
    """Return the mean over samples of the value of the record that first needs each node."""
    begins = np.bincount(np.minimum(need.above, count), weights=value, minlength=count + 1)
    ends = np.bincount(np.minimum(need.upto, count), weights=value, minlength=count + 1)
    found: Floats = (begins - ends).cumsum()[:count]
    return found / need.samples


class NodeEnergy:
    """What it costs to hold nodes, and to switch them.

    Attributes:
        break_even_s: mean over nodes of the larger of the boot time and of the idle time that costs
            as much as switching off and on, s.
        holds_s: float64[8], times for which nodes may be held, ascending, s. The last is the time
            after which a node has cost more than a cycle and one job's wait for its boot, within
            bounds.
    """

    def __init__(self, view: View, price_w: float) -> None:
        nodes, power_w = view.nodes, Watts(view.platform).by_state
        extra_w = power_w - power_w[:, [SLEEPING]]
        self._boot_s = nodes.switch_on_s
        self._hold_w: Floats = extra_w[:, ON]
        self._cycle_j: Floats = (
            nodes.switch_on_s * extra_w[:, SWITCHING_ON]
            + nodes.switch_off_s * extra_w[:, SWITCHING_OFF]
        )
        can = nodes.can_sleep
        even_s = self._cycle_j[can] / np.maximum(self._hold_w[can], 1e-9)
        longer_s = np.maximum(self._boot_s[can], even_s)
        self.break_even_s = max(float(longer_s.mean()) if can.any() else 0.0, LEAST_EVEN_S)
        self.holds_s: Floats = self._holds_s(price_w)

    def spares(self, order: Ints, idle: int, booting: int) -> Spares:
        """Return the spare nodes in an order, the first of which are idle and booting."""
        return Spares(idle, booting, self._hold_w[order], self._cycle_j[order], self._boot_s[order])

    def _holds_s(self, price_w: float) -> Floats:
        worth_j = self._cycle_j + price_w * self._boot_s
        worth_s = float((worth_j / np.maximum(self._hold_w, 1e-9)).mean())
        least_s = 2.0 * self.break_even_s
        longest_s = min(max(worth_s, least_s), max(LONGEST_S, least_s))
        return np.geomspace(FIRST_HOLD * self.break_even_s, longest_s, HOLDS)


class Need(NamedTuple):
    """The need of each submission of a future, and its records.

    A record is a submission that needs more nodes than all before it in its sample.

    Attributes:
        after_s: float64[n], time of each submission after now, s.
        nodes: int64[n], nodes beyond those that are in use now that must be on for it to start at
            once; 0: none.
        caller: int64[n], the first submission of its sample that needs as many: the one for which
            they are switched on.
        record_s: float64[r], time of each record, s.
        above: int64[r], need of the record before it in its sample; 0: none.
        upto: int64[r], its need.
    """

    samples: int
    after_s: Floats
    nodes: Ints
    caller: Ints
    record_s: Floats
    above: Ints
    upto: Ints


def need_of(future: Futures, most: int, slack: float = 0.0) -> Need:
    """Return the need of a future in which each job starts at its submission.

    Args:
        most: upper bound of a need: the number of nodes without a job.
        slack: nodes that are free on nodes with jobs, as a sum of shares of nodes.
    """
    base = future.sample * (most + 1)
    nodes = np.clip(np.ceil(_held(future) - slack), 0, most).astype(np.int64)
    key = base + nodes  # ascends from sample to sample
    highest = np.maximum.accumulate(np.maximum(key, base)) if len(key) else key
    caller = np.searchsorted(highest, key)
    before = np.concatenate([[0], highest[:-1]])
    before = np.maximum(before, base)[: len(key)]
    is_record = highest > before
    return Need(
        future.samples,
        future.after_s,
        nodes,
        caller,
        future.after_s[is_record],
        (before - base)[is_record],
        (highest - base)[is_record],
    )


def _held(future: Futures) -> Floats:
    """Return the nodes held after each submission, less those held now, float64[n]."""
    count, (samples, jobs) = len(future.nodes), future.ends_s.shape
    sample = np.concatenate([future.sample, future.sample, np.repeat(np.arange(samples), jobs)])
    at_s = np.concatenate([future.after_s, future.after_s + future.run_s, future.ends_s.ravel()])
    change = np.concatenate([future.nodes, -future.nodes, -np.tile(future.held, samples)])
    order = np.lexsort((at_s, sample))
    held = np.empty(len(order))
    held[order] = change[order].cumsum()
    whole = np.bincount(sample, weights=change, minlength=samples)
    before: Floats = whole.cumsum() - whole
    return held[:count] - before[future.sample]
