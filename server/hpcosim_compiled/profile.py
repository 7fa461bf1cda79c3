"""The free cores in future, as `hpcosim_client.profiles`: counted, or of every node.

A count of cores, or of whole nodes, is sufficient while all jobs have asked for the same; otherwise
`node_profile` has the free cores of every node. The last step of a profile has no end.
"""

from __future__ import annotations

import numpy as np

from hpcosim_compiled import cluster, node_profile
from hpcosim_compiled.compiler import compiled
from hpcosim_compiled.node_power import is_any
from hpcosim_compiled.state import (
    CORES,
    SWITCHING_OFF,
    WHOLE_NODES,
    NodesAhead,
    Power,
    State,
)
from hpcosim_compiled.steps import split, step_at


@compiled
def _counts(state: State) -> bool:
    """Return whether numbers of cores or of nodes are sufficient."""
    g = state.g[0]
    if not g.names_nodes:
        return True
    return g.placements == 1 << CORES or (g.placements == 1 << WHOLE_NODES and g.alike != 0)


@compiled
def need_of(state: State, row: int) -> int:
    """Return the cores of a job, or its nodes where all jobs take whole nodes."""
    job = state.jobs[row]
    if job.placement == CORES:
        return job.cores
    return -(-job.cores // state.nodes[0].capacity)


@compiled
def make_profile(state: State, ahead: NodesAhead | None) -> None:
    """Make the profile that the running jobs leave by their requested times."""
    g, profile, due = state.g[0], state.profile, state.due
    if ahead is not None and not _counts(state):
        node_profile.make(state, ahead)
        return
    free = g.free_cores
    if g.placements == 1 << WHOLE_NODES:
        free = 0
        for node in range(len(state.free)):
            free += state.free[node] == state.nodes[node].capacity
    profile[0].at_s, profile[0].number = g.now_s, free
    g.steps, last_s = 1, g.now_s
    for entry in range(g.running):
        free += need_of(state, due[entry].number)
        if due[entry].at_s > last_s:
            last_s = profile[g.steps].at_s = due[entry].at_s
            g.steps += 1
        profile[g.steps - 1].number = free
    _add_returning(state, state.power)


@compiled
def _add_returning(state: State, power: Power | None) -> None:
    """Add the nodes that are being switched off, which can be allocated when they sleep."""
    if power is None or not is_any(power, SWITCHING_OFF):
        return
    g, count_cores = state.g[0], state.g[0].placements == 1 << CORES
    for node in range(len(power.nodes)):
        each = power.nodes[node]
        if each.state == SWITCHING_OFF:
            first = split(state, max(each.from_s, g.now_s))
            for step in range(first, g.steps):
                state.profile[step].number += state.nodes[node].capacity if count_cores else 1


@compiled
def earliest_s(state: State, ahead: NodesAhead | None, row: int, after_s: float) -> float:
    """Return the earliest start of a job from a time on, s; NaN: there is none."""
    if ahead is not None and not _counts(state):
        return node_profile.earliest_s(state, ahead, row, after_s)
    profile, steps = state.profile, state.g[0].steps
    need, requested_s = need_of(state, row), state.jobs[row].requested_s
    first = step_at(state, after_s)
    while first < steps:
        start_s = max(profile[first].at_s, after_s)
        short = _first_short(state, first, start_s + requested_s, need)
        if short < 0:
            return start_s
        first = short + 1
        while first < steps and profile[first].number < need:
            first += 1
    return np.nan


@compiled
def fits(state: State, ahead: NodesAhead | None, row: int, start_s: float) -> bool:
    """Return whether a job that had a reservation can start at a time."""
    if ahead is not None and not _counts(state):
        return node_profile.fits(state, ahead, row, start_s)
    end_s = start_s + state.jobs[row].requested_s
    return _first_short(state, step_at(state, start_s), end_s, need_of(state, row)) < 0


@compiled
def reserve(state: State, ahead: NodesAhead | None, row: int, start_s: float, sign: int) -> None:
    """Make a reservation of a job (sign 1), or cancel it (sign -1)."""
    if ahead is not None and not _counts(state):
        node_profile.reserve(state, ahead, row, start_s, sign)
        return
    need = sign * need_of(state, row)
    first, last = split(state, start_s), split(state, start_s + state.jobs[row].requested_s)
    for step in range(first, last):
        state.profile[step].number -= need


@compiled
def start(state: State, ahead: NodesAhead | None, row: int) -> bool:
    """Start a job if that delays no reservation, and return whether it started."""
    if ahead is not None and not _counts(state):
        return node_profile.start(state, ahead, row)
    if not (fits(state, ahead, row, state.g[0].now_s) and cluster.start(state, row)):
        return False
    reserve(state, ahead, row, state.g[0].now_s, 1)
    return True


@compiled
def forget(state: State, ahead: NodesAhead | None, row: int) -> None:
    """Forget the nodes of a job that has no reservation any more."""
    if ahead is not None and not _counts(state):
        node_profile.forget(state, ahead, row)


@compiled
def find_lows(state: State) -> None:
    """Find the steps of a counted profile with a new least number, for `fits_now`."""
    profile, lows, g = state.profile, state.lows, state.g[0]
    lows[0].at_s, lows[0].number = profile[0].at_s, profile[0].number
    g.lows = 1
    for step in range(1, g.steps):
        if profile[step].number < lows[g.lows - 1].number:
            lows[g.lows].at_s, lows[g.lows].number = profile[step].at_s, profile[step].number
            g.lows += 1


@compiled
def may_fit_now(state: State, ahead: NodesAhead | None, row: int) -> bool:
    """Return False if `start` would not start a job, faster; after `find_lows`."""
    if ahead is not None and not _counts(state):
        return True
    need, requested_s = need_of(state, row), state.jobs[row].requested_s
    for low in range(state.g[0].lows):
        if need > state.lows[low].number:
            return low > 0 and state.lows[low].at_s >= state.g[0].now_s + requested_s
    return True


@compiled
def _first_short(state: State, first: int, until_s: float, need: int) -> int:
    """Return the first step from `first` on, before `until_s`, with less than `need`; -1: none."""
    for step in range(first, state.g[0].steps):
        if step > first and state.profile[step].at_s >= until_s:
            return -1
        if state.profile[step].number < need:
            return step
    return -1
