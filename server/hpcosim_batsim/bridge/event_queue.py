"""`EventQueue`: the events of the next message to the scheduler, in Batsim's order."""

from __future__ import annotations

from enum import IntEnum
from operator import itemgetter
from typing import Any


class EventRank(IntEnum):
    """Batsim's order of the events that the simulation causes at one instant.

    Batsim gets the events of its master host before those of the hosts that run jobs.
    """

    JOB_SUBMITTED = 0
    REQUESTED_CALL = 1
    EXTERNAL = 2
    OF_HOSTS = 3  # ends of jobs and of pstate changes


class EventQueue:
    """Events for the scheduler, each in the form of the version of the protocol.

    The events of one instant are sorted by rank; events of equal rank, and the replies to
    decisions, keep their order.
    """

    def __init__(self) -> None:
        self._events: list[tuple[EventRank, Any]] = []
        self._instant = 0  # place of the first event of the current instant
        self._after: Any = None

    def __bool__(self) -> bool:
        return bool(self._events)

    def add(self, event: Any, rank: EventRank = EventRank.OF_HOSTS) -> None:
        """Add an event; `rank` has an effect only between `begin_instant` and `end_instant`."""
        self._events.append((rank, event))

    def add_after_message(self, event: Any) -> None:
        """Add an event that follows the message about the current instant.

        If no message is taken before the next instant, because the scheduler is not ready, it
        follows the other events of its instant.
        """
        self._after = event

    def begin_instant(self) -> None:
        """Begin an instant after all events so far."""
        self._add_postponed()
        self._instant = len(self._events)

    def end_instant(self) -> None:
        """Sort the events since `begin_instant`."""
        if len(self._events) > self._instant + 1:
            self._events[self._instant :] = sorted(self._events[self._instant :], key=itemgetter(0))

    def take(self) -> list[Any]:
        """Return the events of a message and remove them."""
        events = [event for _, event in self._events]
        self._events.clear()
        self._add_postponed()
        return events

    def _add_postponed(self) -> None:
        if self._after is not None:
            self.add(self._after)
            self._after = None
