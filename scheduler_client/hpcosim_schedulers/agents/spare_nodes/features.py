"""What the network observes: a row for each spare node, in the order of `Spares`.

All columns are relative to the size of the cluster, to its break-even time and to the samples, so
that one network serves any cluster.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hpcosim_client.arrays import Floats
from hpcosim_client.view import View
from hpcosim_schedulers.agents.spare_nodes.usage import Usage
from hpcosim_schedulers.predictive.costs import mean_by_node, saved_waits_s
from hpcosim_schedulers.predictive.energy import HOLDS
from hpcosim_schedulers.predictive.manager import Plan

COLUMNS = 2 * HOLDS + 3 + 2 + 7 + 8
"""Number of columns: the forecast for each time to hold, kind and place of the node, the history
of its level, and the state of the cluster."""

LEAST_SAVED = 0.05
"""Added to waits saved, in boots, before their logarithm is taken."""


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


def features(view: View, plan: Plan, forecast: NodeForecast, usage: Usage) -> Floats:
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


def _state(view: View, plan: Plan, usage: Usage) -> Floats:
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
