"""What all processes of a server use together, for the budgets that hold for the server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from hpcosim_server.wire.shared_numbers import SharedNumbers

PROCESSES = 2048
"""Largest number of processes that can have a part; a server has at most 1,024 workers."""


class Part(IntEnum):
    """What is added up."""

    JOBS = 0
    KEPT_BYTES = 1
    MEMORY_BYTES = 2
    SESSIONS = 3


PLACES = PROCESSES * len(Part)
"""Place of the number of places that were taken so far."""


class Totals:
    """Sums over the processes of a server; make it before they are forked.

    Each process states its own part. The part of a process that has ended does not count. Decide
    and state within `decision`, so that two processes do not use the same room.
    """

    def __init__(self) -> None:
        self._numbers = SharedNumbers("q", PROCESSES * len(Part) + 1)
        self._owner = 0  # process that has `_own`; after a fork it is another one
        self._own = 0

    @contextmanager
    def decision(self) -> Iterator[None]:
        """Let no other process decide at the same time. Decisions are not nested."""
        self._join()
        with self._numbers:
            yield

    def state(self, part: Part, value: float) -> None:
        """State the part of this process."""
        self._join()
        self._numbers[self._own * len(Part) + part] = int(value)

    def of_others(self, part: Part) -> int:
        """Return the sum over the other processes."""
        self._join()
        found = 0
        for process in range(int(self._numbers[PLACES])):
            value = self._numbers[process * len(Part) + part]
            if value and process != self._own and self._is_alive(process):
                found += int(value)
        return found

    def _join(self) -> None:
        """Take a place for this process, unless it has one."""
        if self._owner == os.getpid():
            return
        with self._numbers:
            process = next(p for p in range(PROCESSES) if self._numbers.claim(p))
            for part in Part:
                self._numbers[process * len(Part) + part] = 0
            self._numbers[PLACES] = max(self._numbers[PLACES], process + 1)
        self._own, self._owner = process, os.getpid()

    def _is_alive(self, process: int) -> bool:
        """Return whether the process with a place has not ended."""
        if not self._numbers.claim(process):
            return True
        self._numbers.leave(process)
        return False
