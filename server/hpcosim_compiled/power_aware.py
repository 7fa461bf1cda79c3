"""Backfilling that is aware of power states, as `heuristics.easy` and `heuristics.conservative`."""

from __future__ import annotations

import numpy as np

from hpcosim_compiled.cluster import begin
from hpcosim_compiled.compiler import compiled, compiled_apart
from hpcosim_compiled.conservative import sort_by_begin
from hpcosim_compiled.node_power import is_boot_late, switch
from hpcosim_compiled.node_profile import forget, has_noted, place_noted, start
from hpcosim_compiled.power_profile import is_kept, keep, make, reserve
from hpcosim_compiled.state import (
    PER_KIND,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
    WAITING,
    NodesAhead,
    Power,
    State,
)
from hpcosim_compiled.waiting import ANY, next_place


@compiled_apart
def easy_aware(state: State, ahead: NodesAhead, power: Power, is_planned: bool) -> None:
    """Start jobs that can start now; the first other job is not delayed by later ones."""
    g, has_head = state.g[0], False
    soon_s = g.now_s + _longest_boot_s(power)
    make(state, ahead, power, is_planned)
    place = next_place(state, g.first, ANY)
    while place < g.last:
        row = state.queue[place]
        until_s = soon_s if has_head else np.inf
        if reserve(state, ahead, power, row, g.now_s, until_s, is_planned):
            is_free = has_noted(state, ahead, row, state.free)
            starts = state.jobs[row].reserved_s <= g.now_s and is_free
            if starts or not has_head or is_planned:
                keep(state, ahead, power, row, 1)
            if starts:
                entries = place_noted(state, ahead, row)
                begin(state, row, entries)
            if starts or (has_head and not is_planned):
                forget(state, ahead, row)
            else:
                has_head = True
        place = next_place(state, place + 1, ANY)
    _leave_on(state, ahead, power)
    g.alarm_s = np.inf
    if is_planned:
        _wake_ahead(state, ahead, power, False)
    place = next_place(state, g.first, ANY)
    while place < g.last:
        forget(state, ahead, state.queue[place])
        place = next_place(state, place + 1, ANY)


@compiled_apart
def conservative_aware(state: State, ahead: NodesAhead, power: Power, is_planned: bool) -> None:
    """Renew the reservations, move all of them forward, and start jobs."""
    g, jobs, order = state.g[0], state.jobs, state.keyed
    make(state, ahead, power, is_planned)
    sort_by_begin(state)
    for entry in range(g.keyed):
        row = order[entry]
        jobs[row].last_s = jobs[row].reserved_s
        if not is_kept(state, ahead, power, row, is_planned):
            after_s = max(jobs[row].reserved_s, g.now_s)
            reserve(state, ahead, power, row, after_s, np.inf, is_planned)
        keep(state, ahead, power, row, 1)
    place = next_place(state, g.first, ANY)
    while place < g.last:
        row = state.queue[place]
        if np.isnan(jobs[row].reserved_s):  # it was submitted since the last call
            jobs[row].last_s = np.inf
            order[g.keyed] = row
            g.keyed += 1
        else:
            keep(state, ahead, power, row, -1)
        reserve(state, ahead, power, row, g.now_s, np.inf, is_planned)
        keep(state, ahead, power, row, 1)
        place = next_place(state, place + 1, ANY)
    for node in range(len(ahead.delay_s)):
        ahead.delay_s[node] = 0.0
    place = next_place(state, g.first, ANY)
    while place < g.last:
        row = state.queue[place]
        if jobs[row].reserved_s == g.now_s:
            _start(state, ahead, power, row, is_planned)
        place = next_place(state, place + 1, ANY)
    _set_alarm(state, ahead, power, is_planned)


@compiled
def _start(state: State, ahead: NodesAhead, power: Power, row: int, is_planned: bool) -> None:
    """Start a job whose reservation begins now, if its cores are free."""
    if is_planned:
        keep(state, ahead, power, row, -1)
        if not start(state, ahead, row):
            keep(state, ahead, power, row, 1)
    elif has_noted(state, ahead, row, state.free):
        entries = place_noted(state, ahead, row)
        begin(state, row, entries)
        forget(state, ahead, row)


