"""The front: gives each connection of a client to the worker of its session. It has no session."""

from __future__ import annotations

import dataclasses
import socket
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from hpcosim_protocol import Decisions, Error, GetStatus, Hello, ServerStatus, encode
from hpcosim_server import log
from hpcosim_server.service import control as messages
from hpcosim_server.service.admission import decode_request, error_reply, too_large, too_many
from hpcosim_server.service.sessions import destination, unknown
from hpcosim_server.service.socket_loop import ServeOptions
from hpcosim_server.service.vitals import later, merged, server_name, without_sessions
from hpcosim_server.wire.log_rate import LogRate
from hpcosim_server.wire.peer import MovedConnection
from hpcosim_server.wire.peers import Peers
from hpcosim_server.wire.post import Packet, Poller, Post

if TYPE_CHECKING:
    from hpcosim_server.wire.curve import CurvePeers


TICK_S = 0.1
STATUS_INTERVAL_S = 1.0
SPARE_S = 5.0
"""Longest wait of a hello for a new worker, s."""
WANT_AGAIN_S = 2.0
MOST_DECODED_BYTES = 2**18
"""Largest message that the front decodes. A worker decodes larger ones, also invalid ones."""
SHUTDOWN_S = 1.0
"""Duration of `shutting_down` replies after the end of the last worker, s."""
FLUSH_S = 2.0
MOST_WAITING = 1024
MOST_GIVEN_BYTES = 64 * 2**20
"""Requests on their way to a worker that is busy; one may be larger."""

MOST_NONCES = 4096
SILENT_S = 3.0
"""Time without a status after which a worker computes for long, or hangs, s."""
IDLE_WORKER_S = 60.0
"""Time after which a worker without sessions ends, if there is another one, s."""

SOCKETS = 3
"""Descriptors of a client: one of libzmq, and until a worker has one, both ends of a pair."""
TURN = 64  # messages of each direction in one turn
MOST_REPLY_BYTES = 2**31
NEVER_S = float("inf")


