"""The observer of a service: the sources of its sessions, which report to a hub."""

from __future__ import annotations

import time
from collections.abc import Callable

from hpcosim_protocol import ServerStatus
from hpcosim_server import log
from hpcosim_server.service.pace import Pace
from hpcosim_server.service.session import Opened
from hpcosim_view.errors import PaceError
from hpcosim_view.live.control import apply
from hpcosim_view.live.messages import (
    ChangePace,
    Command,
    Deliver,
    Forget,
    StatusNoted,
    Taken,
    Want,
    Watch,
)
from hpcosim_view.live.source import FrameReader, Source

MAX_CLOSED = 16
"""Number of closed sessions whose simulations stay for viewers."""


class Sources:
    """The sessions of a process. It is the `Observer` of its service.

    Args:
        reader: makes the reader of a session's simulation.
        deliver: passes reports to the hub.

    Attributes:
        connection: number of the connection to the hub; sessions are announced on each.
    """

    def __init__(self, reader: Callable[[Opened], FrameReader], deliver: Deliver) -> None:
        self.connection = 0
        self._reader, self._deliver = reader, deliver
        self._open: dict[str, Source] = {}
        self._all: dict[str, Source] = {}

    # In the thread of the simulations

    def opened(self, label: str, opened: Opened, pace: Pace) -> None:
        """See `Observer`."""
        source = Source(label, opened, pace, self._reader, self._deliver)
        self._open[label] = self._all[label] = source
        source.announce(self.connection)

    def ticked(self) -> bool:
        """See `Observer`."""
        has_more = False
        for label, source in list(self._open.items()):
            try:
                has_more |= source.look()
            except Exception as error:  # a bug of the live view must not end the simulation
                log.exception("live_view_failed", session=label, error=str(error))
                source.fail()
                del self._open[label]
        return has_more

    def noted(self, status: ServerStatus) -> None:
        """See `Observer`."""
        self._deliver(StatusNoted(status))

    def closed(self, label: str) -> None:
        """See `Observer`."""
        if label in self._open:
            self._open.pop(label).close()
        over = [label for label, source in list(self._all.items()) if source.is_over]
        for old in over[: max(0, len(over) - MAX_CLOSED)]:
            self._all.pop(old, None)

    # In another thread

    def obey(self, command: Command) -> None:
        """Carry out a command of the hub."""
        source = self._all.get(command.label)
        if source is None:
            return
        if isinstance(command, Watch):
            source.watch(command.on)
        elif isinstance(command, Want):
            source.want()
        elif isinstance(command, Taken):
            source.note_taken()
            if source.is_complete:
                self._all.pop(command.label, None)
        elif isinstance(command, Forget):
            self._all.pop(command.label, None)
        elif isinstance(command, ChangePace):
            try:
                apply(command.change, source.pace)
            except PaceError as error:  # the hub checks them
                log.error("pace_not_changed", session=command.label, error=str(error))

    def announce(self) -> None:
        """Report all sessions on a new connection to the hub."""
        self.connection += 1
        for source in list(self._all.values()):
            if not source.is_complete:
                source.announce(self.connection)

    def want_all(self) -> None:
        """Report what the hub does not have of closed sessions."""
        for source in list(self._all.values()):
            if source.is_over:
                source.want()

    def wait_complete(self, until_s: float) -> None:
        """Wait until all frames of closed sessions that the hub wants are reported.

        Args:
            until_s: time of `time.monotonic` at which the wait ends, s.
        """
        for source in list(self._all.values()):
            source.wait_complete(until_s - time.monotonic())
