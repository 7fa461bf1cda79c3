"""The front: passes requests of clients to workers, and their replies back. It has no session."""

from __future__ import annotations

import select
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import structlog

from hpcosim_protocol import (
    Decisions,
    Error,
    GetStatus,
    Hello,
    ServerStatus,
    decode_server_message,
    encode,
)
from hpcosim_protocol.zmtp import Message
from hpcosim_server.service.closed import UNKNOWN_SESSION
from hpcosim_server.service.control import Control, Load, Stopping, Want, Workers
from hpcosim_server.service.keys import Clients
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.requests import decode_request, error_reply, too_large
from hpcosim_server.service.routes import Routes, WorkerRoute
from hpcosim_server.service.worker import LEAVE, STATUS, TO_FRONT
from hpcosim_server.wire.peers import Peers

log = structlog.get_logger()

TICK_S = 0.1
TURN = 64
"""Messages of each side in one turn."""
GATHER_S = 1.0
"""Time in which the workers find a new front, before it hears clients, s."""
SPARE_S = 5.0
"""Longest wait of a hello for a new worker, s."""
WANT_AGAIN_S = 2.0
SHUTDOWN_S = 1.0
"""Duration of `shutting_down` replies after a stop, s."""
FLUSH_S = 2.0
MOST_WAITING = 1024
"""Hellos that wait for a worker."""


class _Address(msgspec.Struct):
    """What the front reads of each message."""

    type: str = ""
    session: str = ""


class _Waiting(NamedTuple):
    hello: Hello
    frames: list[bytes]
    since_s: float


_addresses = msgspec.msgpack.Decoder(_Address)


