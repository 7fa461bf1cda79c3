"""Observers of a server's simulations, such as a live view, and the pace that they may set."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from hpcosim_protocol import ServerStatus
from hpcosim_server.service.control import Control
from hpcosim_server.service.pace import Pace, Speed, speed_for
from hpcosim_server.service.session import Opened

OBSERVE_INTERVAL_S = 0.25


class Observer(Protocol):
    """Is told of the sessions of a service, in the thread of the simulations."""

    def opened(self, label: str, opened: Opened, pace: Pace) -> None:
        """Note a new session.

        Args:
            opened: its simulation. An observer reads it, in this thread, and changes nothing.
        """

    def ticked(self) -> bool:
        """Look at the sessions. Called between requests, every `OBSERVE_INTERVAL_S`.

        Returns:
            Whether there is more to look at: the next call comes earlier, but leaves at least half
            of the time to the simulations.
        """

    def noted(self, status: ServerStatus) -> None:
        """Note what the service does. Called a few times a second, and when it stops."""

    def closed(self, label: str) -> None:
        """Note that a session is over and its results are written. Its simulation is now fixed."""


class Watch(NamedTuple):
    """An observer, and the pace of new sessions."""

    observer: Observer
    speed: Speed = None

    def pace_of(self, opened: Opened, clock: Callable[[], float] = time.monotonic) -> Pace:
        """Return the pace of a new session on a clock, which returns the wall-clock time, s."""
        return Pace(speed_for(self.speed, opened.span_s), opened.simulation.now_s, clock)


class LiveLink(Protocol):
    """The link of a worker to the live page, which another process serves."""

    watch: Watch
    """The observer of the worker's service."""

    def note_restored(self) -> None:
        """Note that the worker has restored its sessions."""

    def end(self, *, all_frames: bool) -> None:
        """Send what viewers have not seen, for some seconds at most."""


class LiveProcess(Protocol):
    """The live page of a server of several processes."""

    def run(self, control: Control) -> None:
        """Serve the page in the calling process until the supervisor ends it."""

    def link(self, worker: int) -> LiveLink:
        """Return the link of a worker, in its process."""


class Ticker:
    """Calls a function every `OBSERVE_INTERVAL_S`, or more often while it asks for it."""

    def __init__(self, call: Callable[[], bool], clock: Callable[[], float]) -> None:
        self._call = call
        self._clock = clock
        self._due_s = 0.0

    def tick(self) -> None:
        """Call the function if the interval has passed."""
        at_s = self._clock()
        if at_s < self._due_s:
            return
        self._due_s = at_s + OBSERVE_INTERVAL_S
        if self._call():
            over_s = self._clock()
            self._due_s = over_s + min(over_s - at_s, OBSERVE_INTERVAL_S)
