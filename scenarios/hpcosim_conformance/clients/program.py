"""The client under test, as a process."""

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


def split_command(command: str) -> list[str]:
    """Return the words of a command line, split as by a shell.

    Raises:
        CommandError: the command line cannot be split or lacks `{address}`.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise CommandError(f"--client: {command!r} is not a valid command line: {error}") from None
    if not any(ADDRESS in word for word in words):
        raise CommandError(
            f"--client: {command!r} lacks {ADDRESS}; add it where the program expects the address "
            f"of the server, for example './scheduler {ADDRESS}'"
        )
    return words


@contextmanager
def started(words: Sequence[str], address: str) -> Iterator[Program]:
    """Start a program and yield it. At the end of the block, kill its process group.

    Args:
        words: the command; `{address}` is replaced by the address.
        address: address of the server.

    Raises:
        CommandError: the program cannot be started.
    """
    # A file, not a pipe: a full pipe would block the program.
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own command, no shell
                [word.replace(ADDRESS, address) for word in words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a new process group, to kill its children too
            )
        except OSError as error:
            raise CommandError(f"--client: cannot start {words[0]}: {error.strerror}") from error
        try:
            yield Program(process, output)
        finally:
            # The process is reaped after this, so its id cannot belong to another group yet.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Program:
    """A running client. See `started`."""

    def __init__(self, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
        self._process, self._output = process, output

    def status(self, wait_s: float = 0.0) -> int | None:
        """Return the exit status, negative after a signal; None: the program still runs.

        Args:
            wait_s: timeout for the exit, wall s.
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
        """Return the last lines of standard output and standard error."""
        size = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, size - LAST_BYTES))
        text = self._output.read(LAST_BYTES).decode(errors="replace")
        return "\n".join(text.splitlines()[-LAST_LINES:])


def describe_status(status: int) -> str:
    """Return a description of an exit status, as in `ended with status 1`."""
    return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
