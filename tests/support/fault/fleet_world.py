"""One simulated run with a front and workers, and what must hold after it."""

from __future__ import annotations

import errno
import os
import random
import socket
from collections.abc import Iterator
from itertools import combinations
from typing import Any
from unittest.mock import patch

from support.fault import invariants
from support.fault.fleet import Fleet
from support.fault.fleet_processes import FleetWorker
from support.fault.network import LATE_S, Network
from support.fault.plan import HEALED_S, FleetPlan, fleet_plan_of
from support.fault.scenes import library
from support.fault.wires import ClientWire
from support.fault.world import STRANGER, World

SHARED_NUMBERS = ("/memfd:hpcosim", "anon_inode:[eventfd]")
"""What holds numbers that processes share."""


class FleetWorld(World):
    """A run of clients against a front and workers.

    Args:
        seed: draws everything.
        plan: what goes wrong; None: what the seed draws.

    Attributes:
        leaked: number of descriptors that are open after the run, and were not before.
        unused: number of connections that processes kept after their clients had gone.
        unanswered: number of messages without a reply in connections that were never closed.
        broken: number of connections that a server closed.
        moved: number of connections that moved between processes.
        refused: number of those that the kernel refused.
    """

    def __init__(self, seed: int, plan: FleetPlan | None = None) -> None:
        super().__init__(seed, plan or fleet_plan_of(seed))
        self.network = _Wired(self)
        self.leaked = self.unused = self.moved = self.refused = 0
        self.unanswered = self.broken = 0
        self._wires: dict[bytes, ClientWire] = {}
        self._cuts = random.Random(f"wires {seed}")
        self._refusals = random.Random(f"refusals {seed}")

    def run(self) -> None:
        """See `World`."""
        library()
        before = _open_descriptors()
        try:
            with patch("socket.send_fds", self._send_fds):
                super().run()
                live = [wire for wire in self._wires.values() if not wire.is_over]
                self.unanswered = sum(wire.sent - wire.answered for wire in live)
                self.broken = sum(wire.generation for wire in live)
                for wire in self._wires.values():
                    wire.close()
                self.simulator.run(self.simulator.now_s + 5.0)
            self.unused = sum(len(process.peers) for process in self.host.processes.values())
        finally:
            self.host.close()
        self.leaked = _open_descriptors() - before

    def _new_host(self) -> Fleet:
        plan = self.plan
        assert isinstance(plan, FleetPlan)
        chance = random.Random(f"fleet {self.seed}")
        fleet = Fleet(self.simulator, plan, chance, library(), self.disk)
        fleet.after_step = self._read
        return fleet

    def to_server(self, identity: bytes, data: bytes) -> None:
        """Send a message; it is lost if its connection is closed meanwhile."""
        wire = self._wire(identity)
        generation = wire.generation
        for delay_s in self.network._delays_s(identity):
            self.simulator.after(delay_s, lambda: self._pass(identity, data, generation))

    def _pass(self, identity: bytes, data: bytes, generation: int) -> None:
        if self._wire(identity).generation == generation:
            self._write(identity, data)
            if self.simulator.now_s < HEALED_S and self._chance.random() < self.plan.strangers:
                self._write(STRANGER, self._damaged(data))

    def _write(self, identity: bytes, data: bytes) -> None:
        self._wire(identity).send(data)
        self.host.settle()

    def _wire(self, identity: bytes) -> ClientWire:
        if identity not in self._wires:
            plan: Any = self.plan
            self._wires[identity] = ClientWire(
                self.simulator,
                self.host.connect_client,
                self._cuts,
                plan.cuts,
                lambda reply: self._reply(identity, reply),
            )
        return self._wires[identity]

    def end(self, identity: bytes) -> None:
        """Close the connection of a client's process, at once or when its host notices."""
        if wire := self._wires.get(identity):
            self.simulator.after(self._cuts.choice((0.0, 0.1, LATE_S)), wire.close)

    def _read(self) -> None:
        for wire in list(self._wires.values()):
            wire.read()

    def _send_fds(self, end: socket.socket, data: Any, descriptors: Any, *flags: Any) -> int:
        """Refuse a descriptor now and then, as the kernel does when too many are on their way."""
        plan: Any = self.plan
        if descriptors and self._refusals.random() < plan.refused:
            self.refused += 1
            raise OSError(errno.ETOOMANYREFS, os.strerror(errno.ETOOMANYREFS))
        self.moved += bool(descriptors)
        return _real_send_fds(end, data, descriptors, *flags)


class _Wired(Network):
    """A network whose last part is a real connection."""

    def __init__(self, world: FleetWorld) -> None:
        chance = random.Random(f"network {world.seed}")
        super().__init__(world.simulator, world.plan, chance, lambda *_: None)
        self._world = world

    def to_server(self, identity: bytes, data: bytes) -> None:
        """See `Network`."""
        self._world.to_server(identity, data)

    def closed(self, identity: bytes) -> None:
        """See `Network`."""
        super().closed(identity)
        self._world.end(identity)


_real_send_fds = socket.send_fds


def violations(world: FleetWorld) -> list[str]:
    """Return what does not hold, one sentence each."""
    shared = (
        invariants._operators,
        invariants._sessions,
        invariants._replies,
        invariants._disk,
        invariants._journals,
        invariants._strangers,
        _processes,
    )
    return [what for check in shared for what in check(world)]


def _processes(world: FleetWorld) -> Iterator[str]:
    """The processes have forgotten everything, and closed what they no longer need."""
    fleet: Fleet = world.host
    yield from world.errors
    yield from sorted(set(fleet.excess))
    if world.leaked:
        yield f"{world.leaked} descriptors are left open"
    if world.unused:
        yield f"{world.unused} connections are left open"
    if not (any(fleet.kills.values()) or world.refused):
        if world.unanswered:
            yield f"{world.unanswered} messages have no reply"
        if world.broken:
            yield f"{world.broken} connections were closed"
    for process in fleet.processes.values():
        if isinstance(process, FleetWorker):
            service: Any = process.service
            left = {"sessions": len(service._open), "results": len(service._outcomes)}
            for what, count in left.items():
                if count:
                    yield f"worker {process.number} has {count} {what} left"
    named = [each for each in fleet.executed if each.name and each.nonce]  # strangers may have none
    for one, other in combinations(named, 2):
        overlap = one.opened_s < other.opened_s < one.closed_s
        if one.name != other.name and one.nonce == other.nonce and overlap:
            yield "a hello opened two sessions"


def _open_descriptors() -> int:
    """Return the number of open descriptors, less those of numbers that services share.

    These are open for as long as a service is remembered, and here ended ones are.
    """
    links = [_link_of(name) for name in os.listdir("/proc/self/fd")]
    return sum(bool(link) and not link.startswith(SHARED_NUMBERS) for link in links)


def _link_of(name: str) -> str:
    """Return what a descriptor of this process is; empty: it is closed."""
    try:
        return os.readlink(f"/proc/self/fd/{name}")
    except FileNotFoundError:
        return ""
