"""A server of several processes: the sockets, the front and the workers."""

from __future__ import annotations

import shutil
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from hpcosim_server import log
from hpcosim_server.service.control import Control
from hpcosim_server.service.front import SOCKETS, Front, Gate
from hpcosim_server.service.observer import LiveProcess
from hpcosim_server.service.recovery import Recovery
from hpcosim_server.service.sessions import FIRST_WORKER
from hpcosim_server.service.socket_loop import ServeOptions, announce, bounds_of
from hpcosim_server.service.status import Failure
from hpcosim_server.service.stop_signals import Stop
from hpcosim_server.service.supervisor import Plan, Supervisor
from hpcosim_server.service.worker import ServiceFactory, run_worker
from hpcosim_server.wire.listener import BACKLOG, Bounds, close_listener, endpoint_of, listen
from hpcosim_server.wire.peers import Peers
from hpcosim_server.wire.post import Poller

LONGEST_PATH = 90  # bytes of the path of a local socket; the kernel allows 107
GATHER_S = 1.0
"""Time in which the workers find a new front, before it hears clients, s."""


def serve_workers(
    new_service: ServiceFactory,
    options: ServeOptions,
    recovery: Recovery,
    live: LiveProcess | None = None,
) -> list[Failure]:
    """Serve sessions in worker processes until a signal or the last session.

    Raises:
        BindError: the server cannot listen at the address.
    """
    started_s = time.monotonic()
    tell = options.tell
    public = listen(options.address)
    try:
        with private_socket() as (private, path):

            def front(control: Control, expected: Iterable[int]) -> None:
                run_front(public, private, control, options, expected, started_s)
                if control.is_closed:  # the supervisor did not live to do it
                    shutil.rmtree(path.parent, ignore_errors=True)

            def worker(control: Control, number: int, again: bool) -> None:
                public.close()
                private.close()
                recover = partial(recovery.recover, worker=number, again=again)
                connect = partial(connected, path)
                bounds = worker_bounds(options)
                tells = tell is not None
                link = live.link(number) if live else None
                run_worker(
                    number, connect, control, new_service, recover, bounds, tells=tells, live=link
                )

            plan = Plan(
                front=front,
                worker=worker,
                workers=options.workers,
                first=frozenset((recovery.workers() - {0}) | {FIRST_WORKER}),
                sessions=options.sessions,
                drain_s=options.drain_s,
                restores=recovery.journals is not None,
                live_page=live.run if live else None,
            )
            supervisor = Supervisor(plan, stop := Stop(options.parent), tell)
            stop.before_end = supervisor.kill
            announce(endpoint_of(public), options.access)
            reason = supervisor.run()
    finally:
        close_listener(public)
    log.info("stopped", reason=reason)
    return supervisor.failures


def run_front(
    public: socket.socket,
    private: socket.socket,
    control: Control,
    options: ServeOptions,
    expected: Iterable[int],
    started_s: float,
) -> None:
    """Be the front until the supervisor ends it, or is gone."""
    poller = Poller()
    clients = Peers(None, bounds_of(options.limits), poller)
    front = Front(poller, clients, private, control, options, expected, started_s)
    until_s = time.monotonic() + GATHER_S
    while front.misses_workers and time.monotonic() < until_s and not front.is_over:
        front.turn()
    if (keys := options.access.keys) is None:
        clients.listen(public)
    else:
        from hpcosim_server.wire.curve import CurvePeers

        bounds = replace(clients.bounds, peers=max(1, clients.bounds.peers // SOCKETS))
        front.gate = Gate(CurvePeers(public, keys, bounds), clients, poller)
    while not front.is_over:
        front.turn()
    front.close()


def worker_bounds(options: ServeOptions) -> Bounds:
    """Return the bounds of the clients' connections in a worker: its part of what waits."""
    bounds = bounds_of(options.limits)
    least = bounds.queued_bytes + 2 * bounds.message_bytes  # of one client
    return replace(bounds, total_bytes=max(least, bounds.total_bytes // options.workers))


def connected(path: Path) -> socket.socket:
    """Return a connection to the front.

    Raises:
        OSError: it cannot connect now.
    """
    end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        end.setblocking(False)  # a front that does not accept must not stop a worker
        end.connect(str(path))
    except OSError:
        end.close()
        raise
    return end


@contextmanager
def private_socket() -> Iterator[tuple[socket.socket, Path]]:
    """Yield the listening socket for workers, and its file in a folder that only we can enter."""
    folder = Path(tempfile.mkdtemp(prefix="hpcosim-"))  # has mode 0700
    if len(str(folder)) > LONGEST_PATH:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="hpcosim-", dir="/tmp"))
    path = folder / "front.sock"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.setblocking(False)
        listener.bind(str(path))
        listener.listen(BACKLOG)
        yield listener, path
    finally:
        listener.close()
        shutil.rmtree(folder, ignore_errors=True)
