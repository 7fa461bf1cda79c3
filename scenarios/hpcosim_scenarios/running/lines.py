"""Lines to a file descriptor. Writing never blocks and never fails, even without a reader."""

from __future__ import annotations

import errno
import os
import select
import stat
import threading
from collections.abc import Callable

PIECE_BYTES = 4096
"""Bytes that a writable pipe takes at once (PIPE_BUF)."""


class Lines:
    """Writes whole lines. A line that the reader does not take, or that does not fit, is lost.

    A pipe or terminal is opened again as non-blocking, because other processes share the
    descriptor as it is.

    Args:
        descriptor: the file descriptor.
        lost_line: returns the line that reports lost lines, from their number; None: none does.
    """

    def __init__(self, descriptor: int, lost_line: Callable[[int], bytes] | None = None) -> None:
        self._lost_line = lost_line
        self._lost = 0
        self._rest = b""
        self._lock = threading.Lock()
        self._descriptor, self._send = _non_blocking(descriptor)

    def write(self, line: bytes, wait_s: float = 0.0) -> None:
        """Write a line, or lose it.

        Args:
            line: the line, with its line break.
            wait_s: time to wait for a reader that does not read, s.
        """
        with self._lock:
            self._rest = self._rest[self._write(self._rest, wait_s) :]
            if self._rest:  # of a line that is begun
                self._lost += 1
                return
            if self._lost and self._lost_line is not None:
                line = self._lost_line(self._lost) + line
            sent = self._write(line, wait_s)
            if sent:
                self._lost, self._rest = 0, line[sent:]
            else:
                self._lost += 1

    def _write(self, data: bytes, wait_s: float) -> int:
        """Write bytes, as many as the reader takes; return their number."""
        sent = 0
        while sent < len(data):
            some = self._some(data[sent : sent + PIECE_BYTES], wait_s)
            if not some:
                break
            sent += some
        return sent

    def _some(self, piece: bytes, wait_s: float) -> int:
        """Write some of a piece; return the number of bytes."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        try:
            if not poll.poll(1000 * wait_s):
                return 0
            return self._send(piece)
        except OSError:  # the reader is gone, the disk is full, another process was faster
            return 0


def _non_blocking(descriptor: int) -> tuple[int, Callable[[bytes], int]]:
    """Return a descriptor for the same file, and the function that writes to it."""
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode) or os.isatty(descriptor):
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            descriptor = os.open(f"/proc/self/fd/{descriptor}", flags)
    except OSError as error:
        if error.errno == errno.EBADF:
            return descriptor, _nowhere
    return descriptor, lambda data: os.write(descriptor, data)


def _nowhere(_: bytes) -> int:
    raise OSError(errno.EBADF, "the descriptor is closed")
