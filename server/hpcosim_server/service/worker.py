"""A worker: a process with some of the sessions of a server, and connections of their clients."""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from hpcosim_server.service import control as messages
from hpcosim_server.service.held_replies import Envelope
from hpcosim_server.service.memory import limit_more
from hpcosim_server.service.observer import LiveLink
from hpcosim_server.service.service import Service
from hpcosim_server.service.sessions import Counts, destination, new_name
from hpcosim_server.service.socket_loop import FLUSH_S, TICK_S, Request, answer_all
from hpcosim_server.service.status import Failure, Progress, ProgressLog, Status
from hpcosim_server.service.stop_signals import PARENT_GONE
from hpcosim_server.wire.listener import Bounds
from hpcosim_server.wire.peers import Peers
from hpcosim_server.wire.post import Poller, Post

STATUS_INTERVAL_S = 1.0
AGAIN_S = 0.02
NO_SESSIONS = "the worker has no sessions"
MOST_NONCES = 1000
LONGEST_NONCE = 100
"""Nonces that a worker tells a new front; with another, a hello whose reply was lost opens a second
session after the front was killed."""

ServiceFactory = Callable[..., Service]
"""Returns the service of a worker; takes `report`, `name` and `watch` of `Service`."""
Connect = Callable[[], socket.socket]


class _Arrived(NamedTuple):
    """A request that came with its connection.

    Attributes:
        number: number of its packet.
        address: address of the client.
    """

    number: int
    address: bytes
    frames: list[bytes]


