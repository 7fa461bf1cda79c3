"""Look-ahead, as `hpcosim_schedulers.heuristics.look_ahead`: the best of some plans is followed.

`State.rows` has the visible jobs by area.
"""

from __future__ import annotations

import numpy as np

from hpcosim_compiled import profile
from hpcosim_compiled.cluster import start
from hpcosim_compiled.compiler import compiled, compiled_apart
from hpcosim_compiled.easy import some_fits
from hpcosim_compiled.explanations import explain_queue, sleep
from hpcosim_compiled.profile import earliest_s, find_lows, forget, make_profile, reserve
from hpcosim_compiled.state import NodesAhead, State
from hpcosim_compiled.waiting import ANY, next_place
from hpcosim_schedulers.heuristics import look_ahead as reference
from hpcosim_schedulers.heuristics.look_ahead import PLANNED_JOBS, PLANS

_cost_of_start = compiled(reference.cost_of_start)


@compiled
def look_ahead(state: State, ahead: NodesAhead | None, window_jobs: int) -> None:
    """Start the jobs that the plan with the least cost starts now.

    Args:
        state: the simulation.
        ahead: `state.ahead`.
        window_jobs: number of visible jobs.
    """
    g, rows, head, shadow_s = state.g[0], state.rows, -1, np.nan
    while head < 0 and some_fits(state):
        count = _sort_by_area(state, window_jobs)
        best = _best_head(state, ahead, min(count, PLANNED_JOBS))
        head = rows[best]
        if start(state, head):
            head = -1
        else:
            for place in range(best, 0, -1):
                rows[place] = rows[place - 1]
            rows[0] = head
            shadow_s = _follow(state, ahead, count)
    sleep(state, state.said, g.free_cores == 0)
    explain_queue(state, state.said, head, shadow_s)


@compiled_apart
def _sort_by_area(state: State, window_jobs: int) -> int:
    """Write the visible jobs by area to `rows`; return their number."""
    g, rows, areas = state.g[0], state.rows, state.keys
    place, count = g.first, 0
    while count < window_jobs and place < g.last:
        row = state.queue[place]
        area, at = state.jobs[row].requested_s * state.jobs[row].cores, count
        while at > 0 and areas[at - 1] > area:
            rows[at], areas[at] = rows[at - 1], areas[at - 1]
            at -= 1
        rows[at], areas[at] = row, area
        count, place = count + 1, next_place(state, place + 1, ANY)
    return count


@compiled_apart
def _best_head(state: State, ahead: NodesAhead | None, count: int) -> int:
    """Return the place of the job at the front of the best plan."""
    best, least = 0, np.inf
    if count > 1:
        for place in range(min(count, PLANS)):
            cost = _cost(state, ahead, count, place, least)
            if cost < least:
                best, least = place, cost
    return best


@compiled
def _cost(state: State, ahead: NodesAhead | None, count: int, head: int, most: float) -> float:
    """Return the cost of a plan; of one with at least `most`, a part of it that is not less."""
    g, cost = state.g[0], 0.0
    make_profile(state, ahead)
    for turn in range(count):
        row = state.rows[head if turn == 0 else turn - 1 if turn <= head else turn]
        start_s = earliest_s(state, ahead, row, -np.inf)
        if not np.isnan(start_s):
            reserve(state, ahead, row, start_s, 1)
            cost += _cost_of_start(start_s - g.now_s, g.now_s - state.jobs[row].submit_s)
            if cost >= most:
                break
    for place in range(count):
        forget(state, ahead, state.rows[place])
    return cost


@compiled_apart
def _follow(state: State, ahead: NodesAhead | None, count: int) -> float:
    """Start jobs by reservations in the order of `rows`, then others that delay none.

    Returns:
        The start of the reservation of the first job, s; NaN: it has none.
    """
    g, shadow_s = state.g[0], np.nan
    make_profile(state, ahead)
    for place in range(count):
        row = state.rows[place]
        start_s = earliest_s(state, ahead, row, -np.inf)
        if place == 0:
            shadow_s = start_s
        if np.isnan(start_s):
            continue
        if start_s > g.now_s or not profile.start(state, ahead, row):
            reserve(state, ahead, row, start_s, 1)
        if g.free_cores == 0:
            break
    if g.free_cores > 0:
        _start_others(state, ahead, count)
    for place in range(count):
        forget(state, ahead, state.rows[place])
    return shadow_s


@compiled
def _start_others(state: State, ahead: NodesAhead | None, count: int) -> None:
    """Start jobs that are not visible, in submission order, if they delay no reservation."""
    g, last = state.g[0], -1
    for place in range(count):
        last = max(last, state.rows[place])  # rows are numbered in submission order
    find_lows(state)
    place = next_place(state, g.first, g.free_cores)
    while place < g.last:
        row = state.queue[place]
        is_other = row > last and profile.may_fit_now(state, ahead, row)
        if is_other and profile.start(state, ahead, row):
            find_lows(state)
        place = next_place(state, place + 1, g.free_cores)
