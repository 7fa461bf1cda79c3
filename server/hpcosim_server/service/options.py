"""The options of a server, whatever it serves and in however many processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hpcosim_server.service.keys import LOCAL_ONLY, Access
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.socket_loop import DRAIN_S
from hpcosim_server.service.status import Status


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Where a server listens, whom it serves, and when it ends.

    Attributes:
        address: address to listen at, such as `tcp://127.0.0.1:28080`, see `listen`.
        limits: limits of requests and sessions; `sessions` bounds those of all processes together.
        workers: largest number of processes for sessions; 1: the process of the caller has all of
            them.
        sessions: number of sessions after which the server ends; None: no limit.
        tell: called with the progress of sessions and with every failure; None: progress goes to
            the log.
        parent: number of the process whose end stops the server; None: none.
        drain_s: time after a stop in which requests are finished and results are written, s.
        access: who may connect.
    """

    address: str
    limits: Limits = field(default_factory=Limits)
    workers: int = 1
    sessions: int | None = None
    tell: Callable[[Status], None] | None = None
    parent: int | None = None
    drain_s: float = DRAIN_S
    access: Access = LOCAL_ONLY
