"""Conservative backfilling, as `hpcosim_schedulers.heuristics.conservative`: all have reservations.

`State.keyed` has the waiting jobs by begin of their reservations.
"""

from __future__ import annotations

import numpy as np

from hpcosim_compiled.compiler import compiled
from hpcosim_compiled.explanations import explain_reservations, sleep
from hpcosim_compiled.node_power import is_boot_late
from hpcosim_compiled.profile import earliest_s, fits, make_profile, reserve, start
from hpcosim_compiled.state import WAITING, NodesAhead, State
from hpcosim_compiled.waiting import ANY, next_place


@compiled
def conservative(state: State, ahead: NodesAhead | None) -> None:
    """Renew the reservations, move them forward if a job ended early, start and explain jobs."""
    g = state.g[0]
    ended_early, g.ended_early, g.alarm_s = g.ended_early, 0, np.inf
    if g.queued > 0:
        _renew_and_start(state, ahead, ended_early)
        _set_alarm(state)
    sleep(state, state.said, False)
    explain_reservations(state, state.said)


@compiled
def _renew_and_start(state: State, ahead: NodesAhead | None, ended_early: int) -> None:
    g, jobs, order = state.g[0], state.jobs, state.keyed
    make_profile(state, ahead)
    sort_by_begin(state)
    for place in range(g.keyed):
        job = jobs[order[place]]
        job.last_s = job.reserved_s
        if job.reserved_s >= g.now_s and fits(state, ahead, order[place], job.reserved_s):
            reserve(state, ahead, order[place], job.reserved_s, 1)
        else:
            _reserve(state, ahead, order[place], max(job.reserved_s, g.now_s))
    place = next_place(state, g.first, ANY)
    while place < g.last:
        row = state.queue[place]
        job = jobs[row]
        if np.isnan(job.reserved_s):  # it was submitted since the last call
            job.last_s = np.inf
            _reserve(state, ahead, row, g.now_s)
            order[g.keyed] = row
            g.keyed += 1
        elif ended_early:
            reserve(state, ahead, row, job.reserved_s, -1)
            _reserve(state, ahead, row, g.now_s)
        place = next_place(state, place + 1, ANY)
    place = next_place(state, g.first, ANY)
    while place < g.last:
        if jobs[state.queue[place]].reserved_s == g.now_s:
            reserve(state, ahead, state.queue[place], g.now_s, -1)
            if not start(state, ahead, state.queue[place]):
                reserve(state, ahead, state.queue[place], g.now_s, 1)
        place = next_place(state, place + 1, ANY)


@compiled
def _reserve(state: State, ahead: NodesAhead | None, row: int, after_s: float) -> None:
    """Make the earliest reservation of a job from a time on."""
    job = state.jobs[row]
    job.reserved_s = earliest_s(state, ahead, row, after_s)
    reserve(state, ahead, row, job.reserved_s, 1)


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
