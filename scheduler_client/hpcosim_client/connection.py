"""The connection to a server: one method for each request, sent again until its reply arrives."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from msgspec.structs import replace

from hpcosim_client.errors import (
    ResultsNotWrittenError,
    ServerFaultError,
    ServerGoneError,
    ServerRefusedError,
)
from hpcosim_client.link import Link, new_link
from hpcosim_protocol import (
    PROTOCOL_VERSION,
    WORKLOAD_MANAGER_EVENTS,
    Bye,
    ClientMessage,
    Decision,
    Decisions,
    DecodeError,
    Error,
    Event,
    EventKind,
    Events,
    GetHistory,
    GetStatus,
    Held,
    Hello,
    History,
    ServerMessage,
    ServerStatus,
    SimulationEnded,
    Welcome,
    decode_server_message,
    encode,
)
from hpcosim_protocol.keys import ClientKeys

LABEL_LENGTH = 8  # of the session labels in the server's log and results folders


# Replies of a server: whether they answer a request, and errors about them.

UNNUMBERED = ("invalid_message", "message_too_large", "shutting_down")
"""Codes of errors without the `seq` of their request. Another error without it answers a hello."""


class Answer(NamedTuple):
    """A server's reply to decisions.

    Attributes:
        events: the events since the last reply.
        ended: whether the simulation is over; then there are no events.
        metrics: metrics of the run by name; empty until the simulation is over.
    """

    now_s: float
    events: Sequence[Event]
    ended: bool
    metrics: Mapping[str, int | float]


class Connection:
    """A connection to a server, with at most one session.

    Args:
        address: ZeroMQ address, such as `tcp://127.0.0.1:28080`.
        timeouts: the timeouts; None: the defaults of `Timeouts`.
        link: the link to use; None: a ZeroMQ socket.
        keys: the keys for a server with keys, see `read_client_keys`; None: the server has none.

    Raises:
        AddressError: the address is invalid.
    """

    def __init__(
        self,
        address: str,
        timeouts: Timeouts | None = None,
        link: Link | None = None,
        keys: ClientKeys | None = None,
    ) -> None:
        self.address = address
        self.welcome: Welcome | None = None
        timeouts = timeouts or Timeouts()
        self._seq = 0
        self._link = link or new_link(address, timeouts.resend_s, keys)
        self._exchange = Exchange(self._link, address, timeouts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the link. An open session stays open until the server times it out."""
        self._link.close()

    def hello(
        self,
        *,
        client: str,
        scenario: str = "",
        seed: int | None = None,
        overrides: Mapping[str, bool | int | float | str] | None = None,
        session: str = "",
        policy: Mapping[str, object] | None = None,
        history: bool = False,
        workload_manager: bool = True,
    ) -> Welcome:
        """Open a session, or resume one.

        Args:
            client: name of the scheduler, for logs and results.
            scenario: name of one of the server's scenarios; empty: its first.
            seed: seed of the simulation; None: the scenario's own.
            overrides: values of the scenario to change, by dotted path.
            session: identifier of the session to resume; empty: a new session.
            policy: description of the policy, which the server records with the results.
            workload_manager: whether the scheduler understands the events of workload managers.
            history: ask for the history of the session to resume instead of a snapshot; the option
                `history` of the welcome says whether the server has it.

        Raises:
            ServerRefusedError: the server rejects the session.
            ServerGoneError: the server does not reply.
            ServerFaultError: the reply violates the protocol.
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
            held_replies=True,
            workload_manager=workload_manager,
            history=history,
        )
        try:
            answer = self._exchange.reply_to(message, 0)
        except ServerRefusedError as refused:
            if refused.error.code != "unknown_session" or len(session) != LABEL_LENGTH:
                raise
            explained = replace(refused.error, message=is_label(session))
            raise ServerRefusedError(explained) from None
        if not isinstance(answer, Welcome):
            raise ServerFaultError(unexpected("hello", answer))
        if answer.version != PROTOCOL_VERSION:
            raise ServerFaultError(
                f"the server chose protocol version {answer.version}; this client offered "
                f"{PROTOCOL_VERSION}"
            )
        self.welcome, self._seq = answer, answer.seq
        self._exchange.is_answered = True
        return answer

    def decide(
        self,
        decisions: Sequence[Decision],
        wake_on: Collection[EventKind] | None = None,
        elapsed_s: float = 0.0,
    ) -> Answer:
        """Send decisions and return the next events.

        Args:
            decisions: the decisions, in the order in which they take effect.
            wake_on: kinds of events that end the wait; None: the protocol's default. Kinds of an
                extension are left out if the session lacks the option for them.
            elapsed_s: simulated seconds that the scheduler needed to decide, >= 0.

        Raises:
            ServerRefusedError: the server rejects the message, or the session is over.
            ServerGoneError: the server does not reply.
            ServerFaultError: the reply violates the protocol, or no session is open.
            ResultsNotWrittenError: the simulation is over, but its results are not written.
        """
        if self.welcome is None:
            raise ServerFaultError("no session is open: call hello() before decide()")
        self._seq += 1
        message = self.request(self._seq, decisions, wake_on, elapsed_s)
        answer = self._exchange.reply_to(message, self._seq)
        if isinstance(answer, Events):
            return Answer(answer.now_s, answer.events, False, {})
        if isinstance(answer, SimulationEnded):
            if answer.results_error:
                raise ResultsNotWrittenError(answer.results_error, answer.metrics)
            return Answer(answer.now_s, (), True, answer.metrics)
        raise ServerFaultError(unexpected("decisions", answer))

    def request(
        self,
        seq: int,
        decisions: Sequence[Decision],
        wake_on: Collection[EventKind] | None,
        elapsed_s: float,
    ) -> Decisions:
        """Return the message with these decisions; see `decide`."""
        assert self.welcome is not None
        if wake_on is not None and not self.welcome.options.workload_manager:
            wake_on = set(wake_on) - WORKLOAD_MANAGER_EVENTS
        return Decisions(
            session=self.welcome.session,
            seq=seq,
            decisions=list(decisions),
            wake_on=None if wake_on is None else sorted(wake_on),
            elapsed_s=elapsed_s,
        )

    def history(self, after: int) -> History:
        """Return requests and replies of the session, in order; see `hello`.

        Args:
            after: number of the last request whose reply is known; 0: none.

        Raises:
            ServerRefusedError: the server has no history of the session.
            ServerGoneError, ServerFaultError: as `decide`.
        """
        if self.welcome is None:
            raise ServerFaultError("no session is open: call hello() before history()")
        message = GetHistory(session=self.welcome.session, after=after)
        answer = self._exchange.reply_to(message, HISTORY)
        if not isinstance(answer, History):
            raise ServerFaultError(unexpected("get_history", answer))
        return answer

    def continue_after(self, seq: int) -> None:
        """Number the next decisions after a request of the session's history."""
        self._seq = seq

    def bye(self) -> None:
        """Leave the session before the simulation is over."""
        if self.welcome is not None:
            try:
                self._exchange.reply_to(Bye(session=self.welcome.session), 0)
            except ServerRefusedError as refused:
                if refused.error.code != "unknown_session":  # an earlier copy ended it
                    raise

    def ping(self) -> None:
        """Check that a server answers."""
        try:
            self._exchange.reply_to(Hello(versions=[]), 0)
        except ServerRefusedError:
            return  # a server rejects a hello that offers no protocol version

    def status(self) -> ServerStatus:
        """Return what the server does.

        Raises:
            ServerRefusedError: the server does not tell it.
            ServerGoneError, ServerFaultError: as `decide`.
        """
        answer = self._exchange.reply_to(GetStatus(), 0)
        if not isinstance(answer, ServerStatus):
            raise ServerFaultError(unexpected("get_status", answer))
        return answer


