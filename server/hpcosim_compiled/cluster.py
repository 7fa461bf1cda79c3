"""Running jobs: the cores of a job, its begin and its end.

The processors of nodes are in `contention` where a node has several or jobs may contend; elsewhere
a job has one end, which is known at its begin.
"""

from __future__ import annotations

import numpy as np

from hpcosim_compiled.compiler import compiled, compiled_apart
from hpcosim_compiled.contention import occupy, run_time_s, set_processor_timer, take_due, vacate
from hpcosim_compiled.energy import change, note_peak
from hpcosim_compiled.node_power import hold, place_on_first, switch, take_booted
from hpcosim_compiled.placements import held_cores, may_use
from hpcosim_compiled.state import (
    ON,
    RUNNING,
    TIMEOUT,
    Power,
    Processors,
    Records,
    State,
)
from hpcosim_compiled.timers import cancel_timer, is_earlier
from hpcosim_compiled.waiting import remove


@compiled
def start(state: State, row: int) -> bool:
    """Start a waiting job on the lowest-numbered free cores, and return whether they suffice."""
    entries = _find(state, state.power, row)
    if entries > 0:
        begin(state, row, entries)
    return entries > 0


@compiled
def _find(state: State, power: Power | None, row: int) -> int:
    """Write where the tasks of a job go behind the last place; return the number of places."""
    if power is None:
        return _place(state, row)
    return _find_by_power(state, power, row)


@compiled_apart
def _find_by_power(state: State, power: Power, row: int) -> int:
    if power.g[0].on_first and state.jobs[row].cores <= state.g[0].free_cores:
        return place_on_first(state, power, row)
    return _place(state, row)


@compiled
def begin(state: State, row: int, entries: int) -> None:
    """Start a waiting job on a number of places behind the last one, which are its own now."""
    _begin(state, state.power, row, entries)


@compiled
def _begin(state: State, power: Power | None, row: int, entries: int) -> None:
    if power is not None:
        _allocate(state, power, row, entries)
        return
    remove(state, row)
    state.g[0].running += 1
    _insert_due(state, state.g[0].now_s + state.jobs[row].requested_s, row)
    _run(state, row, entries)


@compiled_apart
def _allocate(state: State, power: Power, row: int, entries: int) -> None:
    """Start a waiting job, or let it wait for its nodes to boot."""
    remove(state, row)
    state.g[0].running += 1
    if hold(state, state.processors, power, row, entries):
        _insert_due(state, power.jobs[row].ready_s + state.jobs[row].requested_s, row)
    else:
        _insert_due(state, state.g[0].now_s + state.jobs[row].requested_s, row)
        _run(state, row, entries)


@compiled
def _run(state: State, row: int, entries: int) -> None:
    """Start a job, which is among those that hold cores, on places behind the last one."""
    g, job = state.g[0], state.jobs[row]
    period, first = g.periods, g.places
    note_peak(state)
    job.start_s, job.state, job.period = g.now_s, RUNNING, period
    state.periods[period].row = row
    state.periods[period].first_place, state.periods[period].places = first, entries
    state.changes[g.changes] = period
    g.changes += 1
    g.periods += 1
    g.places += entries
    g.watched -= job.watched
    _compute(state, state.processors, row, period)


@compiled
def _compute(state: State, processors: Processors | None, row: int, number: int) -> None:
    """Take the cores of a period, which computes from now on."""
    g, job, nodes, places = state.g[0], state.jobs[row], state.nodes, state.places
    period = state.periods[number]
    if processors is not None and state.g[0].shares:
        occupy(state, processors, row, number)
        return
    slowest = np.inf
    for kind in range(len(state.kinds)):
        newly_active = tasks = 0
        for entry in range(period.first_place, period.first_place + period.places):
            node = places[entry].node
            if nodes[node].kind == kind:
                more = places[entry].tasks
                newly_active += nodes[node].busy == 0
                nodes[node].busy += more
                tasks += more
                held = held_cores(state, row, node, more)
                state.free[node] -= held
                g.free_cores -= held
        if tasks:
            change(state.kinds[kind], state.power, kind, g.now_s, newly_active, tasks)
            slowest = min(slowest, state.kinds[kind].ops_per_s)
    _push_end(state, g.now_s + min(run_time_s(state, row, slowest), job.limit_s), number)


@compiled
def next_end_s(state: State, processors: Processors | None) -> float:
    """Return the time of the next end of a job or of a part of it; infinity: there is none."""
    if processors is not None and state.g[0].shares:
        timers = processors.timers
        return timers[timers[0].subject].at_s if state.g[0].timers > 0 else np.inf
    return state.ends[0].at_s if state.g[0].ends > 0 else np.inf


