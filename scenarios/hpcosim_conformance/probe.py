"""A client that can say anything at all to a server under test, and takes nothing on trust."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import msgspec
import zmq

from hpcosim_conformance import rules
from hpcosim_conformance.rules import Rule
from hpcosim_conformance.verdict import BrokenRuleError, NotTriedError
from hpcosim_protocol import DecodeError, decode_server_message
from hpcosim_scenarios.errors import CommandError

Map = dict[str, Any]
DELIMITER = b""
CHECK_S = 300.0  # for all that is asked in a check


def expect(holds: bool, rule: Rule, what: str) -> None:
    """Raise BrokenRuleError unless something holds.

    Args:
        holds: it.
        rule: what is broken otherwise.
        what: what the server did then.
    """
    if not holds:
        raise BrokenRuleError(rule, what)


class Probe:
    """A socket to a server.

    Args:
        address: of the server.
        wait_s: how long an answer may take.

    Attributes:
        body: the last answer, as it came.

    Raises:
        CommandError: the address is none.
    """

    def __init__(self, address: str, wait_s: float) -> None:
        self.body = b""
        self._wait_s = wait_s
        self._until_s = time.monotonic() + CHECK_S
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.linger = 0
        try:
            self._socket.connect(address)
        except zmq.ZMQError as error:
            self.close()
            raise CommandError(f"{address!r} is no address: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drop the socket."""
        self._socket.close()
        self._context.term()

    def send(self, frames: Sequence[bytes]) -> None:
        """Send a message of these frames."""
        self._socket.send_multipart(list(frames))

    def receive(self) -> list[bytes]:
        """Return the frames of the next answer.

        Raises:
            BrokenRuleError: none comes.
            NotTriedError: the check has taken too long, answer by answer.
        """
        if time.monotonic() > self._until_s:
            raise NotTriedError(f"what it asks for takes more than {CHECK_S:g} s")
        until_s = time.monotonic() + self._wait_s
        while not self._socket.poll(50):
            silent = time.monotonic() >= until_s
            expect(not silent, rules.IN_ORDER, f"it did not answer within {self._wait_s:g} s")
        return self._socket.recv_multipart()

    def ask(self, message: Map | bytes) -> Map:
        """Return the answer to a message.

        Args:
            message: a message, or the bytes of a body.

        Raises:
            BrokenRuleError: there is no answer, or it is no message of a server.
        """
        body = message if isinstance(message, bytes) else msgspec.msgpack.encode(message)
        self.send([DELIMITER, body])
        frames = self.receive()
        expect(
            len(frames) == 2 and frames[0] == DELIMITER,
            rules.ENVELOPE,
            f"its answer has the {len(frames) - 1} frames {frames[:-1]} before the body, not one "
            "that is empty",
        )
        return self.read(frames[-1])

    def read(self, body: bytes) -> Map:
        """Return the message in the body of an answer.

        Raises:
            BrokenRuleError: it is none of a server.
        """
        self.body = body
        try:
            decode_server_message(body)
        except DecodeError as error:
            raise BrokenRuleError(rules.BODY, f"its answer is no message: {error}") from error
        answer: Map = msgspec.msgpack.decode(body)
        return answer

    def refused(self, message: Map | bytes, code: str, rule: Rule) -> Map:
        """Return the error that a message is answered.

        Raises:
            BrokenRuleError: it is answered otherwise.
        """
        answer = self.ask(message)
        said = answer.get("code", "")
        expect(
            said == code,
            rule,
            f"it answered {answer['type']}{said and f' {said}'} where the error {code} was due",
        )
        return answer
