"""The status of `hpcosim serve` for the program that started it: one JSON object per line.

`hpcosim serve --set status_fd=N` writes them to the inherited file descriptor N, such as the
write end of a pipe. Each is a `Progress`, a `Failure` or a `LivePage` of
`hpcosim_server.service.status`:

    {"status":"progress","session":"1f0c","scenario":"demo","scheduler":"easy","now_s":60.0,
     "jobs_over":3,"jobs":40}
    {"status":"failure","cause":"client_left","why":"the client left"}

(the first on one line). The exit status of the server says whether all sessions succeeded. Text
after the last line break is an incomplete line of a server that was killed.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from hpcosim_scenarios.errors import ScenariosError
from hpcosim_server import log
from hpcosim_server.service.observer import Watch
from hpcosim_server.service.status import Failure, LivePage, Progress, Status
from hpcosim_server.wire.log_rate import LogRate

FAILURE_WAIT_S = 1.0


PIECE_BYTES = 4096
"""Bytes that a writable pipe takes at once (PIPE_BUF)."""


STDERR = 2
LINES_PER_S, LINES_BURST = 20.0, 1000


def writing_to(descriptor: int) -> Callable[[Status], None]:
    """Return a function that writes status objects to a file descriptor.

    They are dropped after the reader has closed its end. Progress is dropped, too, while it does
    not read; for a failure the function waits `FAILURE_WAIT_S`.

    Raises:
        ScenariosError: the descriptor is not open.
    """
    try:
        os.fstat(descriptor)
    except OSError:
        what = f"status_fd: expected an open file descriptor, got {descriptor}"
        raise ScenariosError(what) from None

    lines = Lines(descriptor)

    def tell(status: Status) -> None:
        wait_s = 0.0 if isinstance(status, Progress) else FAILURE_WAIT_S
        lines.write(msgspec.json.encode(status) + b"\n", wait_s)

    return tell


class StatusReader:
    """Reader of the status of a server.

    Args:
        descriptor: the read end of a pipe; only the server has the write end open.

    Attributes:
        failure: the first failure of the server; None: none so far.
        page: the page of its live view; None: none so far.
        is_over: whether the server has closed its end.
    """

    def __init__(self, descriptor: int) -> None:
        self.failure: Failure | None = None
        self.page: LivePage | None = None
        self.is_over = False
        self._descriptor = descriptor
        self._rest = b""
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def read(self, wait_s: float) -> Progress | None:
        """Read the available status, and return the last progress in it.

        Args:
            wait_s: timeout for the first byte, s. Returns immediately if the server has closed its
                end.
        """
        last = None
        while not self.is_over and self._poll.poll(1000 * wait_s):
            wait_s = 0.0
            data = os.read(self._descriptor, 2**16)
            self.is_over = not data
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                status = msgspec.json.decode(line, type=Status)
                if isinstance(status, Progress):
                    last = status
                elif isinstance(status, LivePage):
                    self.page = status
                elif self.failure is None:
                    self.failure = status
        return last


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


def _at_once(_: StatusReader) -> None:
    """Do not wait."""


class WatchedRun(NamedTuple):
    """How a run is watched; by default it is not.

    Attributes:
        server_options: additional arguments of `hpcosim serve`, with the transports of two
            processes.
        environment: additional environment variables of the server.
        before_scheduler: called with the status of the server; the scheduler starts when it
            returns.
        watch: observer and pace of the run, with the transport `inproc`.
        before_run: called before the run starts, with the transport `inproc`.
    """

    server_options: Sequence[str] = ()
    environment: Mapping[str, str] = {}
    before_scheduler: Callable[[StatusReader], None] = _at_once
    watch: Watch | None = None
    before_run: Callable[[], None] = lambda: None


def log_as_json() -> None:
    """Write the log of this process as lines of JSON."""
    log.write_to(BoundedLines(_line_writer()))


class BoundedLines:
    """Writes events as lines up to a rate, so that a client cannot fill the log.

    Errors have a bound of their own. The next line after those left out has their number.

    Args:
        write: writes a line without its line break.
        per_s: lines per second in the long run.
        burst: lines that may follow each other at once.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        per_s: float = LINES_PER_S,
        burst: int = LINES_BURST,
    ) -> None:
        self._write = write
        self._rates = {False: LogRate(per_s, burst), True: LogRate(per_s, burst)}

    def __call__(self, event: log.Event) -> None:
        """Write an event, or leave it out."""
        rate = self._rates[event["level"] == "error"]
        if not rate.admits():
            return
        if left_out := rate.take_left_out():
            event["left_out"] = left_out
        event["timestamp"] = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        self._write(log.as_json(event))


def _line_writer() -> Callable[[str], None]:
    """Return what writes lines: to standard error, or to what a notebook has instead."""
    try:
        is_plain = sys.stderr is None or sys.stderr.fileno() == STDERR
    except (AttributeError, OSError, ValueError):
        is_plain = False
    if not is_plain:
        stream = sys.stderr
        return lambda line: print(line, file=stream)
    lines = Lines(STDERR, _lost_line)
    return lambda line: lines.write(f"{line}\n".encode())


def _lost_line(count: int) -> bytes:
    return b'{"count": %d, "event": "log_lines_lost", "level": "warning"}\n' % count
