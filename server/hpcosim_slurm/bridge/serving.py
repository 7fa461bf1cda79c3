"""The loop of a bridge: a socket for schedulers, and the states of the cluster."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from hpcosim_server import log
from hpcosim_server.service.held import Envelope
from hpcosim_server.service.keys import LOCAL_ONLY, Access, Clients, check_exposure, clients_of
from hpcosim_server.service.socket_loop import Request, bounds_of
from hpcosim_server.wire.listening import close_listener, endpoint_of, listen
from hpcosim_slurm.bridge.bridge import Bridge
from hpcosim_slurm.bridge.session import SchedulerSession
from hpcosim_slurm.errors import SlurmError
from hpcosim_slurm.state import ClusterState

TICK_S = 0.05  # longest time without a look at the results of polling, s
FLUSH_S = 2.0  # timeout for sending the last replies, s


class States(Protocol):
    """Where states of the cluster come from; see `Polling`."""

    def take(self) -> ClusterState | SlurmError | None:
        """Return the next state, or why there is none; None: nothing new."""


class SchedulerDoor:
    """Connections of schedulers. It tells which connections were closed.

    Args:
        peers: the connections.
    """

    def __init__(self, peers: Clients) -> None:
        self._peers = peers

    def receive(self, timeout_s: float) -> Request | None:
        """Return the next request; None: none came in time."""
        found = self._peers.receive(timeout_s)
        if found is None:
            return None
        address, (frames, size) = found
        return Request((address, *frames[:-1]), frames[-1], size)

    def send(self, envelope: Envelope, reply: bytes) -> None:
        """Send a reply, without waiting for the client."""
        address, *before = envelope
        self._peers.send(address, [*before, reply])

    def closed(self) -> list[bytes]:
        """Return the addresses of the connections that were closed since the last call."""
        found = list(self._peers.closed)
        self._peers.closed.clear()
        return found


@contextmanager
def listening(address: str, access: Access = LOCAL_ONLY) -> Iterator[socket.socket]:
    """Yield a socket that listens at an address, and close it at the end of the context.

    Args:
        address: address to listen at, see `hpcosim_server.wire.listening.listen`.
        access: who may connect.

    Raises:
        BindError: the address is malformed, in use or not permitted.
    """
    listener = listen(address)
    try:
        check_exposure(endpoint_of(listener), access)
        yield listener
    finally:
        close_listener(listener)


def serve(
    bridge: Bridge,
    states: States,
    listener: socket.socket,
    stopped: Callable[[], str],
    access: Access = LOCAL_ONLY,
    *,
    continues: bool,
) -> str:
    """Serve schedulers until there is a reason to stop.

    Args:
        bridge: the bridge.
        states: where states of the cluster come from.
        listener: where schedulers connect; see `listening`.
        stopped: returns the reason to stop; empty: there is none.
        access: who may connect.
        continues: whether a bridge with the same journal can continue the session, so that the
            scheduler hears nothing of the end.

    Returns:
        The reason of the end.
    """
    try:
        peers = clients_of(listener, bounds_of(SchedulerSession.limits), access)
        door = SchedulerDoor(peers)
        log.info("listening", address=endpoint_of(listener))
        while not (reason := stopped()):
            step(bridge, states, door)
        if continues:
            _tell_of_waiting_jobs(bridge)
        else:
            for envelope, reply in bridge.stop():
                door.send(envelope, reply)
        peers.flush(FLUSH_S)
        peers.close()
    finally:
        bridge.close()
    log.info("stopped", reason=reason)
    return reason


def _tell_of_waiting_jobs(bridge: Bridge) -> None:
    """Log that jobs wait for the next bridge."""
    if jobs := bridge.left_waiting():
        hint = "until a bridge goes on with this journal; --release-on-stop would release them"
        log.warning("jobs_wait", jobs=jobs, hint=hint)


def step(bridge: Bridge, states: States, door: SchedulerDoor) -> None:
    """Answer one request, note new states, and send the replies that are due."""
    request = door.receive(min(TICK_S, bridge.next_s()))
    for address in door.closed():
        bridge.left(address)
    _send_due(bridge, door)  # alarms before what was seen later
    while (found := states.take()) is not None:
        if isinstance(found, SlurmError):
            bridge.lost(found)
            continue
        try:
            bridge.note(found)
        except SlurmError as error:
            bridge.lost(error)
    if request is not None:
        answer = bridge.answer(request.body, request.size, request.envelope)
        if answer:
            door.send(request.envelope, answer)
    _send_due(bridge, door)


def _send_due(bridge: Bridge, door: SchedulerDoor) -> None:
    for envelope, reply in bridge.due():
        door.send(envelope, reply)
