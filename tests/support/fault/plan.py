"""What goes wrong in a simulated run: drawn from its seed, a few kinds of faults in each."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

HEALED_S = 60.0
"""Time after which nothing goes wrong any more, s."""
RUNS_S = 30.0
"""Time in which processes fail, s."""

Journal = Literal["", "always", "interval", "never"]


@dataclass(frozen=True, slots=True)
class Window:
    """A time in which something is out of order.

    Attributes:
        at_s: its beginning, s.
        for_s: its length, s.
        client: the client that it is about; 0 where it is about the server.
    """

    at_s: float
    for_s: float
    client: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """The faults of a run.

    Attributes:
        clients: number of clients.
        latency_s: mean latency of a message, s.
        lost: probability that a message is lost.
        doubled: probability that a message arrives twice.
        late: probability that a message is late by up to `LATE_S`; so it is out of order.
        slow: probability that a request takes the server up to `SLOW_S`.
        paced: simulated seconds of the cluster per second of a session; 0: as fast as possible.
        strangers: damaged copies of messages that strangers send, per message.
        client_crashes: when clients are killed, and for how long they are away.
        forgetful: probability that a client which comes back has lost the name of its session.
        server_crashes: when the server is killed, and for how long it is away.
        server_terms: when the server gets SIGTERM, and for how long it is away.
        journal: `--sync` of the server's journals; "": it keeps none, so a crash loses sessions.
        power_fails: whether the whole machine of the server fails with it.
        server_stops: when the server does not run, such as with SIGSTOP.
        partitions: when messages between a client and the server are lost.
        disk_full: when nothing can be written.
        jumps: when the clock of a client jumps forward, and by how much.
    """

    clients: int = 1
    latency_s: float = 0.01
    lost: float = 0.0
    doubled: float = 0.0
    late: float = 0.0
    slow: float = 0.0
    paced: float = 0.0
    strangers: float = 0.0
    client_crashes: tuple[Window, ...] = ()
    forgetful: float = 0.0
    server_crashes: tuple[Window, ...] = ()
    server_terms: tuple[Window, ...] = ()
    journal: Journal = ""
    power_fails: bool = False
    server_stops: tuple[Window, ...] = ()
    partitions: tuple[Window, ...] = ()
    disk_full: tuple[Window, ...] = ()
    jumps: tuple[Window, ...] = ()

    def __str__(self) -> str:
        changed = (
            f"{field.name}={getattr(self, field.name)}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        )
        return ", ".join(changed)


KINDS = tuple(field.name for field in fields(Plan))[2:]
"""The kinds of faults."""


def plan_of(seed: int) -> Plan:
    """Return the faults of a seed: each kind with a probability that the seed draws, too."""
    chance = random.Random(seed)
    clients = chance.choice((1, 1, 2, 2, 3, 4))
    drawn = Plan(
        clients=clients,
        latency_s=chance.choice((0.002, 0.05, 0.3)),
        lost=chance.uniform(0.01, 0.4),
        doubled=chance.uniform(0.01, 0.5),
        late=chance.uniform(0.01, 0.2),
        slow=chance.uniform(0.01, 0.3),
        paced=chance.choice((50.0, 2000.0, 20_000.0)),
        strangers=chance.uniform(0.05, 1.0),
        client_crashes=_windows(chance, 6, 10.0, clients),
        forgetful=chance.random(),
        server_crashes=_windows(chance, 3, 5.0),
        server_terms=_windows(chance, 2, 5.0),
        journal=chance.choice(("always", "interval", "interval", "never")),
        power_fails=True,
        server_stops=_windows(chance, 3, chance.choice((3.0, 90.0))),
        partitions=_windows(chance, 3, chance.choice((5.0, 50.0)), clients),
        disk_full=_windows(chance, 3, 10.0),
        jumps=_windows(chance, 3, 20.0, clients),
    )
    share = chance.choice((0.2, 0.5))
    absent: dict[str, Any] = {kind: Plan.__dataclass_fields__[kind].default for kind in KINDS}
    absent.pop("journal")
    plan = replace(drawn, **{k: v for k, v in absent.items() if chance.random() >= share})
    return replace(plan, journal="") if chance.random() < 0.2 else plan


def _windows(
    chance: random.Random, most: int, longest_s: float, clients: int = 1
) -> tuple[Window, ...]:
    return tuple(
        Window(
            round(chance.uniform(0.0, chance.choice((1.0, RUNS_S))), 6),
            round(chance.uniform(0.0, longest_s), 6),
            chance.randrange(clients),
        )
        for _ in range(chance.randint(1, most))
    )
