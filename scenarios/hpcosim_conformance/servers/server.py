"""The connection to a server under test. It can send arbitrary bytes."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
import zmq

from hpcosim_conformance.errors import (
    BrokenRuleError,
    CommandError,
    NoServerError,
    NotTriedError,
    expect,
)
from hpcosim_conformance.servers.session import Map, OpenSession
from hpcosim_protocol import DecodeError, decode_server_message
from hpcosim_protocol.keys import ClientKeys, connect_with

DELIMITER = b""
CONNECT_S = 3.0  # timeout for the connection, wall s
CHECK_S = 300.0  # timeout for all requests of a check, wall s
POLL_MS = 50


def expect_seq(error: Map, seq: int) -> None:
    """Check that an error has the `seq` of its request."""
    what = f"the error has seq {error.get('seq')}; expected {seq}"
    expect(error.get("seq") == seq, "R-error-seq", what)


@contextmanager
def connected(
    address: str, scenario: str, timeout_s: float, keys: ClientKeys | None = None
) -> Iterator[ServerUnderTest]:
    """Yield a connection to a server. At the end of the block, close its sessions.

    Args:
        address: address of the server.
        scenario: name of a scenario of the server; empty: its first scenario.
        timeout_s: timeout for each reply, wall s.
        keys: the keys for a server with keys; None: the server has none.

    Raises:
        CommandError: the address is invalid.
    """
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        connect_with(socket, keys)
        socket.immediate = True  # send only through a connection, to notice that there is none
        try:
            socket.connect(address)
        except zmq.ZMQError as error:
            raise CommandError(
                f"--server: invalid address {address!r}; expected an address such as "
                "tcp://127.0.0.1:28080"
            ) from error
        server = ServerUnderTest(socket, address, scenario, timeout_s)
        yield server
        server.close_sessions()


class ServerUnderTest:
    """A connection to a server under test. See `connected`.

    Attributes:
        body: body of the last reply.
    """

    def __init__(
        self, socket: zmq.Socket[bytes], address: str, scenario: str, timeout_s: float
    ) -> None:
        self.body = b""
        self._socket, self._address = socket, address
        self._scenario, self._timeout_s = scenario, timeout_s
        self._connect_s = min(timeout_s, CONNECT_S)
        socket.sndtimeo = int(1000 * self._connect_s)
        self._until_s = time.monotonic() + CHECK_S
        self._sessions: set[str] = set()  # names of the opened sessions

    def send(self, frames: Sequence[bytes]) -> None:
        """Send a message that consists of these frames.

        Raises:
            NoServerError: there is no connection to the server.
        """
        try:
            self._socket.send_multipart(list(frames))
        except zmq.Again:
            raise self._no_server() from None

    def receive(self) -> list[bytes]:
        """Return the frames of the next reply. The last is the body; see `read`.

        Raises:
            BrokenRuleError: the timeout expired.
            NoServerError: the connection to the server is lost.
            NotTriedError: the timeout of the whole check expired.
        """
        if time.monotonic() > self._until_s:
            raise NotTriedError(f"the check takes more than {CHECK_S:g} s")
        connected_s = time.monotonic()
        until_s = connected_s + self._timeout_s
        while not self._socket.poll(POLL_MS):
            now_s = time.monotonic()
            what = f"the server did not reply within {self._timeout_s:g} s"
            expect(now_s < until_s, "R-in-order", what)
            if self._socket.poll(0, zmq.POLLOUT):
                connected_s = now_s
            elif now_s > connected_s + self._connect_s:
                raise self._no_server()
        return self._socket.recv_multipart()

    def _no_server(self) -> NoServerError:
        return NoServerError(f"no server answers at {self._address}: waited {self._connect_s:g} s")

    def read(self, body: bytes) -> Map:
        """Return the message that the body of a reply encodes.

        Raises:
            BrokenRuleError: the body is not a message of a server.
        """
        self.body = body
        try:
            decode_server_message(body)
        except DecodeError as error:
            raise BrokenRuleError("R-body", f"the reply is not a valid message: {error}") from error
        reply: Map = msgspec.msgpack.decode(body)
        return reply

    def exchange(self, message: Map | bytes) -> Map:
        """Send a message, or the bytes of a body, and return the reply.

        Raises:
            BrokenRuleError: there is no reply, or it is not a message of a server.
        """
        body = message if isinstance(message, bytes) else msgspec.msgpack.encode(message)
        self.send([DELIMITER, body])
        *before, reply = self.receive()
        what = f"the reply has the frames {before} before the body; expected one empty frame"
        expect(before == [DELIMITER], "R-envelope", what)
        return self.read(reply)

    def expect_error(
        self,
        message: Map | bytes,
        code: str,
        rule_id: str,
        *,
        seq: int | None = None,
        request: str = "the request",
    ) -> Map:
        """Send a request, check that the reply is a non-fatal error, and return it.

        Args:
            message: the request, or the bytes of its body.
            code: the expected error code.
            rule_id: id of the rule that any other reply breaks.
            seq: the expected `seq` of the error; None: any.
            request: description of the request for the verdict.

        Raises:
            BrokenRuleError: the reply differs from the expected error.
        """
        reply = self.exchange(message)
        got = f"{reply['type']} {reply.get('code', '')}".strip()
        what = f"the reply to {request} is {got}; expected error {code}"
        expect(reply.get("code") == code, rule_id, what)
        expect(not reply.get("fatal"), "R-not-fatal", f"the error for {request} is fatal")
        if seq is not None:
            expect_seq(reply, seq)
        return reply

    # Sessions

    def hello(self, **fields: Any) -> Map:
        """Return a new hello with these fields."""
        named = {"type": "hello", "versions": [1], "client": "conformance"}
        return named | {"scenario": self._scenario, "nonce": secrets.token_hex(8)} | fields

    def welcome(self, hello: Map) -> Map:
        """Send a hello and return the welcome.

        Raises:
            BrokenRuleError: the reply is not a welcome.
        """
        reply = self.exchange(hello)
        got = f"{reply['type']} {reply.get('code', '')}: {reply.get('message', '')}"
        what = f"the reply to hello is {got}; expected welcome"
        expect(reply["type"] == "welcome", "R-hello", what)
        self._sessions.add(reply["session"])
        return reply

    def open(self, **fields: Any) -> OpenSession:
        """Open a session with a hello that has these fields.

        Raises:
            BrokenRuleError: the reply is not a welcome.
        """
        return OpenSession(self.exchange, self.welcome(self.hello(**fields)))

    def close_sessions(self) -> None:
        """Send bye in every opened session and ignore the replies."""
        for session in sorted(self._sessions):
            with suppress(BrokenRuleError, NotTriedError, NoServerError):
                self.exchange({"type": "bye", "session": session})
