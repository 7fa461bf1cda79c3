"""The energy of the nodes of each kind, as `hpcosim_sim.physics.power`."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcosim_compiled.compiler import compiled
from hpcosim_compiled.state import (
    ON,
    PER_KIND,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
    Power,
    State,
)


@compiled
def note_peak(state: State) -> None:
    """Note the power since the last change if it is the greatest."""
    g = state.g[0]
    if g.now_s > g.changed_s:
        power_w = 0.0
        for kind in range(len(state.kinds)):
            power_w += state.kinds[kind].power_w
        g.changed_s = g.now_s
        g.peak_w = max(g.peak_w, power_w)


@compiled
def settle_all(state: State) -> None:
    """Integrate the energy of all nodes up to now."""
    note_peak(state)
    for number in range(len(state.kinds)):
        settle(state.kinds[number], state.power, number, state.g[0].now_s)


@compiled
def settle(kind: Any, power: Power | None, number: int, now_s: float) -> None:
    """Integrate the energy of a node kind, which has this number, up to now."""
    span_s = now_s - kind.settled_s
    if span_s <= 0.0:
        return
    kind.computing_j += kind.computing_w * span_s
    kind.computing_node_s += kind.computing * span_s
    kind.idle_j += kind.idle_w * kind.idle * span_s
    kind.idle_node_s += kind.idle * span_s
    if power is not None:
        for which in range(PER_KIND * number + ON + 1, PER_KIND * (number + 1)):
            off = power.kinds[which]
            off.energy_j += off.power_w * off.nodes * span_s
            off.node_s += off.nodes * span_s
    kind.settled_s = now_s


@compiled
def change(
    kind: Any, power: Power | None, number: int, now_s: float, nodes: int, tasks: int
) -> None:
    """Change the numbers of computing nodes and of tasks of a node kind."""
    settle(kind, power, number, now_s)
    kind.idle -= nodes
    kind.computing += nodes
    kind.tasks += tasks
    kind.computing_w = kind.static_w * kind.computing + kind.dynamic_w * kind.tasks
    sum_power(kind, power, number)


@compiled
def sum_power(kind: Any, power: Power | None, number: int) -> None:
    """Set the power of a node kind, after a change of the numbers of its nodes."""
    resting_w = kind.idle_w * kind.idle
    if power is not None:
        for state in (SLEEPING, SWITCHING_ON, SWITCHING_OFF):  # the order of `NODE_STATES`
            off = power.kinds[PER_KIND * number + state]
            resting_w += off.power_w * off.nodes
    kind.power_w = kind.computing_w + resting_w


def energy_between_j(state: State, from_s: float, until_s: float) -> float:
    """Return the energy of all nodes in a part of a simulation in which they are always on, J.

    Args:
        state: the simulation, which has passed the part.
    """
    periods, kinds = state.periods[: state.g.periods[0]], state.kinds
    of = np.repeat(np.arange(len(periods)), periods.places)
    first = np.cumsum(periods.places) - periods.places
    places = state.places[periods.first_place[of] + np.arange(len(of)) - first[of]]
    jobs, kind_of = state.jobs[periods.row], state.nodes.kind
    begin_s = np.clip(jobs.start_s, from_s, until_s)[of]
    end_s = np.clip(np.where(np.isnan(jobs.end_s), until_s, jobs.end_s), from_s, until_s)[of]
    energy_j = kinds.dynamic_w[kind_of[places.node]] @ (places.tasks * (end_s - begin_s))
    # A node computes from a begin to an end of its jobs while more have begun than ended.
    nodes, times_s = np.tile(places.node, 2), np.append(begin_s, end_s)
    order = np.lexsort((times_s, nodes))
    running = np.cumsum(np.repeat((1, -1), len(of))[order])[:-1]
    computing_s = np.diff(times_s[order]) * (running > 0)
    computing_s = np.bincount(kind_of[nodes[order[:-1]]], computing_s, len(kinds))
    node_s = np.bincount(kind_of, minlength=len(kinds)) * (until_s - from_s)
    energy_j += kinds.static_w @ computing_s + kinds.idle_w @ (node_s - computing_s)
    return float(energy_j)
