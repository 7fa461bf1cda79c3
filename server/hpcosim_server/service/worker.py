"""A worker: a process with some of the sessions of a server."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hpcosim_protocol import encode
from hpcosim_server.service.control import Control, Load, Stopping
from hpcosim_server.service.held import Envelope
from hpcosim_server.service.reporting import log_progress
from hpcosim_server.service.service import Service
from hpcosim_server.service.sessions import Counts, new_name
from hpcosim_server.service.socket_loop import Request, answer_all
from hpcosim_server.service.status import Failure, Progress, Status
from hpcosim_server.service.stopping import PARENT_GONE
from hpcosim_server.wire.link import Link

TO_FRONT = b""
"""Instead of the address of a client: the message is for the front, or from it."""
STATUS = b"status"
"""Before the status of a worker, for the front."""
STATUS_INTERVAL_S = 1.0
LEAVE = b"leave"
"""The front has no more use for a worker without sessions."""
MOST_NONCES = 1000
LONGEST_NONCE = 100
"""Nonces that a worker tells a new front; with another, a hello whose reply was lost opens a second
session after the front was killed."""

ServiceFactory = Callable[..., Service]
"""Returns the service of a worker; takes the arguments `report` and `name` of `Service`."""


class FrontDoor:
    """The door of a worker: its link to the front.

    Args:
        number: number of the worker.
        path: file of the front's socket for workers.
        control: connection to the supervisor.
        service: the service.

    Attributes:
        stopped: reason why the worker ends; empty: it does not.
    """

    def __init__(self, number: int, path: Path, control: Control, service: Service) -> None:
        self.stopped = ""
        self._number = number
        self._control = control
        self._service = service
        self._told: Counts | None = None
        self._status_due_s = 0.0
        most_bytes = service.limits.message_bytes
        self._link = Link(str(path), most_bytes, self._introduction, control.fileno())

    def receive(self, timeout_s: float) -> Request | None:
        """See `Door`."""
        self._tell_load()
        self._tell_status()
        frames = self._link.receive(timeout_s)
        if self._link.other_is_ready:
            self._obey_supervisor()
        if frames is None:
            return None
        if frames[0] == TO_FRONT:
            self._leave()
            return None
        return Request(frames[:-1], frames[-1], len(frames[-1]))

    def send(self, envelope: Envelope, reply: bytes) -> None:
        """See `Door`."""
        self._tell_load()  # first, so that the front never sees fewer sessions than there are
        self._link.send([*envelope, reply])

    def close(self) -> None:
        """Close the link."""
        self._tell_load()
        self._link.close()

    def _introduction(self) -> list[bytes]:
        load = self._load()
        nonces = [nonce for nonce in self._service.nonces() if len(nonce) <= LONGEST_NONCE]
        return [TO_FRONT, msgspec.json.encode(replace(load, nonces=tuple(nonces[-MOST_NONCES:])))]

    def _load(self) -> Load:
        return Load(self._number, *self._service.counts)

    def _tell_load(self) -> None:
        """Tell the front and the supervisor if the numbers of sessions have changed."""
        counts = self._service.counts
        if counts != self._told:
            self._told = counts
            load = self._load()
            self._link.send([TO_FRONT, msgspec.json.encode(load)])
            self._control.send(load)

    def _tell_status(self) -> None:
        if (now_s := time.monotonic()) >= self._status_due_s:
            self._status_due_s = now_s + STATUS_INTERVAL_S
            self._link.send([TO_FRONT, STATUS, encode(self._service.status())])

    def _obey_supervisor(self) -> None:
        order = self._control.order()
        if isinstance(order, Stopping):
            self.stopped = order.reason
        if self._control.is_closed:
            self.stopped = f"stopped by {PARENT_GONE}"

    def _leave(self) -> None:
        """End, unless a session was opened after the front asked for it."""
        load = self._load()
        if load.opened == load.over:
            self.stopped = "the worker has no sessions"


def run_worker(
    number: int,
    path: Path,
    control: Control,
    new_service: ServiceFactory,
    recover: Callable[[Service], None],
    *,
    tells: bool,
) -> None:
    """Serve sessions until the supervisor or the front ends it.

    Args:
        number: number of the worker.
        path: file of the front's socket for workers.
        control: connection to the supervisor.
        new_service: makes the service.
        recover: restores the sessions of the worker.
        tells: whether the supervisor wants to hear of progress; otherwise the worker logs it.
    """

    def report(status: Status) -> None:
        if isinstance(status, Failure) or (tells and isinstance(status, Progress)):
            control.send(status)
        elif isinstance(status, Progress):
            log_progress(status)

    service = new_service(report=report, name=lambda: new_name(number))
    recover(service)
    door = FrontDoor(number, path, control, service)
    answer_all(service, door, lambda: door.stopped, shutdown_s=0.0)
    door.close()
