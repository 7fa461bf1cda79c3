"""The connection to a server: one method for each request of the protocol."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Self

from msgspec.structs import replace

from hpcosim_client.errors import (
    ResultsNotWrittenError,
    ServerFaultError,
    ServerRefusedError,
)
from hpcosim_client.exchange import HISTORY, Exchange, Timeouts, is_label, unexpected
from hpcosim_client.link import Link, new_link
from hpcosim_protocol import (
    PROTOCOL_VERSION,
    WORKLOAD_MANAGER_EVENTS,
    Bye,
    Decision,
    Decisions,
    Event,
    EventKind,
    Events,
    GetHistory,
    GetStatus,
    Hello,
    History,
    ServerStatus,
    SimulationEnded,
    Welcome,
)
from hpcosim_protocol.keys import ClientKeys

LABEL_LENGTH = 8  # of the session labels in the server's log and results folders


class Answer(NamedTuple):
    """A server's reply to decisions.

    Attributes:
        now_s: simulated time, in seconds.
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
    ) -> Welcome:
        """Open a session, or resume one.

        Args:
            client: name of the scheduler, for logs and results.
            scenario: name of one of the server's scenarios; empty: its first.
            seed: seed of the simulation; None: the scenario's own.
            overrides: values of the scenario to change, by dotted path.
            session: identifier of the session to resume; empty: a new session.
            policy: description of the policy, which the server records with the results.
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
            workload_manager=True,
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
        """Check that a server answers.

        Raises:
            ServerGoneError: it does not.
        """
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
