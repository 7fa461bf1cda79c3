"""A simulated network that loses, doubles, delays and reorders messages."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from support.fault.plan import HEALED_S, Plan, Window
from support.fault.simulator import Process, Simulator

LATE_S = 20.0
"""Largest delay of a message that is late, s."""


class SimulatedLink:
    """The client's end of a link, for one process; see `hpcosim_client.link.Link`.

    Args:
        network: the network.
        process: the process of the client.
        identity: address for replies.
    """

    problem = ""

    def __init__(self, network: Network, process: Process, identity: bytes) -> None:
        self._network = network
        self._process = process
        self._identity = identity
        self._inbox: deque[bytes] = deque()
        self._waits = False

    def send(self, data: bytes) -> None:
        """See `Link`."""
        self._process.check()
        self._network.to_server(self._identity, data)

    def receive(self, timeout_s: float) -> bytes | None:
        """See `Link`."""
        if not self._inbox:
            timer = self._network.simulator.after(timeout_s, self._wake)
            self._waits = True
            self._process.park()
            timer.cancel()
        return self._inbox.popleft() if self._inbox else None

    def clock_s(self) -> float:
        """See `Link`."""
        return self._network.client_clock_s(self._identity)

    def close(self) -> None:
        """See `Link`."""
        self._network.closed(self._identity)

    def deliver(self, data: bytes) -> None:
        """Receive a message; called by the network."""
        self._inbox.append(data)
        if self._waits:
            self._wake()

    def _wake(self) -> None:
        self._waits = False
        self._process.wake()


class Network:
    """The links between clients and the server.

    Args:
        simulator: the simulated time.
        plan: what goes wrong.
        chance: draws the fate of each message.
        arrive: takes a message to the server: address for replies, and content.

    Attributes:
        simulator: the simulated time.
        sent: number of messages.
        lost: number of messages that were lost.
        doubled: number of messages that arrived twice.
        late: number of messages that arrived late.
    """

    def __init__(
        self,
        simulator: Simulator,
        plan: Plan,
        chance: random.Random,
        arrive: Callable[[bytes, bytes], None],
    ) -> None:
        self.simulator = simulator
        self.sent = self.lost = self.doubled = self.late = 0
        self._plan = plan
        self._chance = chance
        self._arrive = arrive
        self._links: dict[bytes, SimulatedLink] = {}

    def connect(self, process: Process, identity: bytes) -> SimulatedLink:
        """Return the link of a new process of a client."""
        link = self._links[identity] = SimulatedLink(self, process, identity)
        return link

    def closed(self, identity: bytes) -> None:
        """Drop the messages to a client from now on."""
        self._links.pop(identity, None)

    def to_server(self, identity: bytes, data: bytes) -> None:
        """Send a message to the server."""
        for delay_s in self._delays_s(identity):
            self.simulator.after(delay_s, lambda: self._arrive(identity, data))

    def to_client(self, identity: bytes, data: bytes) -> None:
        """Send a message to a client."""
        for delay_s in self._delays_s(identity):
            self.simulator.after(delay_s, lambda: self._deliver(identity, data))

    def client_clock_s(self, identity: bytes) -> float:
        """Return the time on a client's clock, s."""
        now_s, client = self.simulator.now_s, client_of(identity)
        jumps = (jump for jump in self._plan.jumps if jump.client == client)
        return now_s + sum(jump.for_s for jump in jumps if jump.at_s < now_s)

    def _deliver(self, identity: bytes, data: bytes) -> None:
        if identity in self._links:
            self._links[identity].deliver(data)

    def _delays_s(self, identity: bytes) -> list[float]:
        """Return the delay of each copy of a message that arrives, s."""
        plan, chance, self.sent = self._plan, self._chance, self.sent + 1
        if self.simulator.now_s >= HEALED_S:
            return [plan.latency_s]
        if chance.random() < plan.lost or self._is_parted(identity):
            self.lost += 1
            return []
        copies = 1
        while chance.random() < plan.doubled and copies < 5:
            copies += 1
        self.doubled += copies > 1
        return [self._delay_s() for _ in range(copies)]

    def _delay_s(self) -> float:
        if self._chance.random() < self._plan.late:
            self.late += 1
            return self._chance.uniform(0.0, LATE_S)
        return self._chance.expovariate(1.0 / self._plan.latency_s)

    def _is_parted(self, identity: bytes) -> bool:
        client, now_s = client_of(identity), self.simulator.now_s
        return any(each.client == client and is_in(each, now_s) for each in self._plan.partitions)


def is_in(window: Window, now_s: float) -> bool:
    """Return whether a window is open."""
    return window.at_s <= now_s < window.at_s + window.for_s


def client_of(identity: bytes) -> int:
    """Return the number of the client in the address of one of its processes; -1: a stranger."""
    return int(identity.partition(b".")[0])
