"""The connection to a server under test. It can send anything at all."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
import zmq

from hpcosim_conformance.errors import BrokenRuleError, CommandError, NotTriedError, expect
from hpcosim_conformance.servers.session import Map, OpenSession
from hpcosim_protocol import DecodeError, decode_server_message

DELIMITER = b""
CHECK_S = 300.0  # for all requests of a check
POLL_MS = 50


def expect_seq(error: Map, seq: int) -> None:
    """Check that an error has the `seq` of its request."""
    what = f"the error's seq is {error.get('seq')}, not {seq}"
    expect(error.get("seq") == seq, "R-error-seq", what)


@contextmanager
def connected(address: str, scenario: str, timeout_s: float) -> Iterator[ServerUnderTest]:
    """Yield a connection to a server. At the end of the block, leave all sessions it opened.

    Args:
        address: the server's address.
        scenario: one of its scenarios; empty: its first.
        timeout_s: timeout for each answer, s.

    Raises:
        CommandError: the address is not valid.
    """
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        try:
            socket.connect(address)
        except zmq.ZMQError as error:
            raise CommandError(f"{address!r} is no address: {error}") from error
        server = ServerUnderTest(socket, scenario, timeout_s)
        yield server
        server.leave()


class ServerUnderTest:
    """A connection to a server under test. See `connected`.

    Attributes:
        body: the body of the last answer.
    """

    def __init__(self, socket: zmq.Socket[bytes], scenario: str, timeout_s: float) -> None:
        self.body = b""
        self._socket, self._scenario, self._timeout_s = socket, scenario, timeout_s
        self._until_s = time.monotonic() + CHECK_S
        self._sessions: set[str] = set()  # names of those opened

    def send(self, frames: Sequence[bytes]) -> None:
        """Send a message of these frames."""
        self._socket.send_multipart(list(frames))

    def receive(self) -> list[bytes]:
        """Return the frames of the next answer. The last is a server's message: `read` it.

        Raises:
            BrokenRuleError: there is no answer in time.
            NotTriedError: the check takes too long as a whole.
        """
        if time.monotonic() > self._until_s:
            raise NotTriedError(f"what it asks for takes more than {CHECK_S:g} s")
        until_s = time.monotonic() + self._timeout_s
        while not self._socket.poll(POLL_MS):
            what = f"it did not answer within {self._timeout_s:g} s"
            expect(time.monotonic() < until_s, "R-in-order", what)
        return self._socket.recv_multipart()

    def read(self, body: bytes) -> Map:
        """Return the message in the body of an answer.

        Raises:
            BrokenRuleError: it is no message of a server.
        """
        self.body = body
        try:
            decode_server_message(body)
        except DecodeError as error:
            raise BrokenRuleError("R-body", f"its answer is no message: {error}") from error
        answer: Map = msgspec.msgpack.decode(body)
        return answer

    def ask(self, message: Map | bytes) -> Map:
        """Return the answer to a message, or to the bytes of a body.

        Raises:
            BrokenRuleError: there is no answer, or it is no message of a server.
        """
        body = message if isinstance(message, bytes) else msgspec.msgpack.encode(message)
        self.send([DELIMITER, body])
        *before, answer = self.receive()
        what = f"its answer has the {len(before)} frames {before} before the body, not one that "
        expect(before == [DELIMITER], "R-envelope", what + "is empty")
        return self.read(answer)

    def refuses(
        self,
        message: Map | bytes,
        code: str,
        rule_id: str,
        *,
        seq: int | None = None,
        request: str = "the request",
    ) -> Map:
        """Check that the answer is an error that is not fatal, and return it.

        Args:
            message: the request.
            code: the error code that is due.
            rule_id: the rule that another answer breaks.
            seq: the `seq` of the error that is due; None: any.
            request: the request, in words.

        Raises:
            BrokenRuleError: there is another answer.
        """
        answer = self.ask(message)
        said = f"{answer['type']} {answer.get('code', '')}".strip()
        what = f"it answered {request} with {said} where the error {code} was due"
        expect(answer.get("code") == code, rule_id, what)
        expect(not answer.get("fatal"), "R-not-fatal", f"the error for {request} is fatal")
        if seq is not None:
            expect_seq(answer, seq)
        return answer

    # Sessions

    def hello(self, **fields: Any) -> Map:
        """Return a hello, not sent yet, with these fields."""
        named = {"type": "hello", "versions": [1], "client": "conformance"}
        return named | {"scenario": self._scenario, "nonce": secrets.token_hex(8)} | fields

    def welcome(self, hello: Map) -> Map:
        """Return the welcome that answers a hello.

        Raises:
            BrokenRuleError: there is another answer.
        """
        answer = self.ask(hello)
        what = f"it answered {answer['type']} {answer.get('code', '')}: {answer.get('message', '')}"
        expect(answer["type"] == "welcome", "R-hello", what)
        self._sessions.add(answer["session"])
        return answer

    def open(self, **fields: Any) -> OpenSession:
        """Return a new session, opened by a hello with these fields.

        Raises:
            BrokenRuleError: there is no welcome.
        """
        return OpenSession(self.ask, self.welcome(self.hello(**fields)))

    def leave(self) -> None:
        """Say bye in every session that was opened, whatever the answers are."""
        for session in sorted(self._sessions):
            with suppress(BrokenRuleError, NotTriedError):
                self.ask({"type": "bye", "session": session})
