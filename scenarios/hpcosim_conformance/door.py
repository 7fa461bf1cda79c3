"""A socket to which a client comes, and what can be told of each request by itself."""

from __future__ import annotations

import time
from typing import NamedTuple

import zmq

from hpcosim_conformance import rules
from hpcosim_conformance.rules import Rule
from hpcosim_conformance.subject import Subject
from hpcosim_conformance.verdict import BrokenRuleError
from hpcosim_protocol import (
    ClientMessage,
    DecodeError,
    Hello,
    UnsupportedVersionError,
    decode_client_message,
)

MOST_FRAMES = 6  # as the client sends them
SLICE_MS = 20


class Request(NamedTuple):
    """A request, with the frames that go back before its answer."""

    envelope: list[bytes]
    message: ClientMessage


class Door:
    """Where a client's requests come in, and answers go out.

    Args:
        socket: a bound ROUTER.
        subject: the client.
    """

    def __init__(self, socket: zmq.Socket[bytes], subject: Subject) -> None:
        self._socket, self._subject = socket, subject

    def next(self, wait_s: float) -> Request | None:
        """Return the next request; None: none came in time, or the client has ended.

        Raises:
            BrokenRuleError: it is no message of a client.
        """
        until_s = time.monotonic() + wait_s
        gone = False
        while True:
            if self._socket.poll(SLICE_MS):
                return _read(self._socket.recv_multipart())
            if gone or time.monotonic() >= until_s:
                return None
            gone = self._subject.status() is not None  # what it sent last may be on its way

    def send(self, request: Request, body: bytes) -> None:
        """Answer a request."""
        self._socket.send_multipart([*request.envelope, body])


def _read(frames: list[bytes]) -> Request:
    identity, *sent = frames
    if not 1 <= len(sent) <= MOST_FRAMES:
        raise BrokenRuleError(rules.FRAMES, f"it sent a message of {len(sent)} frames")
    envelope = [identity, *sent[:-1]]
    try:
        return Request(envelope, decode_client_message(sent[-1]))
    except UnsupportedVersionError as error:
        if not error.offered:  # a ping
            return Request(envelope, Hello(versions=[]))
        what = f"its hello offers only versions {error.offered}"
        raise BrokenRuleError(rules.HELLO, what) from error
    except DecodeError as error:
        what = f"it sent no message of version 1: {error}"
        raise BrokenRuleError(_rule_of(error), what) from error


def _rule_of(error: DecodeError) -> Rule:
    """Return the rule that a message breaks which can't be read."""
    if error.where.startswith("$.wake_on"):
        return rules.NOT_LOST
    if error.where.startswith("$.decisions[") and error.where.endswith(".type"):
        return rules.UNKNOWN_DECISIONS
    return rules.INVALID if error.where else rules.BODY