@compiled
def _set_alarm(state: State, ahead: NodesAhead, power: Power, is_planned: bool) -> None:
    """Keep the nodes of reservations on, and set the alarm to what comes next.

    Reservations that wait for the end of a late job or boot set no alarm, because it would only
    make them later again. Jobs that have started lose their place in the order.
    """
    g, jobs, order = state.g[0], state.jobs, state.keyed
    is_overdue = g.running > 0 and state.due[0].at_s <= g.now_s
    is_overdue = is_overdue or is_boot_late(state, power)
    size, past_s = 0, np.nextafter(g.now_s, np.inf)
    g.alarm_s = np.inf
    for entry in range(g.keyed):
        job = jobs[order[entry]]
        if job.state == WAITING:
            order[size] = order[entry]
            size += 1
            job.moves = is_overdue and job.reserved_s > job.last_s
            if job.reserved_s > past_s and not job.moves:
                g.alarm_s = min(g.alarm_s, job.reserved_s)
    g.keyed = size
    _leave_on(state, ahead, power)
    if is_planned:
        _wake_ahead(state, ahead, power, False)
        _wake_ahead(state, ahead, power, True)


@compiled
def _longest_boot_s(power: Power) -> float:
    """Return the longest mean time of switching on, s."""
    longest_s = 0.0
    for kind in range(SWITCHING_ON, len(power.kinds), PER_KIND):
        if power.kinds[kind].lasts_s < np.inf:  # its nodes can be switched
            longest_s = max(longest_s, power.kinds[kind].lasts_s)
    return longest_s


# The nodes of reservations, see `WakeAhead`.


@compiled
def _leave_on(state: State, ahead: NodesAhead, power: Power) -> None:
    """Mark the nodes of reservations that begin sooner than a node could be off and on again."""
    g, own = state.g[0], power.g[0]
    moment_s = np.nextafter(np.nextafter(g.now_s, np.inf), np.inf)
    own.planned = 0
    for node in range(len(power.nodes)):
        power.nodes[node].is_planned = 0
    place = next_place(state, g.first, ANY)
    while place < g.last:
        row = state.queue[place]
        each = state.jobs[row].held
        while each >= 0:
            node = ahead.held[each].node
            back_s = g.now_s
            if power.nodes[node].can_sleep:
                kinds = PER_KIND * state.nodes[node].kind
                back_s = g.now_s + power.kinds[kinds + SWITCHING_OFF].lasts_s
                back_s += power.kinds[kinds + SWITCHING_ON].lasts_s
            is_planned = state.jobs[row].reserved_s < max(back_s, moment_s)
            if is_planned and not power.nodes[node].is_planned:
                power.nodes[node].is_planned = 1
                own.planned += 1
            each = ahead.held[each].after
        place = next_place(state, place + 1, ANY)


@compiled
def _wake_ahead(state: State, ahead: NodesAhead, power: Power, moves: bool) -> None:
    """Switch on the nodes whose reservations begin within their boot time.

    Args:
        state: the simulation.
        ahead: its profile.
        power: its power states.
        moves: whether that concerns reservations that will move, for which there is no alarm, or
            the others.
    """
    g = state.g[0]
    soon_s = np.nextafter(g.now_s, np.inf)
    place = next_place(state, g.first, ANY)
    while place < g.last:
        row = state.queue[place]
        each = state.jobs[row].held if state.jobs[row].moves == moves else -1
        while each >= 0:
            node = ahead.held[each].node
            if power.nodes[node].state == SLEEPING:
                kind = PER_KIND * state.nodes[node].kind + SWITCHING_ON
                wake_s = state.jobs[row].reserved_s - power.kinds[kind].lasts_s
                if wake_s <= soon_s:
                    switch(state, power, node)
                elif not moves:
                    g.alarm_s = min(g.alarm_s, wake_s)
            each = ahead.held[each].after
        place = next_place(state, place + 1, ANY)
