"""The program under test: started, kept an eye on, ended with all it started."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from hpcosim_scenarios.errors import CommandError

ADDRESS = "{address}"
LAST_BYTES = 4000
LAST_LINES = 20
POLL_S = 0.02


def words_of(command: str) -> list[str]:
    """Return the words of a command line, as a shell would part them.

    Raises:
        CommandError: it is none, or has no place for the address.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise CommandError(f"{command!r} is no command: {error}") from None
    if not any(ADDRESS in word for word in words):
        raise CommandError(f"{command!r} does not say where the server's {ADDRESS} goes")
    return words


class Subject:
    """A scheduler's process, from its start to the end of the block.

    Args:
        words: the command, `{address}` for the server's.
        address: of the server.

    Raises:
        CommandError: it can't be started.
    """

    def __init__(self, words: Sequence[str], address: str) -> None:
        # A file, not a pipe, so that it may print as much as it likes while nobody reads.
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end of the block
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user's own command, no shell
                [word.replace(ADDRESS, address) for word in words],
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a group of its own, to be ended as a whole
            )
        except OSError as error:
            self._said.close()
            raise CommandError(f"{words[0]} can't be started: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # As long as it is not waited for, the number stays that of this group.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._said.close()

    def status(self, wait_s: float = 0.0) -> int | None:
        """Return its exit status, once it has ended; None: it has not, after so many seconds."""
        until_s = time.monotonic() + wait_s
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while True:
            ended = os.waitid(os.P_PID, self._process.pid, flags)
            if ended is not None:
                return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
            if time.monotonic() >= until_s:
                return None
            time.sleep(POLL_S)

    def last_words(self) -> str:
        """Return the end of what it printed, on standard output and error."""
        size = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, size - LAST_BYTES))
        text = self._said.read(LAST_BYTES).decode(errors="replace")
        return "\n".join(text.splitlines()[-LAST_LINES:])


def ended(status: int) -> str:
    """Return how a program ended, in words."""
    return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
