"""The server socket for a client under test, and the rules for a single request."""

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

MAX_FRAMES = 6  # of a request, without the identity that the ROUTER adds
POLL_MS = 20


class Request(NamedTuple):
    """A request.

    Attributes:
        envelope: frames before the body, which the reply repeats.
        message: the decoded body.
    """

    envelope: list[bytes]
    message: ClientMessage


class ClientConnection:
    """Receives the requests of a client and sends the replies.

    Args:
        socket: a bound ROUTER socket.
        program: the client under test.
    """

    def __init__(self, socket: zmq.Socket[bytes], program: Program) -> None:
        self.program = program
        self._socket = socket

    def receive(self, wait_s: float) -> Request | None:
        """Return the next request; None: the timeout expired or the client has ended.

        Args:
            wait_s: timeout, wall s.

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
