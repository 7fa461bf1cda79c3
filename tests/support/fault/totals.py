"""What the simulated processes of a server use together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hpcosim_server.service.sessions import Part, Totals

Parts = dict[int, dict[Part, int]]
"""The parts of the processes that live, by number."""


class SimulatedTotals(Totals):
    """Sums over simulated processes, which are one process for the kernel; see `Totals`.

    Args:
        parts: the parts of all processes.
        number: number of this process, which begins.
    """

    def __init__(self, parts: Parts, number: int) -> None:
        self._parts, self._number = parts, number
        parts[number] = {}

    @contextmanager
    def decision(self) -> Iterator[None]:
        """Do nothing: no other process makes a step meanwhile."""
        yield

    def state(self, part: Part, value: float) -> None:
        """See `Totals`."""
        self._parts[self._number][part] = int(value)

    def of_others(self, part: Part) -> int:
        """See `Totals`."""
        others = (own for number, own in self._parts.items() if number != self._number)
        return sum(own.get(part, 0) for own in others)
