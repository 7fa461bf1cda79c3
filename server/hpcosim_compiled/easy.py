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


@compiled
def easy(state: State) -> None:
    """EASY backfilling in submission order."""
    by_submission(state)
    if state.g[0].queued > 1:
        backfill_behind(state, state.jobs[state.g[0].jobs].after)


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
    while next_small(state, state.jobs[g.jobs].after, -1) != g.jobs:
        head = state.jobs[g.jobs].after
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
    row = next_small(state, jobs[g.jobs].after, head)
    if row == g.jobs:
        return
    make_profile(state)
    need, requested_s = need_of(state, head), jobs[head].requested_s
    shadow_s = earliest_s(state, need, requested_s, -np.inf)
    if not np.isnan(shadow_s):
        reserve(state, need, requested_s, shadow_s)
    find_lows(state)
    while row != g.jobs:
        need, requested_s, after = need_of(state, row), jobs[row].requested_s, jobs[row].after
        if fits_now(state, need, requested_s) and start(state, row):
            reserve(state, need, requested_s, g.now_s)
            find_lows(state)
        row = next_small(state, after, head)


@compiled
def next_small(state: State, row: int, head: int) -> int:
    """Return the first job from `row` on, but the head, that requests at most the free cores."""
    g, jobs = state.g[0], state.jobs
    while row != g.jobs and (jobs[row].cores > g.free_cores or row == head):
        row = jobs[row].after
    return row


@compiled
def _head_by_key(state: State, key: int, aged_s: float, window_jobs: int) -> int:
    g, jobs = state.g[0], state.jobs
    row = head = jobs[g.jobs].after
    least = np.inf
    for _ in range(window_jobs):
        if row == g.jobs:
            break
        if g.now_s - jobs[row].submit_s > aged_s:
            return row
        own = key_now(state, key, row)
        if own < least:
            head, least = row, own
        row = jobs[row].after
    return head
