"""Which worker gets a request: the state of a front, which its workers tell every new front."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from hpcosim_protocol import ServerStatus
from hpcosim_server.service.control import Load
from hpcosim_server.service.handover import Told
from hpcosim_server.service.vitals import later, merged, server_name, without_sessions
from hpcosim_server.wire.post import Post

MOST_NONCES = 4096
SILENT_S = 3.0
"""Time without a status after which a worker computes for long, or hangs, s."""
IDLE_WORKER_S = 60.0
"""Time after which a worker without sessions ends, if there is another one, s."""


class Given(NamedTuple):
    """A connection on its way to a worker.

    Attributes:
        number: number of its packet.
        size: size of the packet, bytes.
        is_hello: whether its request opens a session.
    """

    number: int
    size: int
    is_hello: bool = False


@dataclass(slots=True)
class WorkerRoute:
    """A worker that is connected to the front.

    Attributes:
        number: its number.
        post: connection to it.
        load: its sessions, as it told last.
        given: the connections that it has not said to have handled.
        used_s: time of its last hello or change of its load, s.
        is_leaving: whether it was asked to end.
        status: its last status; None: it has sent none yet.
        status_s: time of its status, s.
    """

    number: int
    post: Post
    load: Load
    used_s: float
    given: deque[Given] = field(default_factory=deque)
    is_leaving: bool = False
    status: ServerStatus | None = None
    status_s: float = 0.0

    @property
    def sessions(self) -> int:
        """Number of sessions that are open or about to be."""
        return self.load.active + self._opening

    @property
    def busy(self) -> int:
        """Number of these, and of those whose results are not written yet."""
        return self.load.opened - self.load.over + self._opening

    def is_silent(self, now_s: float) -> bool:
        """Return whether it has told nothing for `SILENT_S`."""
        return now_s - max(self.used_s, self.status_s) > SILENT_S

    @property
    def given_bytes(self) -> int:
        """Size of what it has got and not handled."""
        return sum(given.size for given in self.given)

    @property
    def _opening(self) -> int:
        """Number of hellos that it has got and not answered."""
        return sum(given.is_hello for given in self.given)


class Waiting(NamedTuple):
    """A request that waits for a worker.

    Attributes:
        frames: the request.
        worker: number of the worker of its session; 0: any worker without sessions.
        nonce: the nonce of a hello.
        since_s: time of its arrival, s.
    """

    frames: list[bytes]
    worker: int
    nonce: str
    since_s: float


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
        self._by_post: dict[Post, WorkerRoute] = {}
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

    def at(self, post: Post) -> WorkerRoute | None:
        """Return the worker with a connection."""
        return self._by_post.get(post)

    def note(self, told: Told, post: Post, now_s: float) -> WorkerRoute:
        """Note what a worker tells, and return its route."""
        load = told.load
        route = self._by_number.get(load.worker)
        if route is None or route.post is not post:
            if route is not None:
                self.lose(route.post)
            route = WorkerRoute(load.worker, post, load, now_s)
            self._by_number[load.worker] = self._by_post[post] = route
            self.expected.add(load.worker)
        while route.given and route.given[0].number <= told.heard:
            route.given.popleft()
        route.load, route.used_s = load, now_s
        self.changed = True
        if load.active:
            route.is_leaving = False
        for nonce in told.nonces:
            self._remember(nonce, route)
        return route

    def lose(self, post: Post) -> WorkerRoute | None:
        """Forget the worker of a connection that is closed, and return it."""
        route = self._by_post.pop(post, None)
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

    def of_nonce(self, nonce: str) -> int:
        """Return the number of the worker that got a hello with a nonce; 0: none did."""
        return self._by_nonce.get(nonce, 0)

    def of_number(self, number: int) -> WorkerRoute | None:
        """Return the worker with a number; None: it is not there."""
        return self._by_number.get(number)

    def free(self) -> list[WorkerRoute]:
        """Return the workers without sessions, by number."""
        free = [r for r in self._by_number.values() if not r.busy and not r.is_leaving]
        return sorted(free, key=lambda route: route.number)

    def fewest(self, now_s: float) -> WorkerRoute | None:
        """Return the worker with the fewest sessions; None: there is none.

        Workers that have told nothing for `SILENT_S` come last.
        """
        routes = [route for route in self._by_number.values() if not route.is_leaving]
        return min(
            routes,
            key=lambda route: (route.is_silent(now_s), route.busy, route.number),
            default=None,
        )

    def give(self, route: WorkerRoute, nonce: str, now_s: float) -> None:
        """Note that the connection that a worker got last has a hello."""
        route.given[-1] = route.given[-1]._replace(is_hello=True)
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