class WorkerDoor:
    """The door of a worker: connections of clients, which the front gives and takes back.

    The first request that comes with a connection is answered here, as the front has decided. A
    later one is answered here if its session is of this worker. Otherwise the connection goes back
    to the front, with the request.

    Attributes:
        stopped: reason why the worker ends; empty: it does not.
    """

    def __init__(
        self,
        number: int,
        connect: Connect,
        control: messages.Control,
        service: Service,
        bounds: Bounds,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stopped = ""
        self._number = number
        self._connect = connect
        self._control = control
        self._service = service
        self._clock = clock
        self._poller = Poller()
        self._poller.watch(control.fileno(), self._hear_supervisor)
        self._peers = Peers(None, bounds, self._poller, clock)
        self._front: Post | None = None
        self._arrived: deque[_Arrived] = deque()
        self._parked: dict[bytes, list[bytes]] = {}
        self._told: tuple[Counts, int] | None = None
        self._tell_s = self._status_due_s = self._again_s = 0.0
        service.vitals.messages_lost = lambda: self._peers.lost

    def receive(self, timeout_s: float) -> Request | None:
        """See `Door`."""
        now_s = self._clock()
        if now_s >= self._tell_s or self._front is None or self._writes_results:
            self._tell_s = now_s + TICK_S
            self._tell(now_s)
        for address, frames in list(self._parked.items()) if self._parked else ():
            if not self._service.held.waits_for(address):
                del self._parked[address]
                self._give_back(address, frames)
        if not self._arrived:
            found = self._peers.receive(timeout_s if self._front else AGAIN_S)
            self._peers.closed.clear()
            if found is not None:
                address, (frames, size) = found
                if destination(frames[-1]) in (self._number, None):
                    return Request((address, *frames[:-1]), frames[-1], size)
                self._not_mine(address, frames)
                return None
        if not self._arrived:
            return None
        _, address, frames = self._arrived.popleft()
        self._peers.unpark(address)
        return Request((address, *frames[:-1]), frames[-1], len(frames[-1]))

    def send(self, envelope: Envelope, reply: bytes) -> None:
        """See `Door`."""
        self._tell_load()  # first, so that the front never sees fewer sessions than there are
        address, *before = envelope
        self._peers.send(address, [*before, reply])

    def close(self) -> None:
        """Give all connections back to the front."""
        self._tell_load()
        while self._front is not None and self._hear(self._front):
            pass
        requests = {each.address: each.frames for each in self._arrived} | self._parked
        for address in sorted(self._peers.addresses, key=requests.__contains__):
            self._give_back(address, requests.get(address, []))
        if self._front is not None:
            self._front.flush(FLUSH_S)
            self._front.close()
        self._peers.flush(FLUSH_S)
        self._peers.close()
        self._poller.close()

    def _tell(self, now_s: float) -> None:
        """Tell the front what it must know, when it is due."""
        if self._front is None and now_s >= self._again_s:
            self._again_s = now_s + AGAIN_S
            self._introduce()
        self._tell_load()
        if self._front is not None and now_s >= self._status_due_s:
            self._status_due_s = now_s + STATUS_INTERVAL_S
            self._front.send(messages.packed(messages.StatusOf(self._service.status())))

    def _introduce(self) -> None:
        try:
            self._front = Post(self._connect(), self._poller, self._hear)
        except OSError:
            return
        self._told = None
        self._arrived = deque(each._replace(number=0) for each in self._arrived)
        nonces = [nonce for nonce in self._service.nonces() if len(nonce) <= LONGEST_NONCE]
        self._front.send(
            messages.packed(messages.WorkerReport(self._load(), 0, tuple(nonces[-MOST_NONCES:])))
        )

    def _load(self) -> messages.Load:
        return messages.Load(self._number, *self._service.counts)

    @property
    def _writes_results(self) -> bool:
        """Whether results were to be written when it told its load: it may be free now."""
        counts = self._told[0] if self._told else Counts(0, 0, 0)
        return counts.opened > counts.active + counts.over

    def _tell_load(self) -> None:
        """Tell the front and the supervisor what has changed of the numbers of sessions."""
        told = self._service.counts, self._heard
        if told == self._told:
            return
        if self._told is None or told[0] != self._told[0]:
            self._control.send(self._load())
        self._told = told
        if self._front is not None:
            self._front.send(messages.packed(messages.WorkerReport(self._load(), self._heard)))

    def _hear(self, front: Post) -> bool:
        """Obey the next packet of the front; return whether there was one."""
        packet = front.receive()
        if packet is None:
            if front.is_closed:
                front.close()
                self._front = None
            return False
        message = messages.to_worker.decode(packet.data) if packet.data else None
        if isinstance(message, messages.Handover) and packet.connection is not None:
            self._peers.adopt(message.moved(packet.connection), is_waiting=True)
            self._peers.park(message.address)  # what comes after the request waits for its reply
            self._arrived.append(_Arrived(front.received, message.address, message.request))
        elif isinstance(message, messages.Dismissal):
            self._leave()
        return True

    @property
    def _heard(self) -> int:
        """Number of packets of the front that are handled, but for the reply to the last one."""
        if self._arrived:
            return self._arrived[0].number - 1
        return 0 if self._front is None else self._front.received

    def _not_mine(self, address: bytes, frames: list[bytes]) -> None:
        """Give a connection back, unless it still waits for a reply that is held back."""
        if self._service.held.waits_for(address):
            self._peers.park(address)
            self._parked[address] = frames
        else:
            self._give_back(address, frames)

    def _give_back(self, address: bytes, frames: list[bytes]) -> None:
        """Give a connection to the front; without a front, close it: the client comes again."""
        moved = self._peers.release(address)
        if moved is None:
            return
        if self._front is None:
            self._introduce()  # the next one may be there
        if self._front is None:
            moved.connection.close()
        else:
            self._front.send(messages.packed(messages.Handover.of(moved, frames)), moved.connection)

    def _hear_supervisor(self, _: int) -> None:
        order = self._control.order()
        if isinstance(order, messages.Stopping):
            self.stopped = order.reason
        if self._control.is_closed:
            self.stopped = f"stopped by {PARENT_GONE}"
            self._poller.forget(self._control.fileno())

    def _leave(self) -> None:
        """End, unless a session was opened after the front asked for it."""
        load = self._load()
        if load.opened == load.over:
            self.stopped = NO_SESSIONS


def run_worker(
    number: int,
    connect: Connect,
    control: messages.Control,
    new_service: ServiceFactory,
    recover: Callable[[Service], None],
    bounds: Bounds,
    *,
    tells: bool,
    live: LiveLink | None = None,
) -> None:
    """Serve sessions until the supervisor or the front ends it."""
    log_progress = ProgressLog()

    def report(status: Status) -> None:
        if isinstance(status, Failure) or (tells and isinstance(status, Progress)):
            control.send(status)
        elif isinstance(status, Progress):
            log_progress(status)

    watch = live.watch if live else None
    service = new_service(report=report, name=lambda: new_name(number), watch=watch)
    if service.limits.memory_bytes:
        limit_more(2 * service.limits.memory_bytes)
    recover(service)
    if live:
        live.note_restored()
    door = WorkerDoor(number, connect, control, service, bounds)
    answer_all(service, door, lambda: door.stopped, shutdown_s=0.0)
    door.close()
    if live:
        live.end(all_frames=door.stopped == NO_SESSIONS)