@compiled
def end_next(state: State, processors: Processors | None) -> bool:
    """End what is due first; return whether a job is over, and not only its work on a processor."""
    if processors is not None and state.g[0].shares:
        return _end_shared(state, processors)
    g, nodes, places = state.g[0], state.nodes, state.places
    number = _pop_end(state)
    period = state.periods[number]
    job, now_s = state.jobs[period.row], g.now_s
    note_peak(state)
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
                held = held_cores(state, period.row, node, fewer)
                state.free[node] += held
                g.lowest = min(g.lowest, node)
                g.free_cores += held
        if tasks:
            change(state.kinds[kind], state.power, kind, now_s, -newly_idle, -tasks)
            slowest = min(slowest, state.kinds[kind].ops_per_s)
    _finish(state, number, run_time_s(state, period.row, slowest) > job.limit_s)
    return True


@compiled
def kill(state: State, row: int) -> None:
    """End a running job now as at its limit; nodes have one processor without contention."""
    ends, place = state.ends, 0
    while ends[place].number != state.jobs[row].period:
        place += 1
    ends[place].at_s = -np.inf
    _lift_end(state, place)
    end_next(state, None)
    state.jobs[row].state = TIMEOUT


@compiled_apart
def _end_shared(state: State, own: Processors) -> bool:
    """End the jobs of the first timer: one, or those with their last work on a processor."""
    g, subject = state.g[0], own.timers[0].subject
    over = take_due(g, own)
    for each in range(over):
        number = own.periods[each].over
        period = state.periods[number]
        note_peak(state)
        vacate(state, own, period.row, number)
        _finish(state, number, own.periods[number].ends_late)
    if subject < len(own.each):
        set_processor_timer(g, own, subject)
    return over > 0


@compiled_apart
def end_switch(state: State, power: Power) -> None:
    """End the first switching of a node, and start the jobs that waited for it alone."""
    g = state.g[0]
    node, entry = power.timers[0].subject, 0
    cancel_timer(power.g[0], power.timers, node)
    switch(state, power, node)
    if power.nodes[node].state != ON:
        return
    while entry < power.g[0].booting:
        row = power.booting[entry].row
        if power.booting[entry].node == node:
            power.jobs[row].nodes_off -= 1
            if power.jobs[row].nodes_off == 0:
                while entry > 0 and power.booting[entry - 1].row == row:
                    entry -= 1
                entries = take_booted(state, state.processors, power, entry)
                g.running -= 1
                _remove_due(state, power.jobs[row].ready_s + state.jobs[row].requested_s, row)
                g.running += 1
                _insert_due(state, g.now_s + state.jobs[row].requested_s, row)
                _run(state, row, entries)
                continue
        entry += 1


@compiled
def _finish(state: State, number: int, is_killed: bool) -> None:
    """Note the end of a period and of its job, whose cores are free again."""
    g, period = state.g[0], state.periods[number]
    job, now_s = state.jobs[period.row], g.now_s
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
    g, job, places = state.g[0], state.jobs[row], state.places
    needed, place = job.cores, g.places
    if needed > g.free_cores:
        return 0
    while state.free[g.lowest] == 0:
        g.lowest += 1
    for node in range(g.lowest, len(state.free)):
        cores = state.free[node]
        if not may_use(state, row, node, cores):
            continue
        places[place].node, places[place].tasks = node, min(cores, needed)
        place += 1
        needed -= cores
        if needed <= 0:
            return place - g.places
    return 0


# The heap of ends (of equal times, the job that started first ends first), and the running jobs by
# their expected ends.


@compiled
def _push_end(state: State, at_s: float, period: int) -> None:
    ends, place = state.ends, state.g[0].ends
    state.g[0].ends += 1
    ends[place].at_s, ends[place].number = at_s, period
    _lift_end(state, place)


@compiled
def _lift_end(state: State, place: int) -> None:
    """Put an end that is too low in the heap where it belongs."""
    ends = state.ends
    while place > 0:
        parent = (place - 1) // 2
        if is_earlier(ends[parent], ends[place]):
            break
        _swap(ends, place, parent)
        place = parent


@compiled
def _pop_end(state: State) -> int:
    """Remove the first end, and return its period."""
    state.g[0].ends -= 1
    ends, size = state.ends, state.g[0].ends
    first = ends[0].number
    ends[0].at_s, ends[0].number = ends[size].at_s, ends[size].number
    place = 0
    while True:
        child = 2 * place + 1
        if child + 1 < size and is_earlier(ends[child + 1], ends[child]):
            child += 1
        if child >= size or is_earlier(ends[place], ends[child]):
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
