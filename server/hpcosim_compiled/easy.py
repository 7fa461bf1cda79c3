"""EASY backfilling, as `hpcosim_schedulers.heuristics.easy`: the head alone has a reservation."""

from __future__ import annotations

import numpy as np

from hpcosim_compiled import profile
from hpcosim_compiled.cluster import start
from hpcosim_compiled.compiler import compiled
from hpcosim_compiled.explanations import explain_queue, sleep
from hpcosim_compiled.orders import by_submission, key_now
from hpcosim_compiled.profile import find_lows, forget, make_profile, may_fit_now
from hpcosim_compiled.state import NodesAhead, State
from hpcosim_compiled.waiting import ANY, next_place


@compiled
def easy(state: State) -> None:
    """EASY backfilling in submission order."""
    by_submission(state)
    shadow_s = np.nan
    if state.g[0].queued > 1:
        shadow_s = backfill_behind(state, state.ahead, state.queue[state.g[0].first])
    sleep(state, state.said, state.g[0].free_cores == 0)
    explain_queue(state, state.said, -1, shadow_s)


@compiled
def easy_by_rule(state: State, key: int, aged_s: float, window_jobs: int) -> None:
    """EASY backfilling whose head is the job of the least key.

    Args:
        state: the simulation.
        key: see `orders.key_now`.
        aged_s: jobs that have waited longer are the head first, in submission order, s.
        window_jobs: number of jobs from which the head is chosen.
    """
    g, head, shadow_s = state.g[0], -1, np.nan
    while head < 0 and some_fits(state):
        chosen = state.queue[g.first]
        if g.queued > 1:
            chosen = _head_by_key(state, key, aged_s, window_jobs)
        if not start(state, chosen):
            head = chosen
            if g.queued > 1:
                shadow_s = backfill_behind(state, state.ahead, head)
    sleep(state, state.said, g.free_cores == 0)
    explain_queue(state, state.said, head, shadow_s)


@compiled
def backfill_behind(state: State, ahead: NodesAhead | None, head: int) -> float:
    """Start jobs that do not delay a head that does not fit, in submission order.

    Returns:
        The earliest start of the head, s; NaN: there is none, or none is needed.
    """
    g = state.g[0]
    place = _next_small(state, g.first, head)
    if g.free_cores == 0 or (place == g.last and not g.explains):
        return np.nan
    make_profile(state, ahead)
    shadow_s = profile.earliest_s(state, ahead, head, -np.inf)
    if not np.isnan(shadow_s):
        profile.reserve(state, ahead, head, shadow_s, 1)
    find_lows(state)
    while place < g.last:
        row = state.queue[place]
        if may_fit_now(state, ahead, row) and profile.start(state, ahead, row):
            find_lows(state)
        place = _next_small(state, place + 1, head)
    forget(state, ahead, head)
    return shadow_s


@compiled
def some_fits(state: State) -> bool:
    """Return whether a waiting job requests at most the free cores."""
    g = state.g[0]
    return next_place(state, g.first, g.free_cores) < g.last


@compiled
def _next_small(state: State, place: int, head: int) -> int:
    """Return the next place of a job, but the head, that requests at most the free cores."""
    free_cores = state.g[0].free_cores
    place = next_place(state, place, free_cores)
    if place < state.g[0].last and state.queue[place] == head:
        place = next_place(state, place + 1, free_cores)
    return place


@compiled
def _head_by_key(state: State, key: int, aged_s: float, window_jobs: int) -> int:
    g, place = state.g[0], state.g[0].first
    head, least = state.queue[place], np.inf
    for _ in range(window_jobs):
        if place == g.last:
            break
        row = state.queue[place]
        if g.now_s - state.jobs[row].submit_s > aged_s:
            return row
        own = key_now(state, key, row)
        if own < least:
            head, least = row, own
        place = next_place(state, place + 1, ANY)
    return head
