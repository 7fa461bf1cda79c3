"""The client under test: a program that is started, watched, and ended with all it started."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from hpcosim_conformance.errors import CommandError

ADDRESS = "{address}"
LAST_BYTES = 4000
LAST_LINES = 20
POLL_S = 0.02


def words_of(command: str) -> list[str]:
    """Return the words of a command line, split as a shell does.

    Raises:
        CommandError: it can't be split, or it lacks `{address}`.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise CommandError(f"{command!r} is no command: {error}") from None
    if not any(ADDRESS in word for word in words):
        raise CommandError(f"{command!r} does not say where the server's {ADDRESS} goes")
    return words


@contextmanager
def started(words: Sequence[str], address: str) -> Iterator[Program]:
    """Start a program, yield it, and end it with all it started.

    Args:
        words: the command; `{address}` stands for the server's address.
        address: the server's address.

    Raises:
        CommandError: it can't be started.
    """
    # A file, not a pipe: the program can print any amount though nothing reads it meanwhile.
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own command, no shell
                [word.replace(ADDRESS, address) for word in words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a process group of its own, to end as a whole
            )
        except OSError as error:
            raise CommandError(f"{words[0]} can't be started: {error.strerror}") from error
        try:
            yield Program(process, output)
        finally:
            # The process is reaped only after this, so the number is still that of this group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Program:
    """A running client. See `started`."""

    def __init__(self, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
        self._process, self._output = process, output

    def status(self, wait_s: float = 0.0) -> int | None:
        """Return the exit status, negative after a signal; None: it still runs.

        Args:
            wait_s: how long to wait for the end, s.
        """
        until_s = time.monotonic() + wait_s
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while True:
            ended = os.waitid(os.P_PID, self._process.pid, flags)
            if ended is not None:
                return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
            if time.monotonic() >= until_s:
                return None
            time.sleep(POLL_S)

    def last_lines(self) -> str:
        """Return the end of what it printed on standard output and standard error."""
        size = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, size - LAST_BYTES))
        text = self._output.read(LAST_BYTES).decode(errors="replace")
        return "\n".join(text.splitlines()[-LAST_LINES:])


def ending(status: int) -> str:
    """Return in words how a program ended."""
    return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
