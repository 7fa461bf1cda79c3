"""The free cores, or the free whole nodes, in future; see `hpcosim_client.profiles.CountProfile`.

`State.profile` has a number of free cores from a time until the next entry; the last has no end.
"""

from __future__ import annotations

import numpy as np

from hpcosim_compiled.compiler import compiled
from hpcosim_compiled.node_power import is_any
from hpcosim_compiled.state import CORES, SWITCHING_OFF, Power, State
from hpcosim_compiled.steps import split, step_at


@compiled
def need_of(state: State, row: int) -> int:
    """Return the cores of a job, or its nodes where all jobs take whole nodes."""
    job = state.jobs[row]
    if job.placement == CORES:
        return job.cores
    return -(-job.cores // state.nodes[0].capacity)


@compiled
def make_profile(state: State) -> None:
    """Make the profile that the running jobs leave by their requested times."""
    g, profile, due = state.g[0], state.profile, state.due
    free = g.free_cores
    if state.jobs[0].placement != CORES:
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
    g, count_cores = state.g[0], state.jobs[0].placement == CORES
    for node in range(len(power.nodes)):
        each = power.nodes[node]
        if each.state == SWITCHING_OFF:
            first = split(state, max(each.from_s, g.now_s))
            for step in range(first, g.steps):
                state.profile[step].number += state.nodes[node].capacity if count_cores else 1


@compiled
def earliest_s(state: State, need: int, requested_s: float, after_s: float) -> float:
    """Return the earliest start from a time on, s; NaN: there is none."""
    profile, steps = state.profile, state.g[0].steps
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
def fits(state: State, need: int, requested_s: float, start_s: float) -> bool:
    """Return whether cores are free from a time on for a requested time."""
    return _first_short(state, step_at(state, start_s), start_s + requested_s, need) < 0


@compiled
def find_lows(state: State) -> None:
    """Find the steps of the profile with a new least number, for `fits_now`."""
    profile, lows, g = state.profile, state.lows, state.g[0]
    lows[0].at_s, lows[0].number = profile[0].at_s, profile[0].number
    g.lows = 1
    for step in range(1, g.steps):
        if profile[step].number < lows[g.lows - 1].number:
            lows[g.lows].at_s, lows[g.lows].number = profile[step].at_s, profile[step].number
            g.lows += 1


@compiled
def fits_now(state: State, need: int, requested_s: float) -> bool:
    """Return whether cores are free from now on for a requested time; after `find_lows`."""
    for low in range(state.g[0].lows):
        if need > state.lows[low].number:
            return low > 0 and state.lows[low].at_s >= state.g[0].now_s + requested_s
    return True


@compiled
def reserve(state: State, need: int, requested_s: float, start_s: float) -> None:
    """Take cores from a time on for a requested time; a negative number gives them back."""
    first, last = split(state, start_s), split(state, start_s + requested_s)
    for step in range(first, last):
        state.profile[step].number -= need


@compiled
def _first_short(state: State, first: int, until_s: float, need: int) -> int:
    """Return the first step from `first` on, before `until_s`, with less than `need`; -1: none."""
    for step in range(first, state.g[0].steps):
        if step > first and state.profile[step].at_s >= until_s:
            return -1
        if state.profile[step].number < need:
            return step
    return -1
