"""Which worker gets a request: the state of a front, which its workers tell every new front."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from hpcosim_protocol import ServerStatus
from hpcosim_server.service.control import Load
from hpcosim_server.service.sessions import FIRST_WORKER, worker_of
from hpcosim_server.service.vitals import later, merged, server_name, without_sessions

MOST_NONCES = 4096
IDLE_WORKER_S = 60.0
"""Time after which a worker without sessions ends, if there is another one, s."""


@dataclass(slots=True)
class WorkerRoute:
    """A worker that is connected to the front.

    Attributes:
        number: its number.
        address: address of its connection.
        load: its sessions, as it told last.
        opening: addresses of the clients whose hello it is answering.
        used_s: time of its last hello or change of its load, s.
        is_leaving: whether it was asked to end.
        status: its last status; None: it has sent none yet.
        status_s: time of its status, s.
    """

    number: int
    address: bytes
    load: Load
    used_s: float
    opening: set[bytes] = field(default_factory=set)
    is_leaving: bool = False
    status: ServerStatus | None = None
    status_s: float = 0.0

    @property
    def sessions(self) -> int:
        """Number of sessions that are open or about to be."""
        return self.load.active + len(self.opening)

    @property
    def busy(self) -> int:
        """Number of these, and of those whose results are not written yet."""
        return self.load.opened - self.load.over + len(self.opening)


class Routes:
    """The workers, and the hellos that they have got.

    Args:
        expected: numbers of the workers that are there or are about to be.

    Attributes:
        changed: whether there may be more or fewer workers without sessions than before.
    """

    def __init__(self, expected: Iterable[int] = ()) -> None:
        self.expected = set(expected)
        self.changed = True
        self._gone: ServerStatus | None = None
        self._by_number: dict[int, WorkerRoute] = {}
        self._by_address: dict[bytes, WorkerRoute] = {}
        self._by_nonce: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_number)

    @property
    def sessions(self) -> int:
        """Number of sessions that are open or about to be."""
        return sum(route.sessions for route in self._by_number.values())

    @property
    def missing(self) -> set[int]:
        """The workers that are expected and not connected."""
        return self.expected - self._by_number.keys()

    def at(self, address: bytes) -> WorkerRoute | None:
        """Return the worker with a connection."""
        return self._by_address.get(address)

    def note(self, load: Load, address: bytes, now_s: float) -> WorkerRoute:
        """Note the load of a worker, and return its route."""
        route = self._by_number.get(load.worker)
        if route is None or route.address != address:
            if route is not None:
                self.lose(route.address)
            route = WorkerRoute(load.worker, address, load, now_s)
            self._by_number[load.worker] = self._by_address[address] = route
            self.expected.add(load.worker)
        route.load, route.used_s = load, now_s
        self.changed = True
        if load.active:
            route.is_leaving = False
        for nonce in load.nonces:
            self._remember(nonce, route)
        return route

    def lose(self, address: bytes) -> WorkerRoute | None:
        """Forget the worker of a connection that is closed, and return it."""
        route = self._by_address.pop(address, None)
        if route is not None:
            del self._by_number[route.number]
            self.changed = True
            if route.status is not None:
                status = without_sessions(route.status)
                self._gone = merged([status, *([self._gone] if self._gone else [])])
        return route

    def status(self, now_s: float) -> ServerStatus:
        """Return what the workers do, and did."""
        told = [
            later(each.status, now_s - each.status_s)
            for _, each in sorted(self._by_number.items())
            if each.status is not None
        ]
        gone = [self._gone] if self._gone else []
        return merged([*told, *gone] or [ServerStatus(server=server_name())])

    def of_session(self, name: str) -> tuple[WorkerRoute | None, bool]:
        """Return the worker of a session, and whether it will be there if it is not now."""
        number = worker_of(name) or FIRST_WORKER
        return self._by_number.get(number), number in self.expected

    def of_nonce(self, nonce: str) -> tuple[WorkerRoute | None, bool]:
        """Return the worker that got a hello with a nonce, as `of_session` does."""
        number = self._by_nonce.get(nonce) if nonce else None
        if number is None:
            return None, False
        return self._by_number.get(number), number in self.expected

    def free(self) -> list[WorkerRoute]:
        """Return the workers without sessions, by number."""
        free = [r for r in self._by_number.values() if not r.busy and not r.is_leaving]
        return sorted(free, key=lambda route: route.number)

    def fewest(self) -> WorkerRoute | None:
        """Return the worker with the fewest sessions; None: there is none."""
        routes = [route for route in self._by_number.values() if not route.is_leaving]
        return min(routes, key=lambda route: (route.busy, route.number), default=None)

    def give(self, route: WorkerRoute, nonce: str, client: bytes, now_s: float) -> None:
        """Note that a worker gets a hello."""
        route.opening.add(client)
        route.used_s = now_s
        if nonce:
            self._remember(nonce, route)

    def idle(self, now_s: float) -> list[WorkerRoute]:
        """Return the workers that may end: without sessions for long, and one stays."""
        free = self.free()
        return [route for route in free[1:] if now_s - route.used_s > IDLE_WORKER_S]

    def _remember(self, nonce: str, route: WorkerRoute) -> None:
        self._by_nonce[nonce] = route.number
        self._by_nonce.move_to_end(nonce)
        if len(self._by_nonce) > MOST_NONCES:
            self._by_nonce.popitem(last=False)
