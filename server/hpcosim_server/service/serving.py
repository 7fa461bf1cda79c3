"""A server of several processes: the sockets, the front and the workers."""

from __future__ import annotations

import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import structlog

from hpcosim_server.service.control import Control
from hpcosim_server.service.front import Front
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.recovery import Recovery
from hpcosim_server.service.sessions import FIRST_WORKER
from hpcosim_server.service.socket_loop import DRAIN_S, announce, bounds_of
from hpcosim_server.service.status import Failure, Status
from hpcosim_server.service.stopping import Stop
from hpcosim_server.service.supervisor import Plan, Supervisor
from hpcosim_server.service.worker import ServiceFactory, run_worker
from hpcosim_server.wire.bounds import Bounds
from hpcosim_server.wire.listening import close_listener, endpoint_of, listen
from hpcosim_server.wire.peers import Peers
from hpcosim_server.wire.zmtp import INNER_FRAMES

log = structlog.get_logger()

LONGEST_PATH = 90  # bytes of the path of a local socket; the kernel allows 107
INNER_BOUNDS = Bounds(
    message_bytes=2**31,
    handshake_s=float("inf"),
    idle_s=float("inf"),
    waiting_s=float("inf"),
    settled_s=float("inf"),
    queued_messages=4096,
    queued_bytes=2**28,
    total_bytes=2**40,
)
"""Bounds of the connections of workers: their peers are our own processes."""


def serve_workers(
    new_service: ServiceFactory,
    address: str,
    limits: Limits,
    workers: int,
    recovery: Recovery,
    *,
    sessions: int | None = None,
    tell: Callable[[Status], None] | None = None,
    parent: int | None = None,
    drain_s: float = DRAIN_S,
) -> list[Failure]:
    """Serve sessions in worker processes until a signal or the last session.

    Args:
        new_service: makes the service of a worker.
        address: address to listen at, see `listen`.
        limits: limits of requests and sessions; `sessions` bounds those of all workers together.
        workers: largest number of workers, > 1.
        recovery: restores sessions.
        sessions: number of sessions after which the server ends; None: no limit.
        tell: called with the progress of sessions and with every failure; None: progress goes to
            the log.
        parent: number of the process whose end stops the server; None: none.
        drain_s: time after a stop in which workers must end, s.

    Returns:
        The failures.

    Raises:
        BindError: the server cannot listen at the address.
    """
    started_s = time.monotonic()
    public = listen(address)
    try:
        with private_socket() as (private, path):

            def front(control: Control, expected: Iterable[int]) -> None:
                clients = Peers(public, bounds_of(limits))
                inner = Peers(private, INNER_BOUNDS, INNER_FRAMES)
                Front(clients, inner, control, limits, workers, expected, started_s).run()
                if control.is_closed:  # the supervisor did not live to do it
                    shutil.rmtree(path.parent, ignore_errors=True)

            def worker(control: Control, number: int, again: bool) -> None:
                public.close()
                private.close()
                recover = partial(recovery.recover, worker=number, again=again)
                tells = tell is not None
                run_worker(number, path, control, new_service, recover, tells=tells)

            first = frozenset((recovery.workers() - {0}) | {FIRST_WORKER})
            plan = Plan(front, worker, workers, first, sessions, drain_s, recovery.keeps_journals)
            supervisor = Supervisor(plan, stop := Stop(parent), tell)
            stop.before_end = supervisor.kill
            announce(endpoint_of(public))
            reason = supervisor.run()
    finally:
        close_listener(public)
    log.info("stopped", reason=reason)
    return supervisor.failures


@contextmanager
def private_socket() -> Iterator[tuple[socket.socket, Path]]:
    """Yield the listening socket for workers, and its file in a folder that only we can enter."""
    folder = Path(tempfile.mkdtemp(prefix="hpcosim-"))  # has mode 0700
    if len(str(folder)) > LONGEST_PATH:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="hpcosim-", dir="/tmp"))
    path = folder / "front.sock"
    listener = listen(f"ipc://{path}")
    try:
        yield listener, path
    finally:
        close_listener(listener)
        shutil.rmtree(folder, ignore_errors=True)
