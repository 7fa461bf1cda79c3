"""Pending events, and the bit masks that decide when to call the scheduler.

Each kind of event has a bit. The test whether to call the scheduler is one `&` of two integers at
each instant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import get_args

from hpcosim_protocol import (
    ALWAYS_WAKE_ON,
    DEFAULT_WAKE_ON,
    DecisionRejected,
    Event,
    EventKind,
    JobCompleted,
    JobRequeued,
    JobStarted,
    JobSubmitted,
    NodeDrained,
    NodeFailed,
    NodePowerChanged,
    NodeRepaired,
    SignalChanged,
)
from hpcosim_protocol.requests import snake_case

_BIT: Mapping[str, int] = {kind: 1 << i for i, kind in enumerate(get_args(EventKind))}
_BIT_OF_TYPE: Mapping[type[Event], int] = {
    kind: _BIT[snake_case(kind.__name__)] for kind in get_args(Event)
}
MAX_REPLACED = 1000
"""Number of replaced events of signals that an outbox keeps until it removes them."""


def _bits(*types: type[Event]) -> int:
    return sum(_BIT_OF_TYPE[each] for each in types)


REJECTIONS_ONLY = _bits(DecisionRejected)
QUIET = _bits(SignalChanged, NodeFailed, NodeDrained, NodeRepaired, NodePowerChanged)
"""Kinds of events that may go on for ever while no job can start."""
FINAL = _bits(JobSubmitted, JobCompleted)
"""Kinds of events of which each job has one."""
STARTED = _bits(JobStarted)
REQUEUED = _bits(JobRequeued)


def mask_of(kinds: Iterable[EventKind]) -> int:
    """Return the bits of `kinds` and of `ALWAYS_WAKE_ON`."""
    return _mask_of(frozenset(kinds))


class Outbox:
    """Collects events until a front end takes them.

    Attributes:
        events: the pending events in chronological order.
        kinds: bit mask of the kinds of `events`.
        profile: returns the events to add for an event, for a client in the basic profile of the
            protocol; None: the event itself.
    """

    __slots__ = ("_replaced", "_signals", "events", "kinds", "profile")

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.kinds = 0
        self.profile: Callable[[Event], Sequence[Event]] | None = None
        self._signals: dict[str, int] = {}  # place in `events` of the last event, by signal
        self._replaced: set[int] = set()  # places of events that `take` leaves out

    def add(self, event: Event) -> None:
        """Add an event."""
        if self.profile is None:
            self.events.append(event)
            self.kinds |= _BIT_OF_TYPE[type(event)]
            return
        for each in self.profile(event):
            self.events.append(each)
            self.kinds |= _BIT_OF_TYPE[type(each)]

    def add_signal(self, event: SignalChanged) -> None:
        """Add an event that replaces the pending event of the same signal."""
        place = self._signals.get(event.name)
        if place is not None:
            self._replaced.add(place)
            # Forecasts are long, and a scheduler may sleep for a long time.
            self.events[place] = SignalChanged(event.time_s, event.name, event.value)
        if len(self._replaced) > MAX_REPLACED:
            self._compact()
        self._signals[event.name] = len(self.events)
        self.add(event)

    def _compact(self) -> None:
        """Remove the replaced events."""
        self.events = [
            each for place, each in enumerate(self.events) if place not in self._replaced
        ]
        self._replaced.clear()
        for place, each in enumerate(self.events):
            if isinstance(each, SignalChanged):
                self._signals[each.name] = place

    def take(self) -> list[Event]:
        """Return the pending events and clear the outbox."""
        if self._replaced:
            self._compact()
        if self._signals:
            self._signals.clear()
        events, self.events, self.kinds = self.events, [], 0
        return events


@lru_cache(maxsize=256)
def _mask_of(kinds: frozenset[EventKind]) -> int:
    return sum(_BIT[kind] for kind in kinds | ALWAYS_WAKE_ON)


DEFAULT_MASK = mask_of(DEFAULT_WAKE_ON)