def answers(answer: ServerMessage, seq: int) -> bool:
    """Return whether a message is a reply to request `seq`; hello and bye have number 0."""
    if isinstance(answer, (Events, SimulationEnded)):
        return answer.seq == seq
    if isinstance(answer, Error):
        return answer.seq == max(seq, 0) or (answer.seq == 0 and answer.code in UNNUMBERED)
    # A hello that was sent twice has two welcomes; the second one is late.
    return seq == 0 or not isinstance(answer, Welcome | ServerStatus)


def is_label(session: str) -> str:
    """Return the error message for a label in the place of a session's identifier."""
    return (
        f"{session} is a label of the server's log; --session needs the full identifier, which the "
        "first client printed"
    )


def unexpected(request: str, answer: ServerMessage) -> str:
    """Return the error message for a reply of the wrong type."""
    return f"the server's reply to {request} is of the wrong type, {type(answer).__name__}"


HISTORY = -1  # instead of the number of a request: it is `get_history`
NOTICE_S = 1.0  # after which a missing server is reported

LOG = logging.getLogger("hpcosim_client")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts of a connection, in seconds of wall time, each > 0.

    Attributes:
        resend_s: interval after which a request without a reply is sent again.
        reply_s: timeout of each reply.
        hello_s: timeout of the first reply.
    """

    resend_s: float = 5.0
    reply_s: float = 60.0
    hello_s: float = 20.0


class Exchange:
    """Exchanges requests for replies over a link.

    Attributes:
        is_answered: whether the server has opened a session; until then, a missing server is
            reported.
    """

    is_answered = False

    def __init__(self, link: Link, address: str, timeouts: Timeouts) -> None:
        self._link = link
        self._address = address
        self._timeouts = timeouts
        self._held = False

    def reply_to(self, message: ClientMessage, seq: int) -> ServerMessage:
        """Return the reply to a request.

        Args:
            seq: its number; 0: it has none; `HISTORY`: it is `get_history`.

        Raises:
            ServerRefusedError: the reply is an error.
            ServerGoneError: no reply came within the timeout.
            ServerFaultError: the reply violates the protocol.
        """
        data = encode(message)
        after = message.after if isinstance(message, GetHistory) else 0
        timeout_s = self._timeouts.reply_s
        if seq == 0:
            timeout_s = min(timeout_s, self._timeouts.hello_s)
        clock_s = self._link.clock_s
        now_s = clock_s()
        deadline_s = now_s + timeout_s
        notice = not self.is_answered and timeout_s > NOTICE_S
        while now_s < deadline_s:
            self._link.send(data)
            until_s = min(now_s + self._timeouts.resend_s, deadline_s)
            answer = self._wait(seq, after, min(until_s, now_s + NOTICE_S) if notice else until_s)
            if notice and answer is None:
                self._report(timeout_s - NOTICE_S)
                answer = self._wait(seq, after, until_s)
            notice = False
            now_s = clock_s()
            if self._held:  # a sign of life: the simulation is slowed down or paused
                deadline_s = now_s + timeout_s
            if isinstance(answer, Error):
                raise ServerRefusedError(answer)
            if answer is not None:
                return answer
        what = "no reply from the server at" if self.is_answered else "no server answers at"
        raise ServerGoneError(f"{what} {self._address}: waited {timeout_s:g} s{self._because()}")

    def _because(self) -> str:
        return f"; {self._link.problem}" if self._link.problem else ""

    def _report(self, left_s: float) -> None:
        text = "no server answers at %s; retrying for %g s%s"
        LOG.warning(text, self._address, left_s, self._because())

    def _wait(self, seq: int, after: int, until_s: float) -> ServerMessage | None:
        """Return the reply to request `seq`; None: none came in time."""
        self._held = False
        while True:
            data = self._link.receive(max(until_s - self._link.clock_s(), 0.0))
            if data is None:
                return None
            try:
                answer = decode_server_message(data)
            except DecodeError as error:
                raise ServerFaultError(f"the server's reply cannot be decoded: {error}") from error
            if isinstance(answer, Held):
                self._held = self._held or answer.seq == seq
            elif isinstance(answer, History):
                if seq == HISTORY and answer.after == after:
                    return answer
            elif answers(answer, seq):
                return answer