class Front:
    """Gives connections to workers, and takes back those whose next request is not for them.

    Args:
        clients: the connections of clients that no worker has.
        workers: the socket at which workers connect, non-blocking.
        control: connection to the supervisor.

    Attributes:
        gate: the clients with keys; None: clients have none.
    """

    def __init__(
        self,
        poller: Poller,
        clients: Peers,
        workers: socket.socket,
        control: messages.Control,
        options: ServeOptions,
        expected: Iterable[int],
        started_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._poller = poller
        self._clients = clients
        self._listener = workers
        self._control = control
        self._limits = options.limits
        self._most_workers = options.workers
        self._posts = set[Post]()
        self._routes = Routes(expected)
        self._started_s = started_s
        self.gate: Gate | None = None
        self._clock = clock
        self._refused = 0
        self._waiting: OrderedDict[bytes, WaitingRequest] = OrderedDict()
        self._want_s = self._tidy_s = self._told_s = self._until_s = 0.0
        self._ended = messages.Ended(0, {})
        self._stopping: messages.Stopping | None = None
        self._had_sessions = False
        poller.watch(control.fileno(), self._hear_supervisor)
        poller.watch(workers.fileno(), self._accept_worker)

    @property
    def is_over(self) -> bool:
        """Whether the supervisor has ended the front, or is gone and all workers too."""
        if self._control.is_closed:
            return not len(self._routes)
        stopping = self._stopping
        return stopping is not None and stopping.is_over and self._clock() >= self._until_s

    @property
    def misses_workers(self) -> bool:
        """Whether workers that are there have not connected yet."""
        return bool(self._routes.missing)

    @property
    def _hellos(self) -> int:
        """Number of hellos that wait for a worker."""
        return sum(not waiting.worker for waiting in self._waiting.values())

    def turn(self, timeout_s: float = TICK_S) -> None:
        """Wait for a message of a client or a worker, and handle what has come."""
        if self.gate is not None and self.gate.pump():
            timeout_s = 0.0
        if found := self._clients.receive(timeout_s):
            address, message = found
            if message.size > self._limits.message_bytes:
                reply = too_large(message.size, self._limits.message_bytes)
                self._reply(address, message.frames, reply)
            else:
                self._decide(address, message.frames)
        for address in self._clients.closed:
            self._waiting.pop(address, None)
        self._clients.closed.clear()
        if self._clock() >= self._tidy_s:
            self._tidy_s = self._clock() + TICK_S
            for route in self._routes.idle(self._clock()):
                route.is_leaving = True
                route.post.send(messages.packed(messages.Dismissal()))
            if self._clock() >= self._told_s + STATUS_INTERVAL_S:
                self._told_s = self._clock()
                self._control.send(messages.Summary(replace(self._status(), sessions=[])))
            self._place_waiting()
        elif self._routes.changed:
            self._place_waiting()

    def close(self) -> None:
        """Send the last replies, and close all connections."""
        self._clients.flush(FLUSH_S)
        if self.gate is not None:
            self.gate.close(FLUSH_S)
        for post in self._posts:
            post.close()
        self._clients.close()
        self._poller.close()

    def _accept_worker(self, _: int) -> None:
        try:
            end, _ = self._listener.accept()
        except OSError:
            return
        self._posts.add(Post(end, self._poller, self._hear_worker))

    def _hear_worker(self, post: Post) -> None:
        packet = post.receive()
        if packet is not None:
            self._from_worker(post, packet)
        elif post.is_closed:
            self._routes.lose(post)
            self._posts.discard(post)
            post.close()

    def _hear_supervisor(self, _: int) -> None:
        order = self._control.order()
        if isinstance(order, messages.Workers):
            self._routes.expected = set(order.numbers)
            self._want_s = 0.0
        elif isinstance(order, messages.Ended):
            self._ended = order
        elif isinstance(order, messages.Stopping):
            self._had_sessions |= bool(self._routes.sessions)
            if order.is_over and self._had_sessions:
                self._until_s = self._clock() + SHUTDOWN_S
            self._stopping = order
        elif self._control.is_closed:
            self._poller.forget(self._control.fileno())  # it would be readable for ever
        self._routes.changed = True

    def _from_worker(self, post: Post, packet: Packet) -> None:
        if not packet.data:
            return
        message = messages.to_front.decode(packet.data)
        if isinstance(message, messages.WorkerReport):
            self._routes.note(message, post, self._clock())
        elif isinstance(message, messages.StatusOf):
            if route := self._routes.at(post):
                route.status, route.status_s = message.status, self._clock()
        elif packet.connection is not None:
            if not (is_waiting := bool(message.request)):
                self._routes.lose(post)  # the worker ends and gives all its connections back
            moved = message.moved(packet.connection)
            if self._clients.adopt(moved, is_waiting=is_waiting) and is_waiting:
                self._decide(message.address, message.request)

    def _decide(self, address: bytes, frames: list[bytes]) -> None:
        """Give a request to its worker, or reply."""
        number = destination(frames[-1])
        if number and self._pass_on(number, address, frames):
            return
        if len(frames[-1]) > MOST_DECODED_BYTES:
            self._decide_undecoded(number, address, frames)
            return
        request = decode_request(frames[-1], self._limits.message_bytes)
        if isinstance(request, Error):
            self._reply(address, frames, encode(request))
        elif isinstance(request, GetStatus):
            self._reply(address, frames, encode(self._status()))
        elif isinstance(request, Hello) and not request.session:
            self._hello(request, address, frames)
        else:
            seq = request.seq if isinstance(request, Decisions) else 0
            what = unknown(request.session)
            self._reply(address, frames, error_reply("unknown_session", what, seq=seq))

    def _decide_undecoded(self, number: int | None, address: bytes, frames: list[bytes]) -> None:
        """Give a large request to any worker, for an error; or reply if it has no session."""
        if number != 0:
            if route := self._routes.fewest(self._clock()):
                self._hand_over(route, address, frames)
                return  # without a worker, the client repeats it
        else:
            what = (
                f"the message has {len(frames[-1])} bytes; expected at most {MOST_DECODED_BYTES} "
                "outside a session"
            )
            self._reply(address, frames, error_reply("message_too_large", what))

    def _hello(self, hello: Hello, address: bytes, frames: list[bytes]) -> None:
        number = self._routes.of_nonce(hello.nonce)
        if number and self._pass_on(number, address, frames):
            return
        if self._stopping:
            self._refuse(address, frames, self._stopping)
        elif self._routes.sessions + self._hellos >= self._limits.sessions:
            self._refused += 1
            what = too_many(self._limits.sessions)
            self._reply(address, frames, error_reply("too_many_sessions", what))
        else:
            self._wait(address, WaitingRequest(frames, 0, hello.nonce, self._clock()))

    def _pass_on(self, number: int, address: bytes, frames: list[bytes]) -> bool:
        """Give a request to the worker of its session; return whether nothing is left to do."""
        if route := self._routes.by_number.get(number):
            self._hand_over(route, address, frames)
            return True
        if self._stopping is not None:
            self._refuse(address, frames, self._stopping)
            return True
        if number not in self._routes.expected:
            return False
        self._wait(address, WaitingRequest(frames, number, "", self._clock()))
        return True

    def _hand_over(self, route: WorkerRoute, address: bytes, frames: list[bytes]) -> bool:
        """Give a connection to a worker; return whether it is on its way."""
        moved = self._clients.release(address)
        if moved is None:
            return False
        data = messages.packed(messages.Handover.of(moved, frames))
        if route.given and route.given_bytes + len(data) > MOST_GIVEN_BYTES:
            moved.connection.close()  # the client comes again
            return False
        if not route.post.send(data, moved.connection):
            return False
        route.given.append(PendingHandover(route.post.sent, len(data)))
        return True

    def _wait(self, address: bytes, waiting: WaitingRequest) -> None:
        """Let a request wait for a worker. One too many is dropped: the client repeats it."""
        if len(self._waiting) < MOST_WAITING and self._clients.park(address):
            self._waiting[address] = waiting
            self._routes.changed = True

    def _place_waiting(self) -> None:
        """Give waiting requests to workers; ask for workers for the others."""
        self._routes.changed = False
        now_s = self._clock()
        free = self._routes.free()
        may_grow = len(self._routes.expected) < self._most_workers or bool(self._routes.missing)
        for address, waiting in list(self._waiting.items()):
            if waiting.worker or self._stopping or self._routes.of_nonce(waiting.nonce):
                self._decide_again(address, waiting)
                continue
            is_late = now_s - waiting.since_s > SPARE_S
            route = free.pop(0) if free else None
            if route is None and (is_late or not may_grow):
                route = self._routes.fewest(now_s)
            if route is None:
                continue
            del self._waiting[address]
            if self._hand_over(route, address, waiting.frames):
                self._routes.give(route, waiting.nonce, now_s)
        # So many workers that one without sessions is left over.
        wanted = min(self._most_workers, len(self._routes) + self._hellos + 1 - len(free))
        if wanted > len(self._routes.expected) and now_s >= self._want_s and not self._stopping:
            self._want_s = now_s + WANT_AGAIN_S
            self._control.send(messages.WorkersWanted(wanted))

    def _decide_again(self, address: bytes, waiting: WaitingRequest) -> None:
        """Decide about a waiting request, unless it still has to wait for its worker."""
        is_away = self._routes.by_number.get(waiting.worker) is None
        if is_away and waiting.worker in self._routes.expected and not self._stopping:
            return
        del self._waiting[address]
        self._clients.unpark(address)
        self._decide(address, waiting.frames)

    def _status(self) -> ServerStatus:
        now_s = self._clock()
        status = self._routes.status(now_s)
        status.state = "draining" if self._stopping else "serving"
        status.uptime_s = now_s - self._started_s
        status.workers = len(self._routes)
        status.max_sessions = self._limits.sessions
        status.sessions_refused += self._refused
        status.messages_lost += self._clients.lost + (self.gate.lost if self.gate else 0)
        status.restarts = self._ended.restarts
        status.failures = dict(Counter(status.failures) + Counter(self._ended.failures))
        return status

    def _refuse(self, address: bytes, frames: list[bytes], stopping: messages.Stopping) -> None:
        self._reply(address, frames, error_reply("shutting_down", stopping.reason, fatal=True))

    def _reply(self, address: bytes, frames: list[bytes], reply: bytes) -> None:
        self._clients.send(address, [*frames[:-1], reply])


class PendingHandover(NamedTuple):
    """A connection on its way to a worker.

    Attributes:
        is_hello: whether its request opens a session.
    """

    number: int
    size: int
    is_hello: bool = False


@dataclass(slots=True)
class WorkerRoute:
    """A worker that is connected to the front.

    Attributes:
        given: the connections that it has not said to have handled.
    """

    number: int
    post: Post
    load: messages.Load
    used_s: float
    given: deque[PendingHandover] = field(default_factory=deque)
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

    @property
    def given_bytes(self) -> int:
        """Size of what it has got and not handled."""
        return sum(given.size for given in self.given)

    @property
    def _opening(self) -> int:
        """Number of hellos that it has got and not answered."""
        return sum(given.is_hello for given in self.given)


class WaitingRequest(NamedTuple):
    """A request that waits for a worker."""

    frames: list[bytes]
    worker: int
    nonce: str
    since_s: float


class Routes:
    """The workers, and the hellos that they have got.

    Args:
        expected: numbers of the workers that are there or are about to be.
    """

    def __init__(self, expected: Iterable[int] = ()) -> None:
        self.expected = set(expected)
        self.changed = True
        self._gone: ServerStatus | None = None
        self.by_number: dict[int, WorkerRoute] = {}
        self._by_post: dict[Post, WorkerRoute] = {}
        self._by_nonce: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self.by_number)

    @property
    def sessions(self) -> int:
        """Number of sessions that are open or about to be."""
        return sum(route.sessions for route in self.by_number.values())

    @property
    def missing(self) -> set[int]:
        """The workers that are expected and not connected."""
        return self.expected - self.by_number.keys()

    def at(self, post: Post) -> WorkerRoute | None:
        """Return the worker with a connection."""
        return self._by_post.get(post)

    def note(self, told: messages.WorkerReport, post: Post, now_s: float) -> WorkerRoute:
        """Note what a worker tells, and return its route."""
        load = told.load
        route = self.by_number.get(load.worker)
        if route is None or route.post is not post:
            if route is not None:
                self.lose(route.post)
            route = WorkerRoute(load.worker, post, load, now_s)
            self.by_number[load.worker] = self._by_post[post] = route
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
            del self.by_number[route.number]
            self.changed = True
            if route.status is not None:
                status = without_sessions(route.status)
                self._gone = merged([status, *([self._gone] if self._gone else [])])
        return route

    def status(self, now_s: float) -> ServerStatus:
        """Return what the workers do, and did."""
        told = [
            later(each.status, now_s - each.status_s)
            for _, each in sorted(self.by_number.items())
            if each.status is not None
        ]
        gone = [self._gone] if self._gone else []
        return merged([*told, *gone] or [ServerStatus(server=server_name())])

    def of_nonce(self, nonce: str) -> int:
        """Return the number of the worker that got a hello with a nonce; 0: none did."""
        return self._by_nonce.get(nonce, 0)

    def free(self) -> list[WorkerRoute]:
        """Return the workers without sessions, by number."""
        free = [r for r in self.by_number.values() if not r.busy and not r.is_leaving]
        return sorted(free, key=lambda route: route.number)

    def fewest(self, now_s: float) -> WorkerRoute | None:
        """Return the worker with the fewest sessions; None: there is none.

        Workers that have told nothing for `SILENT_S` come last.
        """
        routes = [route for route in self.by_number.values() if not route.is_leaving]
        return min(
            routes,
            key=lambda route: (
                now_s - max(route.used_s, route.status_s) > SILENT_S,
                route.busy,
                route.number,
            ),
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


class Gate:
    """Copies messages between clients with keys and a local connection for each of them.

    A socket of libzmq cannot move to another process. So each client has a pair of sockets: one end
    stays here, the other is a connection without keys, which moves as any other.
    """

    def __init__(self, curve: CurvePeers, inside: Peers, poller: Poller) -> None:
        self._curve = curve
        self._inside = inside
        self._poller = poller
        self._most_bytes = inside.bounds.message_bytes
        bounds = dataclasses.replace(  # an end lives as long as the connection of libzmq
            inside.bounds,
            message_bytes=MOST_REPLY_BYTES,
            idle_s=NEVER_S,
            waiting_s=NEVER_S,
            settled_s=NEVER_S,
        )
        self._ends = Peers(None, bounds, poller)
        self._log_rate = LogRate(per_s=1.0, burst=10)
        poller.watch(curve.fileno(), lambda _: None)  # `pump` reads it

    @property
    def lost(self) -> int:
        """Number of messages that were lost because their peer was gone or did not read."""
        return self._curve.lost + self._ends.lost

    def pump(self) -> bool:
        """Copy some messages in each direction; return whether there are more."""
        for _ in range(TURN):
            if not self._curve.has_message:
                break
            if found := self._curve.receive(0.0):
                address, message = found
                self._drop_closed()  # of which one may have had the same address
                self._copy_in(address, message.frames, message.size)
        for _ in range(TURN):
            found = self._ends.receive(0.0)
            if found is None:
                break
            address, message = found
            self._curve.send(address, message.frames)
        self._drop_closed()
        self._ends.closed.clear()
        return found is not None or self._curve.has_message

    def close(self, timeout_s: float) -> None:
        """Copy the last replies, for at most a time, and close all connections."""
        while found := self._ends.receive(0.0):
            self._curve.send(found[0], found[1].frames)
        self._curve.flush(timeout_s)
        self._ends.close()
        self._curve.close()

    def _copy_in(self, address: bytes, frames: list[bytes], size: int) -> None:
        if size > self._most_bytes:
            self._curve.send(address, [*frames[:-1], too_large(size, self._most_bytes)])
        elif not self._ends.has(address) and not self._connect(address):
            if self._log_rate.admits():
                log.warning("too_many_clients", more=self._log_rate.take_left_out())
        else:
            self._ends.send(address, frames)

    def _drop_closed(self) -> None:
        for address in self._curve.closed:
            self._ends.drop(address)
        self._curve.closed.clear()

    def _connect(self, address: bytes) -> bool:
        """Make the connection of a client; return whether there is room for it."""
        try:
            here, there = socket.socketpair()
        except OSError:  # no descriptors are left
            return False
        if not self._ends.adopt(MovedConnection(here, address)):
            there.close()
            return False
        return self._inside.adopt(MovedConnection(there, address))
