"""The socket to which a client connects, and the rules for a single request."""

from __future__ import annotations

import time
from typing import NamedTuple

import zmq

from hpcosim_conformance.clients.program import Program
from hpcosim_conformance.errors import BrokenRuleError, expect
from hpcosim_protocol import (
    ClientMessage,
    DecodeError,
    Hello,
    UnsupportedVersionError,
    decode_client_message,
)

MOST_FRAMES = 6  # as the client sends them
POLL_MS = 20


class Request(NamedTuple):
    """A request, with the frames that go back before its answer."""

    envelope: list[bytes]
    message: ClientMessage


class ClientConnection:
    """Receives a client's requests and sends the answers.

    Args:
        socket: a bound ROUTER.
        program: the client.
    """

    def __init__(self, socket: zmq.Socket[bytes], program: Program) -> None:
        self.program = program
        self._socket = socket

    def receive(self, wait_s: float) -> Request | None:
        """Return the next request; None: none came in time, or the client has ended.

        Args:
            wait_s: how long to wait, s.

        Raises:
            BrokenRuleError: it is not a message of a client.
        """
        until_s = time.monotonic() + wait_s
        has_ended = False
        while True:
            if self._socket.poll(POLL_MS):
                return _request_in(self._socket.recv_multipart())
            if has_ended or time.monotonic() >= until_s:
                return None
            # Its last request may still be on the way: poll once more.
            has_ended = self.program.status() is not None

    def answer(self, request: Request, body: bytes) -> None:
        """Send the answer to a request."""
        self._socket.send_multipart([*request.envelope, body])


def _request_in(frames: list[bytes]) -> Request:
    identity, *sent = frames
    holds = 1 <= len(sent) <= MOST_FRAMES
    expect(holds, "R-frames", f"it sent a message of {len(sent)} frames")
    envelope = [identity, *sent[:-1]]
    try:
        return Request(envelope, decode_client_message(sent[-1]))
    except UnsupportedVersionError as error:
        what = f"its hello offers only versions {error.offered}"
        expect(not error.offered, "R-hello", what)
        return Request(envelope, Hello(versions=[]))  # a ping
    except DecodeError as error:
        what = f"it sent no message of version 1: {error}"
        raise BrokenRuleError(_broken_by(error), what) from error


def _broken_by(error: DecodeError) -> str:
    """Return the id of the rule that an unreadable message breaks."""
    if error.where.startswith("$.policy"):
        return "R-policy-limits"
    if error.where.startswith("$.wake_on"):
        return "R-not-lost"
    if error.where.startswith("$.decisions[") and error.where.endswith(".type"):
        return "R-unknown-decisions"
    return "R-invalid-message" if error.where else "R-body"
