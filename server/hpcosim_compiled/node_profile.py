"""The free cores of every node in future; see `hpcosim_client.profiles.NodeProfile`.

The steps are those of `State.profile`, whose numbers are the free cores of all nodes. A reservation
is a list of `HELD`, from `JOB.held` on. Numbers of nodes are in the order in which the job fills
them.
"""

from __future__ import annotations

import numpy as np

from hpcosim_compiled.cluster import begin
from hpcosim_compiled.compiler import compiled, compiled_apart
from hpcosim_compiled.placements import held_cores, may_use
from hpcosim_compiled.state import Ints, NodesAhead, State
from hpcosim_compiled.steps import split, step_at


@compiled_apart
def make(state: State, ahead: NodesAhead) -> None:
    """Make the profile that the running jobs leave by their requested times."""
    g, steps, due = state.g[0], state.profile, state.due
    steps[0].at_s, steps[0].number = g.now_s, g.free_cores
    g.steps = 1
    ahead.lines[0] = 0
    for node in range(len(state.free)):
        ahead.free[0, node] = state.free[node]
    for entry in range(g.running):
        row = due[entry].number
        if due[entry].at_s > steps[g.steps - 1].at_s:
            steps[g.steps].at_s = due[entry].at_s
            steps[g.steps].number = steps[g.steps - 1].number
            ahead.lines[g.steps] = g.steps
            copy_line(ahead, g.steps - 1, g.steps)
            g.steps += 1
        period = state.periods[state.jobs[row].period]
        for place in range(period.first_place, period.first_place + period.places):
            node, tasks = state.places[place].node, state.places[place].tasks
            held = held_cores(state, row, node, tasks)
            ahead.free[g.steps - 1, node] += held
            steps[g.steps - 1].number += held


@compiled_apart
def earliest_s(state: State, ahead: NodesAhead, row: int, after_s: float) -> float:
    """Return the earliest start of a job from a time on, whose nodes it notes, s; NaN: none."""
    g, steps, job = state.g[0], state.profile, state.jobs[row]
    forget(state, ahead, row)
    added = 0
    clear(ahead)
    for step in range(step_at(state, after_s), g.steps):
        if steps[step].number < job.cores:
            continue
        start_s = max(steps[step].at_s, after_s)
        find_least(state, ahead, step, start_s + job.requested_s)
        if usable_cores(state, ahead, row) < job.cores:
            continue
        while added < step:
            for node in range(len(state.free)):
                ahead.before[node] += ahead.free[ahead.lines[added], node]
            added += 1
        choose(state, ahead, row)
        return start_s
    return np.nan


@compiled_apart
def fits(state: State, ahead: NodesAhead, row: int, start_s: float) -> bool:
    """Return whether the noted nodes are free from a time on for the requested time."""
    if state.jobs[row].held < 0:
        return False
    find_least(state, ahead, step_at(state, start_s), start_s + state.jobs[row].requested_s)
    return has_noted(state, ahead, row, ahead.least)


@compiled_apart
def reserve(state: State, ahead: NodesAhead, row: int, start_s: float, sign: int) -> None:
    """Reserve the noted nodes from a time on (sign 1), or give them back (sign -1)."""
    hold(state, ahead, row, start_s, start_s + state.jobs[row].requested_s, sign)


@compiled_apart
def hold(
    state: State, ahead: NodesAhead, row: int, start_s: float, end_s: float, sign: int
) -> None:
    """Take the noted nodes from one time to another (sign 1), or give them back (sign -1)."""
    first, last = split_line(state, ahead, start_s), split_line(state, ahead, end_s)
    for step in range(first, last):
        line, each = ahead.lines[step], state.jobs[row].held
        while each >= 0:
            held = ahead.held[each]
            ahead.free[line, held.node] -= sign * held.cores
            state.profile[step].number -= sign * held.cores
            each = held.after


@compiled_apart
def start(state: State, ahead: NodesAhead, row: int) -> bool:
    """Start a job if that delays no reservation, on the noted nodes if possible; reserve them."""
    g, job = state.g[0], state.jobs[row]
    find_least(state, ahead, 0, g.now_s + job.requested_s)
    for node in range(len(state.free)):
        ahead.least[node] = min(ahead.least[node], state.free[node])
    if job.held < 0 or not has_noted(state, ahead, row, ahead.least):
        if usable_cores(state, ahead, row) < job.cores:
            return False
        forget(state, ahead, row)
        clear(ahead)
        choose(state, ahead, row)
    entries = place_noted(state, ahead, row)
    reserve(state, ahead, row, g.now_s, 1)
    forget(state, ahead, row)
    begin(state, row, entries)
    return True


