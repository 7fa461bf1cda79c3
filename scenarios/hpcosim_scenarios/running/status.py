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

import os
import select
from collections.abc import Callable

import msgspec

from hpcosim_scenarios.errors import ScenariosError
from hpcosim_scenarios.running.lines import Lines
from hpcosim_server.service.status import Failure, LivePage, Progress, Status

FAILURE_WAIT_S = 1.0


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
