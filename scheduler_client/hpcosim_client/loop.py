"""The loop of a scheduler: apply events, decide, wait for the next events.

A scheduler that comes back to its session first decides again on the recorded replies.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

import msgspec

from hpcosim_client import errors
from hpcosim_client.connection import Answer, Connection
from hpcosim_client.view import Policy, View
from hpcosim_protocol import (
    Decision,
    Decisions,
    Event,
    EventKind,
    Events,
    Exchange,
    Hello,
    Platform,
    Welcome,
    encode,
)
from hpcosim_protocol.keys import client_keys

if TYPE_CHECKING:
    from hpcosim_client.connection import Timeouts


MAX_SHOWN = 300
"""Maximum number of characters of decisions in an error message."""


class SimulationReply(Protocol):
    """A reply to decisions; see `connection.Answer`."""

    @property
    def now_s(self) -> float:
        """Simulated time, in seconds."""

    @property
    def events(self) -> Sequence[Event]:
        """The events since the last reply."""

    @property
    def ended(self) -> bool:
        """Whether the simulation is over."""


LOG = logging.getLogger("hpcosim_client")

AnyReply = TypeVar("AnyReply", bound=SimulationReply)
Send = Callable[[Sequence[Decision], Collection[EventKind] | None, float], AnyReply]
"""Sends decisions, `wake_on` and `elapsed_s`; returns the reply. See `Connection.decide`."""


@runtime_checkable
class Player(Protocol):
    """A scheduler that needs no view, such as that of a library."""

    @property
    def hello(self) -> Hello:
        """Its hello; whether it understands the events of workload managers."""

    def play(
        self,
        platform: Platform,
        send: Send[AnyReply],
        snapshot: tuple[float, Sequence[Event]],
        seed: int,
        *,
        wake_on_allocation: bool,
        explains: bool,
    ) -> AnyReply:
        """Decide until the simulation is over; see the function `play`."""


def play(
    policy: Policy,
    platform: Platform,
    send: Send[AnyReply],
    snapshot: tuple[float, Sequence[Event]] = (0.0, ()),
    seed: int = 0,
    wake_on_allocation: bool = True,
    explains: bool = False,
) -> AnyReply:
    """Run a policy until the simulation is over, over any link, and return the last reply.

    Args:
        policy: the policy; new for each run, as policies keep state.
        platform: the cluster's description.
        snapshot: simulated time, in seconds, and the events that restore the view of a resumed
            session.
        seed: seed of the policy's random numbers.
        wake_on_allocation: whether an allocation switches its sleeping nodes on.
        explains: whether explanations of the policy (`View.explain`) are sent; the server must know
            them.

    Raises:
        PolicyError: the policy made an impossible decision. Exceptions of `send` pass through.
    """
    if isinstance(policy, Player):
        return policy.play(
            platform,
            send,
            snapshot,
            seed,
            wake_on_allocation=wake_on_allocation,
            explains=explains,
        )
    view = View(platform, seed, wake_on_allocation=wake_on_allocation, explains=explains)
    view.apply(*snapshot)
    if snapshot[1]:
        policy(view)
    while True:
        reply = send(view.decisions, view.wake_on, view.elapsed_s)
        if reply.ended:
            return reply
        view.apply(reply.now_s, reply.events)
        policy(view)


def run(
    policy: Policy,
    address: str = "tcp://127.0.0.1:28080",
    *,
    name: str = "",
    scenario: str = "",
    seed: int | None = None,
    overrides: Mapping[str, bool | int | float | str] | None = None,
    session: str = "",
    from_snapshot: bool = False,
    description: Mapping[str, object] | None = None,
    timeouts: Timeouts | None = None,
    explain: bool = False,
    welcomed: Callable[[Welcome], None] = lambda _: None,
    keys: Path | str | None = None,
    server_key: Path | str | None = None,
) -> Mapping[str, int | float]:
    """Connect to a server, schedule one simulation with a policy, and return its metrics.

    A server that does not answer is reported after a second, through the logger `hpcosim_client`;
    the request is repeated until the timeout. Ctrl-C leaves the session open, so that another call
    can resume it; a warning of the same logger has its identifier. `hpcosim_client.main` is the
    same for a script, with errors in one line.

    Args:
        policy: the policy; new for each run, as policies keep state.
        name: name of the scheduler in logs and results; empty: the name of the function.
        scenario: name of one of the server's scenarios; empty: its first.
        seed: seed of the simulation; None: the scenario's own.
        overrides: values of the scenario to change, by dotted path: `{"workload.load": 1.2}`.
        session: identifier of the session to resume, after its client ended; empty: a new session.
            If the server has its history, the policy decides again on the recorded replies, and so
            gets the state that it had; otherwise it starts from a snapshot.
        from_snapshot: start from a snapshot of the session even if the server has its history: for
            another policy, or one that is not deterministic.
        description: description of the policy, recorded in `run.json`, such as `describe` returns;
            None: `{"name": name}`.
        timeouts: the timeouts; None: the defaults of `Timeouts`.
        explain: send explanations of the policy (`View.explain`) if the server knows them.
        welcomed: called with the server's reply to the hello, which has the session's name.
        keys: folder of this client's keys, as `hpcosim keygen` makes it, or file of its secret key,
            for a server with keys; None: the server has none.
        server_key: file with the server's public key; None: `server.key` beside the secret key.

    Raises:
        AddressError: the address is invalid.
        ServerGoneError: the server does not answer.
        ServerRefusedError: the server rejects the session, or the simulation is stuck.
        PolicyError: the policy made an impossible decision.
        PolicyDiffersError: its decisions differ from the recorded ones of the session; the session
            stays open.
        KeysError: a file of keys is missing or invalid.

    Example:
        >>> metrics = run(make_policy("easy"), overrides={"workload.load": 1.2})
    """
    from hpcosim_client.connection import Connection  # `play` needs no ZeroMQ

    server = None if server_key is None else Path(server_key)
    own = client_keys(None if keys is None else Path(keys), server)
    with Connection(address, timeouts, keys=own) as connection:
        name = name or getattr(policy, "__name__", "policy")
        welcome = connection.hello(
            client=name,
            scenario=scenario,
            seed=seed,
            overrides=overrides,
            session=session,
            policy={"name": name} if description is None else description,
            history=bool(session) and not from_snapshot,
            workload_manager=policy.hello.workload_manager if isinstance(policy, Player) else True,
        )
        welcomed(welcome)
        snapshot: tuple[float, Sequence[Event]] = (welcome.now_s, welcome.snapshot)
        send: Send[Answer] = connection.decide
        if welcome.options.history:
            recorded = RecordedLink(connection, welcome)
            snapshot, send = recorded.snapshot, recorded.decide
        try:
            end = play(
                policy,
                welcome.platform,
                send,
                snapshot,
                welcome.seed,
                wake_on_allocation=welcome.options.wake_on_allocation,
                explains=explain and welcome.options.explain,
            )
        except (
            errors.ServerGoneError,
            errors.ServerRefusedError,
            errors.ServerFaultError,
            errors.ResultsNotWrittenError,
            errors.PolicyDiffersError,
        ):
            raise  # there is no session to leave, or it can go on from a snapshot
        except KeyboardInterrupt:
            timeout_s = welcome.options.idle_timeout_s  # 0: a live cluster says none
            LOG.warning(
                "session %s stays open%s; resume it with --session %s",
                welcome.session,
                f" for {timeout_s:g} s" if timeout_s else "",
                welcome.session,
            )
            raise
        except Exception:
            connection.bye()  # the policy failed; the server stops waiting for it
            raise
        return end.metrics


class RecordedLink:
    """The link of a policy that comes back: the recorded replies, and then those of the server.

    The decisions of the policy must be the recorded ones, so that at the end of the recorded
    replies it is in the state of the policy before. `wake_on` and `elapsed_s` may differ: they only
    choose when a policy is called.

    Args:
        connection: a connection that has resumed a session with its history.
        welcome: the server's reply to the hello.

    Attributes:
        snapshot: simulated time, in seconds, and events with which the policy of the recorded
            replies began.
    """

    def __init__(self, connection: Connection, welcome: Welcome) -> None:
        self.snapshot: tuple[float, Sequence[Event]] = (0.0, ())
        self._connection = connection
        self._last = welcome.seq
        self._now_s = 0.0
        self._recorded: deque[Exchange] = deque()
        self._after = 0
        if self._last:
            first = connection.history(0)
            self.snapshot = (first.snapshot_s, first.snapshot)
            self._now_s = first.snapshot_s
            self._add(first.exchanges)
            if not first.exchanges:  # nothing was decided since the snapshot
                self._after = self._last

    def decide(
        self,
        decisions: Sequence[Decision],
        wake_on: Collection[EventKind] | None,
        elapsed_s: float,
    ) -> Answer:
        """Return the reply to decisions, recorded or new.

        Raises:
            PolicyDiffersError: the decisions differ from the recorded ones.
            ServerRefusedError, ServerGoneError, ServerFaultError: as `Connection.decide`.
        """
        if not self._recorded:
            if self._after >= self._last:
                return self._connection.decide(decisions, wake_on, elapsed_s)
            self._add(self._connection.history(self._after).exchanges)
            if not self._recorded:  # a restored session may have lost requests since its welcome
                self._last = self._after
                return self._connection.decide(decisions, wake_on, elapsed_s)
        recorded = self._recorded.popleft()
        seq = recorded.request.seq
        request = self._connection.request(seq, decisions, wake_on, elapsed_s)
        if encode(request.decisions) != encode(recorded.request.decisions):
            raise errors.PolicyDiffersError(
                seq, self._now_s, *_first_difference(recorded.request, request)
            )
        # The last one may be another than at the welcome: a late request of the process before may
        # have been carried out, or the session may be restored to an earlier one.
        self._connection.continue_after(seq)
        reply: Events = recorded.reply
        self._now_s = reply.now_s
        return Answer(reply.now_s, reply.events, False, {})

    def _add(self, exchanges: Sequence[Exchange]) -> None:
        if exchanges:
            self._recorded.extend(exchanges)
            self._after = exchanges[-1].request.seq


def _first_difference(expected: Decisions, got: Decisions) -> tuple[str, str]:
    """Return the first decision of two requests that differs, in JSON."""
    pairs = zip_longest(expected.decisions, got.decisions)
    one, other = next(pair for pair in pairs if encode(pair[0]) != encode(pair[1]))
    return _shown(one), _shown(other)


def _shown(decision: Decision | None) -> str:
    if decision is None:
        return "no decision"
    text = msgspec.json.encode(decision).decode()
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
