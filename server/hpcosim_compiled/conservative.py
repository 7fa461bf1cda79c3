"""Conservative backfilling, as `hpcosim_schedulers.heuristics.conservative`: all have reservations.

`State.keyed` has the waiting jobs by begin of their reservations.
"""

from __future__ import annotations

import numpy as np

from hpcosim_compiled.cluster import start
from hpcosim_compiled.compiler import compiled
from hpcosim_compiled.node_power import is_boot_late
from hpcosim_compiled.profile import earliest_s, fits, make_profile, need_of, reserve
from hpcosim_compiled.state import WAITING, State
from hpcosim_compiled.waiting import ANY, next_place


@compiled
def conservative(state: State) -> None:
    """Renew the reservations, move them forward if a job ended early, and start jobs."""
    g, jobs, order = state.g[0], state.jobs, state.keyed
    ended_early, g.ended_early, g.alarm_s = g.ended_early, 0, np.inf
    if g.queued == 0:
        return
    make_profile(state)
    sort_by_begin(state)
    for place in range(g.keyed):
        job = jobs[order[place]]
        job.last_s = job.reserved_s
        need, requested_s = need_of(state, order[place]), job.requested_s
        if job.reserved_s >= g.now_s and fits(state, need, requested_s, job.reserved_s):
            reserve(state, need, requested_s, job.reserved_s)
        else:
            _reserve(state, order[place], max(job.reserved_s, g.now_s))
    place = next_place(state, g.first, ANY)
    while place < g.last:
        row = state.queue[place]
        job = jobs[row]
        if np.isnan(job.reserved_s):  # it was submitted since the last call
            job.last_s = np.inf
            _reserve(state, row, g.now_s)
            order[g.keyed] = row
            g.keyed += 1
        elif ended_early:
            reserve(state, -need_of(state, row), job.requested_s, job.reserved_s)
            _reserve(state, row, g.now_s)
        place = next_place(state, place + 1, ANY)
    place = next_place(state, g.first, ANY)
    while place < g.last:
        if jobs[state.queue[place]].reserved_s == g.now_s:
            _start(state, state.queue[place])
        place = next_place(state, place + 1, ANY)
    _set_alarm(state)


@compiled
def _reserve(state: State, row: int, after_s: float) -> None:
    """Make the earliest reservation of a job from a time on."""
    job, need = state.jobs[row], need_of(state, row)
    job.reserved_s = earliest_s(state, need, job.requested_s, after_s)
    reserve(state, need, job.requested_s, job.reserved_s)


@compiled
def _start(state: State, row: int) -> None:
    """Start a job whose reservation begins now, if its cores are free."""
    now_s, job, need = state.g[0].now_s, state.jobs[row], need_of(state, row)
    reserve(state, -need, job.requested_s, now_s)
    if fits(state, need, job.requested_s, now_s):
        start(state, row)
    reserve(state, need, job.requested_s, now_s)


@compiled
def sort_by_begin(state: State) -> None:
    """Sort the waiting jobs by begin of their reservations, which changed little; then by row."""
    jobs, order = state.jobs, state.keyed
    for place in range(1, state.g[0].keyed):
        row = order[place]
        begin_s = jobs[row].reserved_s
        while place > 0:
            other = order[place - 1]
            other_s = jobs[other].reserved_s
            if other_s < begin_s or (other_s == begin_s and other < row):
                break
            order[place] = other
            place -= 1
        order[place] = row


@compiled
def _set_alarm(state: State) -> None:
    """Set the alarm to the next reservation that does not wait for the end of a late job or boot.

    Jobs that have started lose their place in the order.
    """
    g, jobs, order = state.g[0], state.jobs, state.keyed
    is_overdue = g.running > 0 and state.due[0].at_s <= g.now_s
    is_overdue = is_overdue or is_boot_late(state, state.power)
    size = 0
    for place in range(g.keyed):
        job = jobs[order[place]]
        if job.state == WAITING:
            order[size] = order[place]
            size += 1
            moves = is_overdue and job.reserved_s > job.last_s
            if job.reserved_s > g.now_s and not moves:
                g.alarm_s = min(g.alarm_s, job.reserved_s)
    g.keyed = size
