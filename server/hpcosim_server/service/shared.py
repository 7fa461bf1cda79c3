"""What the parts of a service share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hpcosim_server.service.closed import ClosedSessions
from hpcosim_server.service.held import HeldReplies
from hpcosim_server.service.idle_clock import IdleClock
from hpcosim_server.service.journaling import Journaling
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.sessions import OpenSessions


@dataclass(frozen=True, slots=True)
class Shared:
    """The sessions of a service, its limits and its clocks.

    Attributes:
        limits: limits for clients.
        clock: returns the wall-clock time, s.
        idle_clock: the clock of the idle timeouts.
        sessions: the open sessions.
        held: the replies that are held back.
        closed: the sessions that are over, or that could not be restored.
        journals: the journals of the sessions.
    """

    limits: Limits
    clock: Callable[[], float]
    idle_clock: IdleClock
    sessions: OpenSessions
    held: HeldReplies
    closed: ClosedSessions
    journals: Journaling
