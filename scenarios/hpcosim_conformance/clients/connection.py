"""The server socket for a client under test, and the rules for a single request."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, NamedTuple

import zmq

from hpcosim_conformance.errors import BrokenRuleError, CommandError, expect
from hpcosim_protocol import (
    ClientMessage,
    DecodeError,
    Hello,
    UnsupportedVersionError,
    decode_client_message,
)

MAX_FRAMES = 6  # of a request, without the identity that the ROUTER adds
POLL_MS = 20


ADDRESS = "{address}"
LAST_BYTES = 4000
LAST_LINES = 20
POLL_S = 0.02


class Request(NamedTuple):
    """A request.

    Attributes:
        envelope: frames before the body, which the reply repeats.
        message: the decoded body.
    """

    envelope: list[bytes]
    message: ClientMessage


class ClientConnection:
    """Receives the requests of a client and sends the replies."""

    def __init__(self, socket: zmq.Socket[bytes], program: Program) -> None:
        self.program = program
        self._socket = socket

    def receive(self, wait_s: float) -> Request | None:
        """Return the next request; None: the timeout expired or the client has ended.

        Raises:
            BrokenRuleError: the request is not a message of a client.
        """
        until_s = time.monotonic() + wait_s
        has_ended = False
        while True:
            if self._socket.poll(POLL_MS):
                return _request_in(self._socket.recv_multipart())
            if has_ended or time.monotonic() >= until_s:
                return None
            # The last request can arrive after the client ended: poll once more.
            has_ended = self.program.status() is not None

    def reply(self, request: Request, body: bytes) -> None:
        """Send the reply to a request."""
        self._socket.send_multipart([*request.envelope, body])


def _request_in(frames: list[bytes]) -> Request:
    identity, *sent = frames
    holds = 1 <= len(sent) <= MAX_FRAMES
    expect(holds, "R-frames", f"the client sent a message of {len(sent)} frames")
    envelope = [identity, *sent[:-1]]
    try:
        return Request(envelope, decode_client_message(sent[-1]))
    except UnsupportedVersionError as error:
        what = f"the hello of the client offers only versions {error.offered}"
        expect(not error.offered, "R-hello", what)
        return Request(envelope, Hello(versions=[]))  # a ping
    except DecodeError as error:
        what = f"the client sent an invalid message: {error}"
        raise BrokenRuleError(_broken_by(error), what) from error


def _broken_by(error: DecodeError) -> str:
    """Return the id of the rule that an invalid message breaks."""
    if error.where.startswith("$.policy"):
        return "R-policy-limits"
    if error.where.startswith("$.wake_on"):
        return "R-not-lost"
    if error.where.startswith("$.decisions[") and error.where.endswith(".type"):
        return "R-unknown-decisions"
    return "R-invalid-message" if error.where else "R-body"


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
        """Return the exit status, negative after a signal; None: the program still runs."""
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
