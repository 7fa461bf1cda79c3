"""The status of `hpcosim serve` for the program that started it: JSON objects, one a line.

`hpcosim serve --status-fd N` writes them to the file descriptor N, which it inherits, such as the
write end of a pipe. Each is a `Progress` or a `Failure` of `hpcosim_server.service.status`:

    {"status":"progress","session":"1f0c","scenario":"demo","scheduler":"easy","now_s":60.0,
     "jobs_over":3,"jobs":40}
    {"status":"failure","cause":"client_left","why":"the client left"}

(the first on one line). The exit status says whether all went well. What follows the last line
break was cut short by the death of the server.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from contextlib import suppress

import msgspec

from hpcosim_scenarios.errors import ScenariosError
from hpcosim_server.service.status import Failure, Progress, Status


def writing_to(descriptor: int) -> Callable[[Status], None]:
    """Return what writes status objects to a file descriptor.

    Once the reader is gone, they are dropped.

    Raises:
        ScenariosError: the descriptor is not open.
    """
    try:
        os.fstat(descriptor)
    except OSError:
        what = f"--status-fd: expected an open file descriptor, got {descriptor}"
        raise ScenariosError(what) from None

    def tell(status: Status) -> None:
        with suppress(OSError):
            os.write(descriptor, msgspec.json.encode(status) + b"\n")

    return tell


class StatusReader:
    """The status of a server, read from the read end of a pipe.

    Args:
        descriptor: the read end; no process but the server has the write end open.

    Attributes:
        failure: the first that the server told; None: none so far.
        is_over: whether the server has closed its end.
    """

    def __init__(self, descriptor: int) -> None:
        self.failure: Failure | None = None
        self.is_over = False
        self._descriptor = descriptor
        self._rest = b""
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def read(self, wait_s: float) -> Progress | None:
        """Read what has come, and return the last progress in it.

        Args:
            wait_s: how long to wait for the first byte, s; nothing is waited for once the server
                has closed its end.
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
                elif self.failure is None:
                    self.failure = status
        return last
