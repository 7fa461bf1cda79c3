"""The loop of a service: requests of a door in, replies out."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hpcosim_server import log
from hpcosim_server.service.admission import too_large
from hpcosim_server.service.held_replies import Envelope
from hpcosim_server.service.keys import LOCAL_ONLY, Access, check_exposure, clients_of
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.service import Service
from hpcosim_server.service.status import Status
from hpcosim_server.service.stop_signals import Stop
from hpcosim_server.wire.listener import Bounds, close_listener, endpoint_of, listen

if TYPE_CHECKING:
    from hpcosim_server.wire.curve import CurvePeers
    from hpcosim_server.wire.peers import Peers

TICK_S = 0.1  # receive timeout: delay of signals, idle timeouts and results, s
HELD_TICK_S = 0.02  # receive timeout while a reply is held back: delay of the pace's controls, s
SHUTDOWN_S = 1.0  # duration of `shutting_down` replies before the socket closes, s
FLUSH_S = 2.0  # timeout for sending the last replies, s
DRAIN_S = 300.0
"""Time after a stop in which requests are finished and results are written, s."""
RESERVED_FILES = 64  # descriptors that connections leave free, for results and logs
MOST_PEERS = 4096
ALL_OVER = "all sessions are over"


class Request(NamedTuple):
    """A request.

    Attributes:
        body: the message; empty if it is too large.
    """

    envelope: Envelope
    body: bytes
    size: int


class Door(Protocol):
    """Where requests come in and replies go out: connections of clients, or the front."""

    def receive(self, timeout_s: float) -> Request | None:
        """Return the next request; None: none came in time."""

    def send(self, envelope: Envelope, reply: bytes) -> None:
        """Send a reply, without waiting for the client."""


class PublicDoor:
    """The door of a service in one process."""

    forgets_closed = True

    def __init__(self, peers: Peers | CurvePeers) -> None:
        self._peers = peers

    def receive(self, timeout_s: float) -> Request | None:
        """See `Door`."""
        found = self._peers.receive(timeout_s)
        if self.forgets_closed:
            self._peers.closed.clear()
        if found is None:
            return None
        address, (frames, size) = found
        return Request((address, *frames[:-1]), frames[-1], size)

    def send(self, envelope: Envelope, reply: bytes) -> None:
        """See `Door`."""
        address, *before = envelope
        self._peers.send(address, [*before, reply])


def serve(
    service: Service,
    address: str,
    parent: int | None = None,
    drain_s: float = DRAIN_S,
    access: Access = LOCAL_ONLY,
) -> str:
    """Reply to requests in this process until a signal, or until the service is done.

    Args:
        address: address to listen at, see `listen`. The log event `listening` names the port.
        parent: number of the process whose end stops the server; None: none.
        drain_s: time after a signal in which the process must end, s.

    Raises:
        BindError: the address is malformed, in use or not permitted.
    """
    stop = Stop(parent, drain_s)
    listener = listen(address)
    try:
        announce(endpoint_of(listener), access)
        peers = clients_of(listener, bounds_of(service.limits), access)
        service.vitals.messages_lost = lambda: peers.lost
        reason = answer_all(service, PublicDoor(peers), lambda: _reason(stop, service))
        peers.flush(FLUSH_S)
        peers.close()
    finally:
        close_listener(listener)
    log.info("stopped", reason=reason)
    return reason


def _reason(stop: Stop, service: Service) -> str:
    """Return why a service in one process ends; empty: it does not."""
    if stop:
        return f"stopped by {stop.reason}"
    return ALL_OVER if service.done else ""


def announce(endpoint: str, access: Access = LOCAL_ONLY) -> None:
    """Log the address at which the server listens.

    Raises:
        BindError: see `check_exposure`.
    """
    check_exposure(endpoint, access)
    log.info("listening", address=endpoint)


def bounds_of(limits: Limits) -> Bounds:
    """Return the bounds of the clients' connections."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_PEERS + RESERVED_FILES
    if files < wanted:  # the usual 1,024 are for programs with `select`
        files = min(most, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    peers = max(1, min(MOST_PEERS, files - RESERVED_FILES))
    return Bounds(limits.message_bytes, peers, idle_s=max(60.0, limits.idle_s))


def answer_all(
    service: Service, door: Door, stopped: Callable[[], str], shutdown_s: float = SHUTDOWN_S
) -> str:
    """Reply to requests until there is a reason to end; write all results."""
    while not (reason := stopped()):
        answer_one(door, service, _timeout_s(service))
        for envelope, reply in service.due() if service.held else ():
            door.send(envelope, reply)
        service.tidy()
    for envelope, reply in service.held.all():  # these clients learn of the end sooner
        door.send(envelope, reply)
    if service.stop(reason):
        until_s = time.monotonic() + shutdown_s
        while time.monotonic() < until_s:
            answer_one(door, service, TICK_S)
    return reason


def answer_one(door: Door, service: Service, timeout_s: float) -> None:
    """Reply to the next request, if one comes in time."""
    request = door.receive(timeout_s)
    if request is None:
        return
    if request.size > service.limits.message_bytes:
        answer = too_large(request.size, service.limits.message_bytes)
    else:
        answer = service.answer(request.body, request.envelope)
    if answer:
        door.send(request.envelope, answer)


def _timeout_s(service: Service) -> float:
    """Return the receive timeout, so that the next held reply is sent in time, s."""
    if not service.held:
        return TICK_S
    return min(HELD_TICK_S, service.held.wait_s())


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Where a server listens, whom it serves, and when it ends.

    Attributes:
        address: address to listen at, such as `tcp://127.0.0.1:28080`, see `listen`.
        limits: limits of requests and sessions; `sessions` bounds those of all processes together.
        workers: largest number of processes for sessions; 1: the process of the caller has all of
            them.
        tell: called with the progress of sessions and with every failure; None: progress goes to
            the log.
        drain_s: time after a stop in which requests are finished and results are written, s.
    """

    address: str
    limits: Limits = field(default_factory=Limits)
    workers: int = 1
    sessions: int | None = None
    tell: Callable[[Status], None] | None = None
    parent: int | None = None
    drain_s: float = DRAIN_S
    access: Access = LOCAL_ONLY