class Front:
    """Passes messages between clients and workers.

    Args:
        clients: the connections of clients.
        workers: the connections of workers.
        control: connection to the supervisor.
        limits: limits of requests and sessions.
        most_workers: largest number of workers.
        expected: numbers of the workers that are there or are about to be.
        started_s: time of the start of the server, s.
    """

    def __init__(
        self,
        clients: Clients,
        workers: Peers,
        control: Control,
        limits: Limits,
        most_workers: int,
        expected: Iterable[int],
        started_s: float,
    ) -> None:
        self._started_s = started_s
        self._refused = 0
        self._clients = clients
        self._workers = workers
        self._control = control
        self._limits = limits
        self._most_workers = most_workers
        self._routes = Routes(expected)
        self._waiting: OrderedDict[bytes, _Waiting] = OrderedDict()
        self._want_s = self._tidy_s = 0.0
        self._stopping: Stopping | None = None
        self._until_s = 0.0

    def run(self) -> None:
        """Pass messages until the supervisor ends the front, or is gone."""
        poll = select.poll()
        for source in (self._workers, self._control):
            poll.register(source.fileno(), select.POLLIN)
        self._gather(poll)
        poll.register(self._clients.fileno(), select.POLLIN)
        while not self._is_over():
            self._turn(poll)
        self._clients.flush(FLUSH_S)
        self._clients.close()
        self._workers.close()

    def _gather(self, poll: select.poll) -> None:
        """Wait for the workers that are there."""
        until_s = time.monotonic() + GATHER_S
        while self._routes.missing and time.monotonic() < until_s and not self._is_over():
            self._turn(poll)

    def _turn(self, poll: select.poll) -> None:
        """Wait for messages, and pass some on."""
        has_more = self._clients.has_message, self._workers.has_message
        ready = {descriptor for descriptor, _ in poll.poll(0 if any(has_more) else 1000 * TICK_S)}
        if has_more[1] or self._workers.fileno() in ready:
            self._hear_workers()
        if has_more[0] or self._clients.fileno() in ready:
            self._hear_clients()
        now_s = time.monotonic()
        if now_s >= self._tidy_s or self._control.fileno() in ready:
            self._tidy_s = now_s + TICK_S
            self._obey_supervisor()
            if self._control.is_closed and self._control.fileno() in ready:
                poll.unregister(self._control.fileno())  # it would be readable for ever
            self._dismiss_idle()
            self._place_waiting()
        elif self._routes.changed:
            self._place_waiting()

    def _is_over(self) -> bool:
        if self._control.is_closed:
            return not len(self._routes)
        stopping = self._stopping
        return stopping is not None and stopping.is_over and time.monotonic() >= self._until_s

    def _hear_clients(self) -> None:
        for _ in range(TURN):
            if found := self._clients.receive(0.0):
                self._from_client(*found)
            if not self._clients.has_message:
                break
        self._clients.closed.clear()

    def _hear_workers(self) -> None:
        for _ in range(TURN):
            if found := self._workers.receive(0.0):
                self._from_worker(*found)
            if not self._workers.has_message:
                break
        for address in self._workers.closed:
            self._routes.lose(address)
        self._workers.closed.clear()

    def _from_worker(self, address: bytes, message: Message) -> None:
        frames = message.frames
        if frames[0] == TO_FRONT and frames[1] == STATUS:
            self._note_status(address, frames[2])
            return
        if frames[0] == TO_FRONT:
            load = msgspec.json.decode(frames[1], type=Load)
            self._routes.note(load, address, time.monotonic())
            return
        if route := self._routes.at(address):
            route.opening.discard(frames[0])
        self._clients.send(frames[0], frames[1:])

    def _from_client(self, address: bytes, message: Message) -> None:
        frames = [address, *message.frames]
        if message.size > self._limits.message_bytes:
            self._reply(frames, too_large(message.size, self._limits.message_bytes))
            return
        try:
            about = _addresses.decode(frames[-1])
        except msgspec.MsgspecError:
            about = _Address()
        if about.type != "hello" and about.session:
            route, is_expected = self._routes.of_session(about.session)
            if self._pass_on(route, is_expected, frames):
                return
        request = decode_request(frames[-1], self._limits.message_bytes)
        if isinstance(request, Error):
            self._reply(frames, encode(request))
        elif isinstance(request, GetStatus):
            self._reply(frames, encode(self._status()))
        elif isinstance(request, Hello):
            self._hello(request, frames)
        else:
            seq = request.seq if isinstance(request, Decisions) else 0
            self._reply(frames, error_reply("unknown_session", UNKNOWN_SESSION, seq=seq))

    def _hello(self, hello: Hello, frames: list[bytes]) -> None:
        if hello.session:
            route, is_expected = self._routes.of_session(hello.session)
        else:
            route, is_expected = self._routes.of_nonce(hello.nonce)
        if self._pass_on(route, is_expected, frames):
            return
        if hello.session:
            self._reply(frames, error_reply("unknown_session", UNKNOWN_SESSION))
        elif self._stopping:
            self._reply(frames, error_reply("shutting_down", self._stopping.reason, fatal=True))
        elif self._routes.sessions + len(self._waiting) >= self._limits.sessions:
            self._refused += 1
            what = f"{self._limits.sessions} sessions are open, the maximum of this server"
            self._reply(frames, error_reply("too_many_sessions", what))
        elif len(self._waiting) < MOST_WAITING:
            key = hello.nonce.encode() or frames[0]
            self._waiting[key] = _Waiting(hello, frames, time.monotonic())
            self._routes.changed = True

    def _note_status(self, address: bytes, data: bytes) -> None:
        """Note the status of a worker."""
        status = decode_server_message(data)
        if (route := self._routes.at(address)) and isinstance(status, ServerStatus):
            route.status, route.status_s = status, time.monotonic()

    def _status(self) -> ServerStatus:
        """Return what the server does, as far as the workers have told it."""
        now_s = time.monotonic()
        status = self._routes.status(now_s)
        status.state = "draining" if self._stopping else "serving"
        status.uptime_s = now_s - self._started_s
        status.workers = len(self._routes)
        status.max_sessions = self._limits.sessions
        status.sessions_refused += self._refused
        status.messages_lost += self._clients.lost
        return status

    def _pass_on(self, route: WorkerRoute | None, is_expected: bool, frames: list[bytes]) -> bool:
        """Pass a request to the worker of its session; return whether nothing is left to do.

        A request for a worker that is about to be there again is dropped: the client repeats it.
        """
        if route is not None:
            self._workers.send(route.address, frames)
            return True
        if self._stopping is not None:
            self._reply(frames, error_reply("shutting_down", self._stopping.reason, fatal=True))
            return True
        return is_expected

    def _place_waiting(self) -> None:
        """Give hellos to workers without sessions; ask for further workers."""
        self._routes.changed = False
        if not self._waiting and self._routes.free():
            return
        now_s = time.monotonic()
        free = self._routes.free()
        may_grow = len(self._routes.expected) < self._most_workers or bool(self._routes.missing)
        while self._waiting:
            key, waiting = next(iter(self._waiting.items()))
            is_late = now_s - waiting.since_s > SPARE_S
            route = free.pop(0) if free else None
            if route is None and (is_late or not may_grow):
                route = self._routes.fewest()
            if route is None:
                break
            del self._waiting[key]
            self._routes.give(route, waiting.hello.nonce, waiting.frames[0], now_s)
            self._workers.send(route.address, waiting.frames)
        self._want_workers(len(self._waiting) + 1 - len(free), now_s)

    def _want_workers(self, more: int, now_s: float) -> None:
        """Ask the supervisor for workers, so that one without sessions is left over."""
        wanted = min(self._most_workers, len(self._routes) + more)
        if wanted > len(self._routes.expected) and now_s >= self._want_s and not self._stopping:
            self._want_s = now_s + WANT_AGAIN_S
            self._control.send(Want(wanted))

    def _dismiss_idle(self) -> None:
        for route in self._routes.idle(time.monotonic()):
            route.is_leaving = True
            self._workers.send(route.address, [TO_FRONT, LEAVE])

    def _obey_supervisor(self) -> None:
        order = self._control.order()
        if isinstance(order, Workers):
            self._routes.expected = set(order.numbers)
            self._want_s = 0.0
        elif isinstance(order, Stopping):
            if self._stopping is None and self._routes.sessions:
                self._until_s = time.monotonic() + SHUTDOWN_S
            self._stopping = order

    def _reply(self, frames: Sequence[bytes], reply: bytes) -> None:
        self._clients.send(frames[0], [*frames[1:-1], reply])
