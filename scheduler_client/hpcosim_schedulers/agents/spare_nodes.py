"""The power manager `learned`: the plans of `predictive` with forecasts that a network corrects.

The network observes a row for each spare node, in the order of `Spares`, with how many nodes were
needed in the past. Writing its file needs the extra `rl`.
An invalid file of a network is a `PolicyError`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcosim_client.arrays import Floats
from hpcosim_client.errors import PolicyError
from hpcosim_client.safetensors_file import ArraysFile, load_arrays, save_arrays
from hpcosim_client.view import View
from hpcosim_schedulers.power.manager import Manager
from hpcosim_schedulers.power.settings import Learned, Predictive
from hpcosim_schedulers.predictive.manager import (
    HOLDS,
    NodeEnergy,
    Plan,
    Spares,
    energies_j,
    mean_by_node,
    predictive,
    saved_waits_s,
)

MEMORY = (1.0, 8.0, 64.0)
"""Times of exponential forgetting, relative to the break-even time."""


COLUMNS = 2 * HOLDS + 3 + 2 + 7 + 8
"""Number of columns: the forecast for each time to hold, kind and place of the node, the history
of its level, and the state of the cluster."""

LEAST_SAVED = 0.05
"""Added to waits saved, in boots, before their logarithm is taken."""


FORMAT = "hpcosim spare nodes 1"
OUTPUTS = 2 * HOLDS
MOST_LOG_ODDS = 30.0
MOST_LOG = 4.0
"""Bounds of the outputs: of the logarithms of the factors on odds and on waits saved."""

_FILE = ArraysFile(
    "a network",
    FORMAT,
    "hpcosim train spare-nodes",
    {"inner": (COLUMNS + 1, None), "outer": (None, OUTPUTS)},
)

Facts = Mapping[str, str | int | float]


def learned(settings: Learned) -> Manager:
    """Return the manager of a trained network."""
    plain = Predictive(settings.wait_price_w, settings.samples)
    return by_network(plain, load_network(Path(settings.model)))


def by_network(settings: Predictive, network: NeedNetwork) -> Manager:
    """Return `predictive` with forecasts that a network corrects."""

    def costs(view: View, plan: Plan, usage: NodeUsage) -> Floats:
        forecast = forecast_of(plan)
        seen = features(view, plan, forecast, usage)
        return corrected_costs_j(plan, changes(network, seen, forecast))

    return by_costs(settings, costs)


def by_costs(settings: Predictive, costs: Callable[[View, Plan, NodeUsage], Floats]) -> Manager:
    """Return `predictive` with costs that depend on the history of demand.

    Args:
        costs: returns the expected cost of 0, 1, ... spare nodes, as `costs_j`.
    """
    usage: NodeUsage | None = None

    def costs_j(view: View, plan: Plan) -> Floats:
        assert usage is not None
        return costs(view, plan, usage)

    planner = predictive(settings, costs=costs_j)

    def manage(view: View) -> float | None:
        nonlocal usage
        if usage is None:
            usage = NodeUsage(view, NodeEnergy(view, settings.wait_price_w).break_even_s)
        usage.update(view)
        return planner(view)

    return manage


def corrected_costs_j(plan: Plan, more: NodeForecast) -> Floats:
    """Return the expected costs of a plan after a correction of its forecast.

    The time of the first need above a node changes as its distribution at the times to hold does;
    between them it is linear. Without a correction these are exactly the costs of `costs_j`.

    Returns:
        float64[k + 1], J.
    """
    need, spares, holds_s = plan.need, plan.spares, plan.energy.holds_s
    more_j = more_energy_j(spares, holds_s, more.used)
    more_s = more.saved * spares.boot_s
    more_s[:, spares.idle : spares.idle + spares.booting] = 0.0
    least: Floats | None = None
    for each, hold_s in enumerate(holds_s.tolist()):
        energy_j = energies_j(need, spares, hold_s) + more_j[each]
        saved_s = saved_waits_s(need, spares, hold_s, plan.next_s)
        saved_s = saved_s + _from_0(more_s[each])
        cost_j = _from_0(energy_j) - plan.price_w * saved_s
        least = cost_j if least is None else np.minimum(least, cost_j)
    assert least is not None
    return least


def _from_0(by_node: Floats) -> Floats:
    """Return the sums over the first 0, 1, ... nodes."""
    return np.concatenate([[0.0], by_node.cumsum()])


def more_energy_j(spares: Spares, holds_s: Floats, more: Floats) -> Floats:
    """Return the change of each node's energy, float64[holds, k], J.

    Args:
        holds_s: float64[holds], times to hold them, ascending, s.
        more: float64[holds, k], change of the probability of a need in each time to hold.
    """
    warm = spares.idle + spares.booting
    times_s = np.concatenate([[0.0], holds_s])
    change = np.vstack([np.zeros(more.shape[1]), more])
    until_s = _integrals(times_s, change)
    if len(spares.boot_s) > warm:
        boot_s = float(spares.boot_s[warm:].mean())
        until_s[:, warm:] -= _integral_to(boot_s, times_s, change[:, warm:], until_s[:, warm:])
        until_s[times_s <= boot_s, warm:] = 0.0
    found: Floats = -spares.hold_w * until_s[1:] - spares.cycle_j * more
    found[:, spares.idle : warm] = 0.0  # they cannot be stopped
    return found


def _integrals(times_s: Floats, values: Floats) -> Floats:
    """Return the integrals of values, linear between times, from the first to each time."""
    parts = 0.5 * (values[1:] + values[:-1]) * np.diff(times_s)[:, None]
    return np.vstack([np.zeros(values.shape[1]), parts.cumsum(axis=0)])


def _integral_to(at_s: float, times_s: Floats, values: Floats, integrals: Floats) -> Floats:
    """Return the integral up to another time; beyond the last time that up to it."""
    at_s = min(at_s, float(times_s[-1]))
    low = min(int(times_s.searchsorted(at_s, side="right")) - 1, len(times_s) - 2)
    share = (at_s - times_s[low]) / (times_s[low + 1] - times_s[low])
    value = (1.0 - share) * values[low] + share * values[low + 1]
    found: Floats = integrals[low] + 0.5 * (values[low] + value) * (at_s - times_s[low])
    return found


class NodeUsage:
    """The history of demand: the nodes with jobs, and those that waiting jobs request.

    Level n stands for a demand of more than n nodes.

    Args:
        unit_s: unit of time, the break-even time, s.
    """

    def __init__(self, view: View, unit_s: float) -> None:
        nodes = len(view.nodes.jobs)
        self._unit_s = unit_s
        self._node_cores = float(view.nodes.capacity.mean())
        self._start_s = self._now_s = view.now_s
        self._demand = 0
        self._submitted = 0
        self._last_s: Floats = np.full(nodes, view.now_s)
        self._shares: Floats = np.zeros((len(MEMORY), nodes))
        self._rises: Floats = np.zeros((len(MEMORY), nodes))

    def update(self, view: View) -> None:
        """Take what has happened since the last call."""
        passed = (view.now_s - self._now_s) / self._unit_s
        self._now_s = view.now_s
        demand, before = self._demand_of(view), self._demand
        self._submitted += len(view.arrived)
        if passed > 0.0:
            kept = np.exp(-passed / np.array(MEMORY))[:, None]
            self._shares *= kept
            self._shares[:, :before] += 1.0 - kept
            self._rises *= kept
            self._last_s[:before] = view.now_s
        self._rises[:, before:demand] += 1.0
        self._last_s[:demand] = view.now_s
        self._demand = demand

    @property
    def elapsed(self) -> float:
        """Time since the first call, in units."""
        return (self._now_s - self._start_s) / self._unit_s

    @property
    def submitted(self) -> int:
        """Number of submissions since the first call."""
        return self._submitted

    def above(self, nodes: int, count: int) -> Floats:
        """Return what was observed of the levels above a number of nodes.

        Returns:
            float64[7, count], for levels `nodes`, `nodes` + 1, ...: the time since the level, in
            units (since the first call, if it never was); the share of time at it, and the number
            of rises to it, forgotten by each of `MEMORY`.
        """
        levels = np.minimum(np.arange(nodes, nodes + count), len(self._last_s) - 1)
        ago = (self._now_s - self._last_s[levels]) / self._unit_s
        return np.vstack([ago, self._shares[:, levels], self._rises[:, levels]])

    def _demand_of(self, view: View) -> int:
        nodes = view.nodes
        busy = int(np.count_nonzero(nodes.jobs))
        waits = sum(job.cores for job in view.queue.values()) / self._node_cores
        return min(busy + int(np.ceil(waits)), len(nodes.jobs))


class NodeForecast(NamedTuple):
    """What the samples say of each spare node, for each time to hold it.

    Attributes:
        used: float64[holds, k], share of samples in which it is needed in that time, away from 0
            and 1 by half a sample.
        saved: float64[holds, k], expected waits that it saves, in boots of the node.
    """

    used: Floats
    saved: Floats


def forecast_of(plan: Plan) -> NodeForecast:
    """Return the sampled forecast of each spare node."""
    need, spares = plan.need, plan.spares
    count = len(spares.hold_w)
    boot_s = np.maximum(spares.boot_s, 1e-9)
    used, saved = [], []
    for hold_s in plan.energy.holds_s.tolist():
        comes = (need.record_s <= hold_s).astype(np.float64)
        used.append(mean_by_node(need, comes, count))
        saved.append(np.diff(saved_waits_s(need, spares, hold_s, plan.next_s)) / boot_s)
    shares = (np.array(used) * need.samples + 0.5) / (need.samples + 1.0)
    return NodeForecast(np.clip(shares, 1e-6, 1.0 - 1e-6), np.array(saved))


def features(view: View, plan: Plan, forecast: NodeForecast, usage: NodeUsage) -> Floats:
    """Return the observation, float64[k, COLUMNS]."""
    spares, nodes = plan.spares, len(view.nodes.jobs)
    count = len(spares.hold_w)
    place = np.arange(count)
    warm = spares.idle + spares.booting
    busy = int(np.count_nonzero(view.nodes.jobs))
    logit = np.log(forecast.used / (1.0 - forecast.used))
    kind = np.array([place < spares.idle, (place >= spares.idle) & (place < warm), place >= warm])
    past = usage.above(busy, count)
    return np.vstack(
        [
            logit / 4.0,
            np.log(forecast.saved + LEAST_SAVED) / 3.0,
            kind,
            (place + 1.0) / nodes,
            np.log1p(place) / 5.0,
            np.log1p(past[:1]) / 4.0,
            past[1:4],
            np.log1p(past[4:]) / 3.0,
            np.repeat(_state(view, plan, usage)[:, None], count, axis=1),
        ]
    ).T


def _state(view: View, plan: Plan, usage: NodeUsage) -> Floats:
    """Return the state of the cluster, float64[8]."""
    energy, spares, nodes = plan.energy, plan.spares, len(view.nodes.jobs)
    even_s, waiting = energy.break_even_s, len(view.queue)
    return np.array(
        [
            1.0 / (1.0 + usage.elapsed / 8.0),
            1.0 / (1.0 + usage.submitted / 64.0),
            np.count_nonzero(view.nodes.jobs) / nodes,
            spares.idle / nodes,
            waiting / (waiting + 8.0),
            math.log10(max(even_s, 1e-9) / 900.0) / 2.0,
            math.log(energy.holds_s[-1] / even_s) / 4.0,
            min(plan.next_s / even_s, 1.0),
        ]
    )


class NeedNetwork(NamedTuple):
    """A network with one hidden layer (tanh), the same for every spare node.

    Attributes:
        inner: float64[COLUMNS + 1, hidden], weights of the hidden layer; the last row is its bias.
        outer: float64[hidden + 1, OUTPUTS], weights of the outputs; the last row is their bias.

    A node has an output for each time to hold it that is added to the log-odds of a need in that
    time, and then one for each that is added to the logarithm of the waits that it saves.
    """

    inner: Floats
    outer: Floats


def neutral(hidden: int, generator: np.random.Generator) -> NeedNetwork:
    """Return an untrained network, all outputs of which are 0: it corrects nothing."""
    inner = generator.normal(0.0, COLUMNS**-0.5, (COLUMNS + 1, hidden))
    inner[-1] = 0.0
    return NeedNetwork(inner, np.zeros((hidden + 1, OUTPUTS)))


def changes(network: NeedNetwork, seen: Floats, forecast: NodeForecast) -> NodeForecast:
    """Return what the network adds to a forecast; 0 where its outputs are 0.

    Args:
        seen: float64[k, COLUMNS], as of `features.features`.
    """
    hidden = np.tanh(seen @ network.inner[:-1] + network.inner[-1])
    out = (hidden @ network.outer[:-1] + network.outer[-1]).T
    odds = forecast.used / (1.0 - forecast.used)
    more = odds * np.exp(np.clip(out[:HOLDS], -MOST_LOG_ODDS, MOST_LOG_ODDS))
    factor = np.exp(np.clip(out[HOLDS:], -MOST_LOG, MOST_LOG))
    used = more / (1.0 + more) - odds / (1.0 + odds)
    return NodeForecast(used, (forecast.saved + LEAST_SAVED) * (factor - 1.0))


def save_network(path: Path, network: NeedNetwork, facts: Facts) -> None:
    """Write a network as a safetensors file, the same bytes for the same arguments."""
    save_arrays(_FILE, path, network._asdict(), json.dumps(dict(facts), sort_keys=True))


def load_network(path: Path) -> NeedNetwork:
    """Return the network in a file."""
    arrays, _ = load_arrays(_FILE, path)
    network = NeedNetwork(**arrays)
    hidden = network.inner.shape[1]
    if len(network.outer) != hidden + 1:
        raise PolicyError(
            f"{path}: expected a row of outer weights for each of {hidden} hidden units, and one "
            f"of biases; got {len(network.outer)} rows"
        )
    return network