@compiled
def place_noted(state: State, ahead: NodesAhead, row: int) -> int:
    """Write the noted nodes behind the last place, and return how many they are."""
    g, job = state.g[0], state.jobs[row]
    left, place, each = job.cores, g.places, job.held
    while each >= 0:
        held = ahead.held[each]
        state.places[place].node, state.places[place].tasks = held.node, min(held.cores, left)
        left -= held.cores
        place, each = place + 1, held.after
    return place - g.places


@compiled_apart
def forget(state: State, ahead: NodesAhead, row: int) -> None:
    """Forget the noted nodes of a job."""
    g, first = state.g[0], state.jobs[row].held
    state.jobs[row].held = -1
    if first < 0:
        return
    last = first
    while ahead.held[last].after >= 0:
        last = ahead.held[last].after
    ahead.held[last].after = g.unused
    g.unused = first


@compiled
def clear(ahead: NodesAhead) -> None:
    """Set the numbers of cores that were free before to 0."""
    for node in range(len(ahead.before)):
        ahead.before[node] = 0


@compiled
def copy_line(ahead: NodesAhead, one: int, other: int) -> None:
    """Copy one line of free cores to another."""
    for node in range(len(ahead.before)):
        ahead.free[other, node] = ahead.free[one, node]


@compiled
def find_least(state: State, ahead: NodesAhead, first: int, end_s: float) -> None:
    """Write the least free cores of each node in a step and those that follow before a time."""
    for node in range(len(ahead.least)):
        ahead.least[node] = ahead.free[ahead.lines[first], node]
    for step in range(first + 1, state.g[0].steps):
        if state.profile[step].at_s >= end_s:
            break
        line = ahead.lines[step]
        for node in range(len(ahead.least)):
            ahead.least[node] = min(ahead.least[node], ahead.free[line, node])


@compiled
def usable_cores(state: State, ahead: NodesAhead, row: int) -> int:
    """Return the number of least free cores on the nodes that a job may use."""
    cores = 0
    for node in range(len(ahead.least)):
        if may_use(state, row, node, ahead.least[node]):
            cores += ahead.least[node]
    return cores


@compiled
def has_noted(state: State, ahead: NodesAhead, row: int, free: Ints) -> bool:
    """Return whether the free cores of each node contain those that are noted for a job."""
    each = state.jobs[row].held
    while each >= 0:
        if free[ahead.held[each].node] < ahead.held[each].cores:
            return False
        each = ahead.held[each].after
    return True


@compiled
def choose(state: State, ahead: NodesAhead, row: int) -> None:
    """Note the nodes of a job: those with the fewest free cores before, then the lowest."""
    g, job, order, size = state.g[0], state.jobs[row], ahead.order, 0
    for node in range(len(ahead.least)):
        if may_use(state, row, node, ahead.least[node]):
            order[size] = node
            size += 1
    for place in range(size // 2 - 1, -1, -1):
        _sink(ahead, place, size)
    left, last = job.cores, -1
    while left > 0:
        node = order[0]
        size -= 1
        order[0] = order[size]
        _sink(ahead, 0, size)
        each = g.unused
        if each >= 0:
            g.unused = ahead.held[each].after
        else:
            each = g.held
            g.held += 1
        cores = held_cores(state, row, node, min(ahead.least[node], left))
        ahead.held[each].node, ahead.held[each].cores, ahead.held[each].after = node, cores, -1
        if last < 0:
            job.held = each
        else:
            ahead.held[last].after = each
        last = each
        left -= cores


@compiled
def _sink(ahead: NodesAhead, place: int, size: int) -> None:
    """Move a node down in the heap of nodes, the first of which was free the least."""
    order = ahead.order
    while True:
        child = 2 * place + 1
        if child + 1 < size and _is_first(ahead, order[child + 1], order[child]):
            child += 1
        if child >= size or _is_first(ahead, order[place], order[child]):
            return
        order[place], order[child] = order[child], order[place]
        place = child


@compiled
def _is_first(ahead: NodesAhead, one: int, other: int) -> bool:
    before, delay_s = ahead.before, ahead.delay_s
    if delay_s[one] != delay_s[other]:
        return delay_s[one] < delay_s[other]
    return before[one] < before[other] or (before[one] == before[other] and one < other)


@compiled
def split_line(state: State, ahead: NodesAhead, at_s: float) -> int:
    """Make a step begin at a time, and return its number."""
    g, lines, steps = state.g[0], ahead.lines, state.g[0].steps
    step = split(state, at_s)
    if g.steps > steps:
        for later in range(steps, step, -1):
            lines[later] = lines[later - 1]
        lines[step] = steps
        copy_line(ahead, lines[step - 1], steps)
    return step
