"""EASY backfilling, as `hpcosim_schedulers.heuristics.easy`: the head alone has a reservation."""

from __future__ import annotations

import numpy as np

from hpcosim_compiled.cluster import start
from hpcosim_compiled.compiler import compiled
from hpcosim_compiled.orders import by_submission, key_now
from hpcosim_compiled.profile import (
    earliest_s,
    find_lows,
    fits_now,
    make_profile,
    need_of,
    reserve,
)
from hpcosim_compiled.state import State
from hpcosim_compiled.waiting import ANY, next_place


@compiled
def easy(state: State) -> None:
    """EASY backfilling in submission order."""
    by_submission(state)
    if state.g[0].queued > 1:
        backfill_behind(state, state.queue[state.g[0].first])


@compiled
def easy_by_rule(state: State, key: int, aged_s: float, window_jobs: int) -> None:
    """EASY backfilling whose head is the job of the least key.

    Args:
        state: the simulation.
        key: see `orders.key_now`.
        aged_s: jobs that have waited longer are the head first, in submission order, s.
        window_jobs: number of jobs from which the head is chosen.
    """
    g = state.g[0]
    while some_fits(state):
        head = state.queue[g.first]
        if g.queued > 1:
            head = _head_by_key(state, key, aged_s, window_jobs)
        if not start(state, head):
            if g.queued > 1:
                backfill_behind(state, head)
            return


@compiled
def backfill_behind(state: State, head: int) -> None:
    """Start jobs that do not delay a head that does not fit, in submission order."""
    g, jobs = state.g[0], state.jobs
    place = _next_small(state, g.first, head)
    if place == g.last:
        return
    make_profile(state)
    need, requested_s = need_of(state, head), jobs[head].requested_s
    shadow_s = earliest_s(state, need, requested_s, -np.inf)
    if not np.isnan(shadow_s):
        reserve(state, need, requested_s, shadow_s)
    find_lows(state)
    while place < g.last:
        row = state.queue[place]
        need, requested_s = need_of(state, row), jobs[row].requested_s
        if fits_now(state, need, requested_s) and start(state, row):
            reserve(state, need, requested_s, g.now_s)
            find_lows(state)
        place = _next_small(state, place + 1, head)


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
