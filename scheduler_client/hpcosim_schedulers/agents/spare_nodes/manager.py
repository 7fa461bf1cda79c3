"""The power manager `learned`: the plans of `predictive` with forecasts that a network corrects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from hpcosim_client.arrays import Floats
from hpcosim_client.view import View
from hpcosim_schedulers.agents.spare_nodes.features import NodeForecast, features, forecast_of
from hpcosim_schedulers.agents.spare_nodes.model import NeedNetwork, changes, load_network
from hpcosim_schedulers.agents.spare_nodes.usage import Usage
from hpcosim_schedulers.power.manager import Manager
from hpcosim_schedulers.power.settings import Learned, Predictive
from hpcosim_schedulers.predictive.costs import Spares, energies_j, saved_waits_s
from hpcosim_schedulers.predictive.energy import NodeEnergy
from hpcosim_schedulers.predictive.manager import Plan, predictive


def learned(settings: Learned) -> Manager:
    """Return the manager of a trained network.

    Raises:
        PolicyError: the file of the network is invalid.
    """
    plain = Predictive(settings.wait_price_w, settings.samples)
    return by_network(plain, load_network(Path(settings.model)))


def by_network(settings: Predictive, network: NeedNetwork) -> Manager:
    """Return `predictive` with forecasts that a network corrects."""

    def costs(view: View, plan: Plan, usage: Usage) -> Floats:
        forecast = forecast_of(plan)
        seen = features(view, plan, forecast, usage)
        return corrected_costs_j(plan, changes(network, seen, forecast))

    return by_costs(settings, costs)


def by_costs(settings: Predictive, costs: Callable[[View, Plan, Usage], Floats]) -> Manager:
    """Return `predictive` with costs that depend on the history of demand.

    Args:
        settings: its settings.
        costs: returns the expected cost of 0, 1, ... spare nodes, as `costs.costs_j`.
    """
    usage: Usage | None = None

    def costs_j(view: View, plan: Plan) -> Floats:
        assert usage is not None
        return costs(view, plan, usage)

    planner = predictive(settings, costs=costs_j)

    def manage(view: View) -> float | None:
        nonlocal usage
        if usage is None:
            usage = Usage(view, NodeEnergy(view, settings.wait_price_w).break_even_s)
        usage.update(view)
        return planner(view)

    return manage


def corrected_costs_j(plan: Plan, more: NodeForecast) -> Floats:
    """Return the expected costs of a plan after a correction of its forecast.

    The time of the first need above a node changes as its distribution at the times to hold does;
    between them it is linear. Without a correction these are exactly the costs of `costs_j`.

    Args:
        plan: the plan.
        more: what is added to its sampled forecast.

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
        spares: the spare nodes.
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
