"""The loop of a scheduler: hear what happened, decide, ask for what comes next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from hpcosim_client.connection import Connection, Patience
from hpcosim_client.errors import ServerFaultError, ServerGoneError, ServerRefusedError
from hpcosim_client.view import Policy, View
from hpcosim_protocol import Decision, Event, EventKind, Platform, Welcome


class Batch(Protocol):
    """What comes next: see `connection.Answer`."""

    @property
    def now_s(self) -> float:
        """Simulated time."""

    @property
    def events(self) -> Sequence[Event]:
        """What has happened."""

    @property
    def ended(self) -> bool:
        """Whether the simulation is over."""


Ask = Callable[[Sequence[Decision], Collection[EventKind] | None, float], Batch]
"""Takes decisions, `wake_on` and `elapsed_s`; returns what happens next."""


def play(
    policy: Policy,
    platform: Platform,
    ask: Ask,
    snapshot: tuple[float, Sequence[Event]] = (0.0, ()),
    seed: int = 0,
    wake_on_allocation: bool = True,
) -> None:
    """Let a policy decide until the simulation is over, over whatever link.

    Args:
        policy: what decides.
        platform: the cluster.
        ask: the link.
        snapshot: time and events to start the view from.
        seed: of what the policy draws.
        wake_on_allocation: nodes that are not on may be given to jobs.
    """
    view = View(platform, seed, wake_on_allocation=wake_on_allocation)
    view.apply(*snapshot)
    if snapshot[1]:
        policy(view)
    while True:
        batch = ask(view.decisions, view.wake_on, view.elapsed_s)
        if batch.ended:
            return
        view.apply(batch.now_s, batch.events)
        policy(view)


def run(
    policy: Policy,
    address: str = "tcp://127.0.0.1:28080",
    *,
    name: str = "",
    scenario: str = "",
    seed: int | None = None,
    session: str = "",
    patience: Patience | None = None,
    welcomed: Callable[[Welcome], None] = lambda _: None,
) -> Mapping[str, int | float]:
    """Connect to a server, schedule one simulation with a policy, and return its metrics.

    Args:
        policy: what decides.
        address: the server.
        name: the scheduler's name in logs and results; empty: the policy's own.
        scenario: which of the server's; empty: its first.
        seed: instead of the scenario's own.
        session: one to come back to, after this client died.
        patience: how long to wait for the server.
        welcomed: told what the server says to the hello, such as the session's name.

    Raises:
        ServerGoneError: the server does not answer.
        ServerRefusedError: it refuses, or the simulation is stuck.
        PolicyError: the policy asked for what can't be.
    """
    metrics: Mapping[str, int | float] = {}
    with Connection(address, patience) as connection:
        name = name or getattr(policy, "__name__", "policy")
        welcome = connection.hello(client=name, scenario=scenario, seed=seed, session=session)
        welcomed(welcome)

        def ask(
            decisions: Sequence[Decision], wake_on: Collection[EventKind] | None, elapsed_s: float
        ) -> Batch:
            nonlocal metrics
            answer = connection.decide(decisions, wake_on, elapsed_s)
            metrics = answer.metrics
            return answer

        try:
            snapshot = (welcome.now_s, welcome.snapshot)
            wakes = welcome.options.wake_on_allocation
            play(policy, welcome.platform, ask, snapshot, welcome.seed, wakes)
        except (ServerGoneError, ServerRefusedError, ServerFaultError):
            raise  # there is no session to leave
        except Exception:
            connection.bye()  # the policy failed: let nobody wait for it
            raise
    return metrics
