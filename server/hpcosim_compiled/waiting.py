"""The waiting jobs in submission order: a list with gaps, which orders and policies go through.

The places from `g.first` to `g.last` of `State.queue` have rows, and those of `State.sizes` their
cores. A job that leaves the queue leaves a gap, which has the size `GONE`. To go through the queue:

    place = next_place(state, g.first, ANY)
    while place < g.last:
        row = state.queue[place]
        place = next_place(state, place + 1, ANY)

A job may leave meanwhile, but none may be added.
"""

from __future__ import annotations

import numpy as np

from hpcosim_compiled.compiler import compiled
from hpcosim_compiled.state import State

GONE = np.iinfo(np.int64).max
ANY = GONE - 1
"""Cores of any job at most."""

GAPS = 16
"""Gaps, beside as many as there are jobs, from which on they are closed."""


@compiled
def add(state: State, row: int) -> None:
    """Add a job to the end of the queue."""
    g, queue, sizes = state.g[0], state.queue, state.sizes
    if g.last - g.first > 2 * g.queued + GAPS:
        last = g.first
        for place in range(g.first, g.last):
            if sizes[place] != GONE:
                queue[last], sizes[last] = queue[place], sizes[place]
                state.jobs[queue[last]].place = last
                last += 1
        g.last = last
    queue[g.last], sizes[g.last] = row, state.jobs[row].cores
    state.jobs[row].place = g.last
    g.last += 1
    g.queued += 1


@compiled
def insert(state: State, row: int) -> None:
    """Add a job to the queue in submission order, which is that of the rows of waiting jobs."""
    add(state, row)
    g, queue, sizes = state.g[0], state.queue, state.sizes
    place = state.jobs[row].place
    while place > g.first and (sizes[place - 1] == GONE or queue[place - 1] > row):
        queue[place], sizes[place] = queue[place - 1], sizes[place - 1]
        if sizes[place] != GONE:
            state.jobs[queue[place]].place = place
        place -= 1
    queue[place], sizes[place] = row, state.jobs[row].cores
    state.jobs[row].place = place


@compiled
def remove(state: State, row: int) -> None:
    """Remove a job from the queue."""
    g, sizes = state.g[0], state.sizes
    sizes[state.jobs[row].place] = GONE
    g.queued -= 1
    while g.first < g.last and sizes[g.first] == GONE:
        g.first += 1


@compiled
def next_place(state: State, place: int, most: int) -> int:
    """Return the first place, from one on, of a job of at most so many cores; `g.last`: none."""
    last, sizes = state.g[0].last, state.sizes
    while place < last and sizes[place] > most:
        place += 1
    return place
