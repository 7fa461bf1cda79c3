"""The connection to a server: each request is sent again until a reply comes."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import zmq

from hpcosim_client.errors import ServerFaultError, ServerGoneError, ServerRefusedError
from hpcosim_protocol import (
    PROTOCOL_VERSION,
    Bye,
    ClientMessage,
    Decision,
    Decisions,
    DecodeError,
    Error,
    Event,
    EventKind,
    Events,
    Hello,
    ServerMessage,
    SimulationEnded,
    Welcome,
    decode_server_message,
    encode,
)

RECONNECT_MS = 20  # short, as a server is often started at the same time


@dataclass(frozen=True, slots=True)
class Patience:
    """Timeouts of a client, in wall seconds, each above 0.

    Attributes:
        resend_s: interval after which a request is sent again.
        give_up_s: timeout of each reply.
        hello_s: timeout of the first reply; shorter, as a wrong address is the likely reason.
    """

    resend_s: float = 5.0
    give_up_s: float = 60.0
    hello_s: float = 20.0


class Answer(NamedTuple):
    """A server's reply to decisions.

    Attributes:
        now_s: simulated time, s.
        events: the events since the last reply.
        ended: the simulation is over; there are no events.
        metrics: metrics of the run by name, once it is over; before, empty.
    """

    now_s: float
    events: Sequence[Event]
    ended: bool
    metrics: Mapping[str, int | float]


class Connection:
    """A socket to a server, and at most one session on it.

    Args:
        address: ZeroMQ address, such as `tcp://127.0.0.1:28080`.
        patience: the timeouts; None: those of `Patience`.

    Raises:
        ServerGoneError: the address is invalid.
    """

    def __init__(self, address: str, patience: Patience | None = None) -> None:
        self.address = address
        self.welcome: Welcome | None = None
        self._patience = patience or Patience()
        self._seq = 0
        self._context = zmq.Context()
        # A DEALER, unlike a REQ, may send again while it waits. It leaves out the empty delimiter,
        # a frame that costs a tenth of the time of each message.
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.linger = 0
        self._socket.reconnect_ivl = RECONNECT_MS
        self._socket.rcvtimeo = int(self._patience.resend_s * 1000)
        try:
            self._socket.connect(address)
        except zmq.ZMQError as error:
            self.close()
            raise ServerGoneError(f"{address!r} is no address: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket; an open session stays open until the server finds it idle."""
        self._socket.close()
        self._context.term()

    def hello(
        self,
        *,
        client: str,
        scenario: str = "",
        seed: int | None = None,
        overrides: Mapping[str, bool | int | float | str] | None = None,
        session: str = "",
        policy: Mapping[str, object] | None = None,
    ) -> Welcome:
        """Open a session, or return to one.

        Args:
            client: name of the scheduler, for logs and results.
            scenario: name of one of the server's scenarios; empty: its first.
            seed: seed of the simulation; None: the scenario's own.
            overrides: values of the scenario to change, by dotted path.
            session: name of the session to return to; empty: a new one.
            policy: description of the policy, which the server records with the results.

        Raises:
            ServerRefusedError: the server opens no such session.
            ServerGoneError: there is no reply.
            ServerFaultError: the reply breaks the protocol.
        """
        message = Hello(
            versions=[PROTOCOL_VERSION],
            client=client,
            nonce=secrets.token_hex(8),
            scenario=scenario,
            seed=seed,
            overrides=dict(overrides or {}),
            session=session,
            policy=dict(policy or {}),
        )
        answer = self._request(message, 0)
        if not isinstance(answer, Welcome):
            raise ServerFaultError(f"the server answers a hello with {type(answer).__name__}")
        if answer.version != PROTOCOL_VERSION:
            raise ServerFaultError(f"the server chose version {answer.version}, not offered")
        self.welcome, self._seq = answer, answer.seq
        return answer

    def decide(
        self,
        decisions: Sequence[Decision],
        wake_on: Collection[EventKind] | None = None,
        elapsed_s: float = 0.0,
    ) -> Answer:
        """Send decisions and return what happens next.

        Args:
            decisions: the decisions, in the order in which they are carried out.
            wake_on: kinds of events to be woken for; None: the protocol's default.
            elapsed_s: simulated seconds that the decisions took, 0 or more.

        Raises:
            ServerRefusedError: the message was rejected, or the session is over.
            ServerGoneError: there is no reply.
            ServerFaultError: the reply breaks the protocol, or no session is open.
        """
        if self.welcome is None:
            raise ServerFaultError("decisions before a hello: there is no session yet")
        self._seq += 1
        message = Decisions(
            session=self.welcome.session,
            seq=self._seq,
            decisions=list(decisions),
            wake_on=None if wake_on is None else list(wake_on),
            elapsed_s=elapsed_s,
        )
        answer = self._request(message, self._seq)
        if isinstance(answer, Events):
            return Answer(answer.now_s, answer.events, False, {})
        if isinstance(answer, SimulationEnded):
            return Answer(answer.now_s, (), True, answer.metrics)
        raise ServerFaultError(f"the server answers decisions with {type(answer).__name__}")

    def bye(self) -> None:
        """End the session before the simulation is over."""
        if self.welcome is not None:
            try:
                self._request(Bye(session=self.welcome.session), 0)
            except ServerRefusedError as refused:
                if refused.error.code != "unknown_session":  # the first of two messages ended it
                    raise

    def ping(self) -> None:
        """Find out whether a server answers.

        Raises:
            ServerGoneError: there is no reply.
        """
        try:
            self._request(Hello(versions=[]), 0)
        except ServerRefusedError:
            return  # no version was offered, so this is the reply of a server that lives

    def _request(self, message: ClientMessage, seq: int) -> ServerMessage:
        data = encode(message)
        patience_s = self._patience.give_up_s
        if seq == 0:
            patience_s = min(patience_s, self._patience.hello_s)
        deadline_s = time.monotonic() + patience_s
        while time.monotonic() < deadline_s:
            self._socket.send(data)
            answer = self._answer_to(seq)
            if isinstance(answer, Error):
                raise ServerRefusedError(answer)
            if answer is not None:
                return answer
        raise ServerGoneError(
            f"no answer from {self.address} for {patience_s:g} s; is a server there?"
        )

    def _answer_to(self, seq: int) -> ServerMessage | None:
        """Return the reply to this request, past late replies to others; None: none came."""
        while True:
            try:
                data = self._socket.recv()
            except zmq.Again:
                return None
            try:
                answer = decode_server_message(data)
            except DecodeError as error:
                raise ServerFaultError(f"the server's answer is no message: {error}") from error
            if _answers(answer, seq):
                return answer


def _answers(answer: ServerMessage, seq: int) -> bool:
    """Return whether this is a reply to request `seq`; a hello and a bye are 0."""
    if isinstance(answer, Events | SimulationEnded):
        return answer.seq == seq
    if isinstance(answer, Error):
        return answer.seq in (0, seq)
    # A welcome may be a late reply to a hello that was sent twice.
    return seq == 0 or not isinstance(answer, Welcome)
