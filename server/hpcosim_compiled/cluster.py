"""Nodes and running jobs: the cores of a job, its end, and the energy of the nodes.

All floating-point operations are those of `hpcosim_sim.physics`, in the same order, for nodes with
one processor that are always on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcosim_compiled.compiler import compiled
from hpcosim_compiled.state import ONE_NODE, RUNNING, TIMEOUT, WHOLE_NODES, Records, State


@compiled
def start(state: State, row: int) -> bool:
    """Start a waiting job on the lowest-numbered free cores, and return whether they suffice."""
    g, job, nodes, places = state.g[0], state.jobs[row], state.nodes, state.places
    entries = _place(state, row)
    if entries == 0:
        return False
    now_s, period, first = g.now_s, g.periods, g.places
    whole = job.placement == WHOLE_NODES
    _note_peak(state)
    slowest = np.inf
    for kind in range(len(state.kinds)):
        newly_active = tasks = 0
        for entry in range(first, first + entries):
            node = places[entry].node
            if nodes[node].kind == kind:
                more = places[entry].tasks
                newly_active += nodes[node].busy == 0
                nodes[node].busy += more
                tasks += more
                held = nodes[node].capacity if whole else more
                state.free[node] -= held
                g.free_cores -= held
        if tasks:
            _change(state.kinds[kind], now_s, newly_active, tasks)
            slowest = min(slowest, state.kinds[kind].ops_per_s)
    state.jobs[job.before].after, state.jobs[job.after].before = job.after, job.before
    job.start_s, job.state, job.period = now_s, RUNNING, period
    state.periods[period].row = row
    state.periods[period].first_place, state.periods[period].places = first, entries
    state.changes[g.changes] = period
    g.changes += 1
    g.periods += 1
    g.places += entries
    g.queued -= 1
    g.running += 1
    _push_end(state, now_s + min(_run_time_s(state, row, slowest), job.limit_s), period)
    _insert_due(state, now_s + job.requested_s, row)
    return True


@compiled
def end_next(state: State) -> None:
    """End the running job whose end is due first."""
    g, nodes, places = state.g[0], state.nodes, state.places
    number = _pop_end(state)
    period = state.periods[number]
    job, now_s = state.jobs[period.row], g.now_s
    whole = job.placement == WHOLE_NODES
    _note_peak(state)
    slowest = np.inf
    for kind in range(len(state.kinds)):
        newly_idle = tasks = 0
        for entry in range(period.first_place, period.first_place + period.places):
            node = places[entry].node
            if nodes[node].kind == kind:
                fewer = places[entry].tasks
                nodes[node].busy -= fewer
                newly_idle += nodes[node].busy == 0
                tasks += fewer
                held = nodes[node].capacity if whole else fewer
                state.free[node] += held
                g.lowest = min(g.lowest, node)
                g.free_cores += held
        if tasks:
            _change(state.kinds[kind], now_s, -newly_idle, -tasks)
            slowest = min(slowest, state.kinds[kind].ops_per_s)
    is_killed = _run_time_s(state, period.row, slowest) > job.limit_s
    job.end_s, job.state = now_s, TIMEOUT if is_killed else job.final
    state.changes[g.changes] = ~number
    g.changes += 1
    g.over += 1
    g.running -= 1
    if job.start_s + job.requested_s != now_s:
        g.ended_early = 1
    _remove_due(state, job.start_s + job.requested_s, period.row)


@compiled
def _place(state: State, row: int) -> int:
    """Write where the tasks of a job go behind the last place.

    Returns:
        Number of places; 0: there are too few free cores.
    """
    g, job, nodes, places = state.g[0], state.jobs[row], state.nodes, state.places
    needed, place = job.cores, g.places
    if needed > g.free_cores:
        return 0
    while state.free[g.lowest] == 0:
        g.lowest += 1
    for node in range(g.lowest, len(state.free)):
        cores = state.free[node]
        if cores == 0:
            continue
        if job.placement == ONE_NODE and cores < job.cores:
            continue
        if job.placement == WHOLE_NODES and cores < nodes[node].capacity:
            continue
        places[place].node, places[place].tasks = node, min(cores, needed)
        place += 1
        needed -= cores
        if needed <= 0:
            return place - g.places
    return 0


@compiled
def _run_time_s(state: State, row: int, ops_per_s: float) -> float:
    """Return the run time of a job on cores of which the slowest has this speed, s."""
    job, reference_ops_per_s = state.jobs[row], state.g[0].reference_ops_per_s
    if job.ops != 0.0:
        return job.ops / ops_per_s
    if reference_ops_per_s > 0.0:
        return job.run_s * (reference_ops_per_s / ops_per_s)
    return job.run_s


# Energy.


@compiled
def _note_peak(state: State) -> None:
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
    _note_peak(state)
    for kind in range(len(state.kinds)):
        _settle(state.kinds[kind], state.g[0].now_s)


@compiled
def _settle(kind: Any, now_s: float) -> None:
    """Integrate the energy of a node kind up to now."""
    span_s = now_s - kind.settled_s
    if span_s <= 0.0:
        return
    kind.computing_j += kind.computing_w * span_s
    kind.computing_node_s += kind.computing * span_s
    kind.idle_j += kind.idle_w * kind.idle * span_s
    kind.idle_node_s += kind.idle * span_s
    kind.settled_s = now_s


@compiled
def _change(kind: Any, now_s: float, nodes: int, tasks: int) -> None:
    """Change the numbers of computing nodes and of tasks of a node kind."""
    _settle(kind, now_s)
    kind.idle -= nodes
    kind.computing += nodes
    kind.tasks += tasks
    kind.computing_w = kind.static_w * kind.computing + kind.dynamic_w * kind.tasks
    kind.power_w = kind.computing_w + kind.idle_w * kind.idle


# The heap of ends, and the running jobs by their expected ends. `running` counts both.


@compiled
def _is_earlier(one: Any, other: Any) -> bool:
    """Return the order of ends: of equal times, the job that started first ends first."""
    return one.at_s < other.at_s or (one.at_s == other.at_s and one.number < other.number)


@compiled
def _push_end(state: State, at_s: float, period: int) -> None:
    ends, place = state.ends, state.g[0].running - 1
    ends[place].at_s, ends[place].number = at_s, period
    while place > 0:
        parent = (place - 1) // 2
        if _is_earlier(ends[parent], ends[place]):
            break
        _swap(ends, place, parent)
        place = parent


@compiled
def _pop_end(state: State) -> int:
    """Remove the first end, and return its period."""
    ends, size = state.ends, state.g[0].running - 1
    first = ends[0].number
    ends[0].at_s, ends[0].number = ends[size].at_s, ends[size].number
    place = 0
    while True:
        child = 2 * place + 1
        if child + 1 < size and _is_earlier(ends[child + 1], ends[child]):
            child += 1
        if child >= size or _is_earlier(ends[place], ends[child]):
            return first
        _swap(ends, place, child)
        place = child


@compiled
def _swap(timed: Records, one: int, other: int) -> None:
    at_s, number = timed[one].at_s, timed[one].number
    timed[one].at_s, timed[one].number = timed[other].at_s, timed[other].number
    timed[other].at_s, timed[other].number = at_s, number


@compiled
def _first_due(due: Records, size: int, at_s: float) -> int:
    """Return the number of expected ends before a time."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if due[middle].at_s < at_s:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _insert_due(state: State, at_s: float, row: int) -> None:
    due, size = state.due, state.g[0].running - 1
    place = _first_due(due, size, at_s)
    for entry in range(size, place, -1):
        due[entry].at_s, due[entry].number = due[entry - 1].at_s, due[entry - 1].number
    due[place].at_s, due[place].number = at_s, row


@compiled
def _remove_due(state: State, at_s: float, row: int) -> None:
    due, size = state.due, state.g[0].running
    place = _first_due(due, size + 1, at_s)
    while due[place].number != row:
        place += 1
    for entry in range(place, size):
        due[entry].at_s, due[entry].number = due[entry + 1].at_s, due[entry + 1].number
