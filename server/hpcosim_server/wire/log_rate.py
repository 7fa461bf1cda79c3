"""Bounds that processes share: numbers with a lock, and the rate of log lines."""

from __future__ import annotations

import fcntl
import mmap
import os
import time
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, Self

TOKENS, AT_S = 0, 1  # places in the bucket

BYTES = 8  # of a number


class LogRate:
    """A token bucket: a burst of lines, then a number of lines a second.

    Args:
        clock: returns the wall-clock time, s; in all processes the same.

    Attributes:
        left_out: number of lines that this process left out since the last admitted one.
    """

    def __init__(
        self, per_s: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s, self._burst, self._clock = per_s, burst, clock
        self._bucket = SharedNumbers("d", 2)
        self._bucket[TOKENS], self._bucket[AT_S] = float(burst), clock()
        self.left_out = 0

    def admits(self) -> bool:
        """Return whether a line may be logged now."""
        with self._bucket as bucket:
            now_s = self._clock()
            more = (now_s - bucket[AT_S]) * self._per_s
            tokens = min(self._burst, bucket[TOKENS] + more)
            admitted = tokens >= 1.0
            bucket[TOKENS], bucket[AT_S] = tokens - admitted, now_s
        self.left_out += not admitted
        return admitted

    def take_left_out(self) -> int:
        """Return the number of lines left out since the last call."""
        left_out, self.left_out = self.left_out, 0
        return left_out


class SharedNumbers:
    """Numbers in memory that forked processes share. As a context manager it is their lock.

    The kernel keeps the locks, on an empty file in memory (memfd_create, fcntl). A process that is
    killed holds none.

    Args:
        kind: `q`: integers of 64 bits; `d`: floating-point numbers.
    """

    def __init__(self, kind: Literal["q", "d"], count: int) -> None:
        self._file = os.memfd_create("hpcosim", os.MFD_CLOEXEC)
        weakref.finalize(self, os.close, self._file)
        shared = mmap.mmap(-1, BYTES * count)  # anonymous: a limit of file sizes does not count
        self._values: memoryview[Any] = memoryview(shared).cast(kind)

    def __getitem__(self, place: int) -> float:
        value: float = self._values[place]
        return value

    def __setitem__(self, place: int, value: float) -> None:
        self._values[place] = value

    def __enter__(self) -> Self:
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, 0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, 0)

    def claim(self, number: int) -> bool:
        """Mark a number as one of this process; return whether no other process has marked it."""
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 1 + number)
        except OSError:
            return False
        return True

    def leave(self, number: int) -> None:
        """Remove a mark of this process."""
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, 1 + number)
