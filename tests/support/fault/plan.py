"""What goes wrong in a simulated run: drawn from its seed, a few kinds of faults in each."""

from __future__ import annotations

import math
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
        journal: `journal.sync` of the server; "": it keeps no journals, so a crash loses sessions.
        power_fails: whether the whole machine of the server fails with it.
        server_stops: when the server does not run, such as with SIGSTOP.
        partitions: when messages between a client and the server are lost.
        disk_full: when nothing can be written.
        jumps: when the clock of a client jumps forward, and by how much.
        max_sessions: `limits.max_sessions`; clients beyond it wait.
        total_jobs: `limits.max_total_jobs`; at least the jobs of each scenario.
        events_per_s: `limits.max_events_per_s` of a session.
        low_memory: when the machine has no memory for a new session.
        no_memory: probability that a request gets no memory, which ends its session.
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
    max_sessions: int = 64
    total_jobs: int = 8_000_000
    events_per_s: float = math.inf
    low_memory: tuple[Window, ...] = ()
    no_memory: float = 0.0

    def __str__(self) -> str:
        changed = (
            f"{field.name}={getattr(self, field.name)}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        )
        return ", ".join(changed)


@dataclass(frozen=True, slots=True)
class FleetPlan(Plan):
    """The faults of a run with a front and workers. `server_crashes` kill one of them.

    Attributes:
        kills: probability that a process is killed before a step, or between two parts of one.
        cuts: probability that a message of a client arrives in two parts.
        refused: probability that the kernel refuses a descriptor for want of room.
    """

    kills: float = 0.0
    cuts: float = 0.0
    refused: float = 0.0


KINDS = tuple(field.name for field in fields(Plan))[2:]
"""The kinds of faults."""
LIMITS = KINDS[KINDS.index("max_sessions") :]
"""Those that are limits of the server and its machine."""
OF_FLEETS = (
    "latency_s",
    "lost",
    "doubled",
    "late",
    "slow",
    "strangers",
    "jumps",
    "client_crashes",
    "forgetful",
    "partitions",
)
"""Those that runs with a front and workers share with others."""
MOST_JOBS = 20
"""Most jobs of a scenario."""


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
    for kind in ("journal", *LIMITS):
        del absent[kind]
    plan = replace(drawn, **{k: v for k, v in absent.items() if chance.random() >= share})
    plan = replace(plan, journal="") if chance.random() < 0.2 else plan
    return replace(plan, **_limits(random.Random(f"limits {seed}")))


def _limits(chance: random.Random) -> dict[str, Any]:
    """Return what the server and its machine have too little of."""
    drawn: dict[str, Any] = {
        "max_sessions": chance.choice((1, 2, 3)),
        "total_jobs": chance.choice((MOST_JOBS, 30, 45)),
        "events_per_s": chance.choice((5.0, 50.0)),
        "low_memory": _windows(chance, 3, 20.0),
        "no_memory": chance.uniform(0.005, 0.05),
    }
    share = chance.choice((0.0, 0.4, 0.8))
    return {kind: value for kind, value in drawn.items() if chance.random() < share}


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


def fleet_plan_of(seed: int) -> FleetPlan:
    """Return the faults of a run with a front and workers: those of the seed, and more."""
    base, chance = plan_of(seed), random.Random(f"fleet {seed}")
    kept = {kind: getattr(base, kind) for kind in OF_FLEETS}
    clients = chance.choice((1, 2, 3, 4, 6))
    return FleetPlan(
        clients=clients,
        **kept,
        journal=chance.choice(("always", "interval", "")),
        server_crashes=_windows(chance, 8, 2.0, 5) if chance.random() < 0.7 else (),
        kills=chance.choice((0.0, 0.0, 0.002, 0.02)),
        cuts=chance.choice((0.0, 0.3, 0.8)),
        refused=chance.choice((0.0, 0.0, 0.05)),
        max_sessions=chance.choice((64, 64, clients)),
    )
