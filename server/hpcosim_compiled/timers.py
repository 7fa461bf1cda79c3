"""Timers that can be set again: a binary heap of subjects, each with at most one timer.

As in `hpcosim_sim.engine.clock`, timers of equal time go off by rank, then in the order in which
they were set. `g.timers` are set; the `subject` of the first of as many records is the heap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcosim_compiled.compiler import compiled
from hpcosim_compiled.state import Records

WALLTIME = 1 << 62
"""Rank of a timer that goes off after all others of its time."""


@compiled
def set_timer(g: Any, timers: Records, subject: int, at_s: float, rank: int) -> None:
    """Set the timer of a subject that has none."""
    timers[subject].at_s, timers[subject].number = at_s, g.timers_set + rank
    g.timers_set += 1
    g.timers += 1
    _rise(timers, g.timers - 1, subject)


@compiled
def cancel_timer(g: Any, timers: Records, subject: int) -> None:
    """Remove the timer of a subject, if it has one."""
    if timers[subject].at_s == np.inf:
        return
    place = timers[subject].place
    timers[subject].at_s = np.inf
    g.timers -= 1
    last = timers[g.timers].subject
    if last == subject:
        return
    _rise(timers, place, last)
    place = timers[last].place
    while True:
        child = 2 * place + 1
        if child + 1 < g.timers and is_earlier(_at(timers, child + 1), _at(timers, child)):
            child += 1
        if child >= g.timers or is_earlier(timers[last], _at(timers, child)):
            break
        _put(timers, place, timers[child].subject)
        place = child
    _put(timers, place, last)


@compiled
def _rise(timers: Records, place: int, subject: int) -> None:
    """Put a subject at a place of the heap or, if it is before those above, higher."""
    while place > 0:
        parent = (place - 1) // 2
        if is_earlier(_at(timers, parent), timers[subject]):
            break
        _put(timers, place, timers[parent].subject)
        place = parent
    _put(timers, place, subject)


@compiled
def _at(timers: Records, place: int) -> Any:
    """Return the timer at a place of the heap."""
    return timers[timers[place].subject]


@compiled
def _put(timers: Records, place: int, subject: int) -> None:
    timers[place].subject, timers[subject].place = subject, place


@compiled
def is_earlier(one: Any, other: Any) -> bool:
    """Return whether one record is before another by time, then by number."""
    return one.at_s < other.at_s or (one.at_s == other.at_s and one.number < other.number)
