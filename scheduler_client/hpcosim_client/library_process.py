"""A shared library in a child process, so that its crash ends one run and nothing else.

The child is a Python module that loads the library. It answers frames of its standard input on its
standard output. A frame is its size as a little-endian 64-bit number, and bytes; an answer has the
status before both, as one byte: 0, or 1 if the bytes are the text of an error.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import IO

MAX_BYTES = 1 << 28
"""Greatest size of a message of a library."""
MAX_TEXT = 1000
"""Most characters of the text of an error of a library that are shown."""
END_S = 5.0
"""Time that a library has to free its scheduler, s."""
_SIZE = struct.Struct("<Q")
_OK = 0


class LibraryProcess:
    """The parent's side of the child.

    Args:
        module: the module that the child runs, see `serve_frames`.
        error: makes the exceptions of `call` from their text.
    """

    def __init__(
        self, module: str, arguments: list[str], error: Callable[[str], Exception]
    ) -> None:
        self._error = error
        command = [sys.executable, "-m", module, *arguments]
        # A group of its own, so that Ctrl-C ends the run, which ends the child.
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
        )
        self._end = contextlib.ExitStack()
        self._end.callback(self._stop)

    def call(self, message: bytes) -> bytes:
        """Return the child's answer to a frame."""
        writes, reads = self._process.stdin, self._process.stdout
        assert writes is not None
        assert reads is not None
        try:
            writes.write(_SIZE.pack(len(message)) + message)
            writes.flush()
            status, size = _head(reads)
            data = _whole(reads, size)
        except (BrokenPipeError, EOFError):
            raise self._error(self._how_it_ended()) from None
        if status != _OK:
            raise self._error(shown(data) or f"status {status}")
        return data

    def end(self) -> None:
        """End the child. Further calls do nothing."""
        self._end.close()

    def _stop(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _how_it_ended(self) -> str:
        status = self._process.wait()
        if status >= 0:
            return f"the library ended its process with status {status}"
        return f"the library crashed: {signal.Signals(-status).name}"


def serve_frames(answer: Callable[[bytes], bytes], error: type[Exception]) -> None:
    """Be the child: answer frames until the input ends.

    Args:
        answer: returns the answer to a frame; an `error` of it is sent to the parent.
    """
    reads, writes = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    with contextlib.suppress(EOFError):
        while True:
            (size,) = _SIZE.unpack(_whole(reads, _SIZE.size))
            message = _whole(reads, size)
            try:
                data, status = answer(message), _OK
            except error as why:
                data, status = str(why).encode(), 1
            writes.write(bytes((status,)) + _SIZE.pack(len(data)) + data)
            writes.flush()


def shown(text: bytes) -> str:
    """Return a text of a library for a message: its begin, without control characters."""
    begin = text[: 4 * MAX_TEXT].decode(errors="replace")[:MAX_TEXT]
    return "".join(each if each.isprintable() else "?" for each in begin)


def _head(reads: IO[bytes]) -> tuple[int, int]:
    head = _whole(reads, 1 + _SIZE.size)
    (size,) = _SIZE.unpack(head[1:])
    return head[0], size


def _whole(reads: IO[bytes], size: int) -> bytes:
    if size > MAX_BYTES:
        raise EOFError
    data = reads.read(size)
    if len(data) < size:
        raise EOFError
    return data
