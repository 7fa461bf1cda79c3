"""The loop of a scheduler: take in events, decide, wait for the next events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeVar

from hpcosim_client.connection import Connection, Patience
from hpcosim_client.errors import ServerFaultError, ServerGoneError, ServerRefusedError
from hpcosim_client.view import Policy, View
from hpcosim_protocol import Decision, Event, EventKind, Platform, Welcome


class Batch(Protocol):
    """A reply to decisions; see `connection.Answer`."""

    @property
    def now_s(self) -> float:
        """Simulated time."""

    @property
    def events(self) -> Sequence[Event]:
        """What has happened."""

    @property
    def ended(self) -> bool:
        """Whether the simulation is over."""


AnyBatch = TypeVar("AnyBatch", bound=Batch)
Ask = Callable[[Sequence[Decision], Collection[EventKind] | None, float], AnyBatch]
"""Sends decisions, `wake_on` and `elapsed_s`; returns the reply. See `Connection.decide`."""


def play(
    policy: Policy,
    platform: Platform,
    ask: Ask[AnyBatch],
    snapshot: tuple[float, Sequence[Event]] = (0.0, ()),
    seed: int = 0,
    wake_on_allocation: bool = True,
) -> AnyBatch:
    """Let a policy decide until the simulation is over, over any link; return the last reply.

    Args:
        policy: makes the decisions.
        platform: the cluster's description.
        ask: the link to the simulation.
        snapshot: simulated time, s, and events to start the view from.
        seed: seed of the policy's random numbers.
        wake_on_allocation: nodes that are not on may be given to jobs.

    Raises:
        PolicyError: the policy made an impossible decision; and what `ask` raises.
    """
    view = View(platform, seed, wake_on_allocation=wake_on_allocation)
    view.apply(*snapshot)
    if snapshot[1]:
        policy(view)
    while True:
        batch = ask(view.decisions, view.wake_on, view.elapsed_s)
        if batch.ended:
            return batch
        view.apply(batch.now_s, batch.events)
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
    description: Mapping[str, object] | None = None,
    patience: Patience | None = None,
    welcomed: Callable[[Welcome], None] = lambda _: None,
) -> Mapping[str, int | float]:
    """Connect to a server, schedule one simulation with a policy, and return its metrics.

    Args:
        policy: makes the decisions; new for each run, as policies keep state.
        address: ZeroMQ address of the server.
        name: name of the scheduler in logs and results; empty: that of the function.
        scenario: name of one of the server's scenarios; empty: its first.
        seed: seed of the simulation; None: the scenario's own.
        overrides: values of the scenario to change, by dotted path: `{"workload.load": 1.2}`.
        session: name of the session to return to, after its client died; empty: a new one.
        description: description of the policy, recorded in `run.json`, such as
            `catalogue.description.describe` returns; None: `{"name": name}`.
        patience: the timeouts; None: those of `Patience`.
        welcomed: called with the server's reply to the hello, which names the session.

    Raises:
        ServerGoneError: the server does not reply.
        ServerRefusedError: the server rejects the session, or the simulation is stuck.
        PolicyError: the policy made an impossible decision.

    Example:
        >>> metrics = run(make_policy("easy"), "tcp://127.0.0.1:28080")
    """
    with Connection(address, patience) as connection:
        name = name or getattr(policy, "__name__", "policy")
        welcome = connection.hello(
            client=name,
            scenario=scenario,
            seed=seed,
            overrides=overrides,
            session=session,
            policy={"name": name} if description is None else description,
        )
        welcomed(welcome)
        snapshot = (welcome.now_s, welcome.snapshot)
        wakes = welcome.options.wake_on_allocation
        try:
            end = play(policy, welcome.platform, connection.decide, snapshot, welcome.seed, wakes)
        except (ServerGoneError, ServerRefusedError, ServerFaultError):
            raise  # there is no session to leave
        except Exception:
            connection.bye()  # the policy failed: the server need not wait for it
            raise
        return end.metrics
