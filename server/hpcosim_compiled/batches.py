"""Many simulations together: states whose arrays have one more axis, the first."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from hpcosim_compiled.compiler import compiled
from hpcosim_compiled.state import NodesAhead, Power, Processors, Said, State

SHARED = 32
"""Least number of simulations that threads share."""

PARTS = 8
"""Parts into which threads divide simulations; those of a part are played one after the other."""


def changed(columns: Any, change: Callable[[Any], Any]) -> Any:
    """Return named tuples of arrays with each array replaced; None stays None."""
    if columns is None:
        return None
    if isinstance(columns, tuple):
        return type(columns)(*(changed(each, change) for each in columns))
    return change(columns)


def space_for(count: int, one: Any) -> Any:
    """Return zeros for many states: named tuples of arrays with the shapes of one."""

    def space(column: Any) -> Any:
        many = np.zeros((count, *column.shape), column.dtype)
        return many.view(np.recarray) if isinstance(column, np.recarray) else many

    return changed(one, space)


class Threads:
    """Threads that play parts of many simulations at the same time.

    Args:
        count: number of simulations.

    Attributes:
        parts: the simulations of each part.
    """

    def __init__(self, count: int) -> None:
        self._others = min(os.cpu_count() or 1, PARTS) - 1 if count >= SHARED else 0
        self._pool = ThreadPoolExecutor(self._others) if self._others else None
        parts = PARTS if self._others else 1
        bounds = np.linspace(0, count, parts + 1).astype(np.int64).tolist()
        self.parts = [slice(*pair) for pair in pairwise(bounds)]

    def play(self, play: Callable[[int, slice], None]) -> None:
        """Call a function for the number and the simulations of each part."""
        left = enumerate(self.parts)  # the threads take from it in turn

        def work() -> None:
            for number, part in left:
                play(number, part)

        others = [self._pool.submit(work) for _ in range(self._others)] if self._pool else []
        work()
        for other in others:
            other.result()


@compiled
def state_at(states: State, place: int) -> State:
    """Return one of many states."""
    return State(
        states.g[place],
        states.jobs[place],
        states.nodes[place],
        states.free[place],
        states.kinds[place],
        states.ends[place],
        states.due[place],
        states.queue[place],
        states.sizes[place],
        states.keyed[place],
        states.periods[place],
        states.places[place],
        states.changes[place],
        states.ended_idle[place],
        states.profile[place],
        states.lows[place],
        states.rows[place],
        states.keys[place],
        _ahead_at(states.ahead, place),
        _said_at(states.said, place),
        _processors_at(states.processors, place),
        _power_at(states.power, place),
        None,
    )


@compiled
def _ahead_at(many: NodesAhead | None, place: int) -> NodesAhead | None:
    if many is None:
        return None
    return NodesAhead(
        many.free[place],
        many.lines[place],
        many.held[place],
        many.least[place],
        many.before[place],
        many.order[place],
        many.delay_s[place],
    )


@compiled
def _said_at(many: Said | None, place: int) -> Said | None:
    if many is None:
        return None
    return Said(many.last[place], many.each[place])


@compiled
def _processors_at(many: Processors | None, place: int) -> Processors | None:
    if many is None:
        return None
    return Processors(
        many.slots[place],
        many.first_slot[place],
        many.each[place],
        many.nodes[place],
        many.shares[place],
        many.periods[place],
        many.needs[place],
        many.timers[place],
        many.drawn[place],
    )


@compiled
def _power_at(many: Power | None, place: int) -> Power | None:
    if many is None:
        return None
    return Power(
        many.g[place],
        many.nodes[place],
        many.kinds[place],
        many.jobs[place],
        many.booting[place],
        many.timers[place],
        many.changes[place],
        many.draws[place],
        many.windows[place],
    )
