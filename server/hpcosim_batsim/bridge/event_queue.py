"""`EventQueue`: the events of the next message to the scheduler, in Batsim's order.

In Batsim, processes send events to its server, which serves them in the order in which they send:
a submitter for each workload and one for external events, a process for each running job, for each
requested call and for each host that switches. Processes that wake at one instant send in the order
in which they began to wait. The server sends its message as soon as no event is left. Messages of
processes take no time here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

FIRST_WAIT = 2**40  # also the first id of alarms for calls; lower ids are phases of jobs


class Before(IntEnum):
    """What a process does at the instant at which it wakes, before it sends its event.

    It sends after all processes that do less.
    """

    NOTHING = 0
    SET_PSTATE = 1
    READ_ENERGY = 2


class Wait(NamedTuple):
    """Since when a process waits.

    Attributes:
        since_s: time, s, to 9 decimals.
        number: order of the waits that began at one time.
    """

    since_s: float
    number: int

    def from_s(self, since_s: float) -> Wait:
        """Return this wait with a later begin, such as that of the last part of a job."""
        return Wait(round(since_s, 9), self.number)


NOT_WAITING = Wait(0.0, 0)


@dataclass(slots=True, eq=False)
class SubmitterGroup:
    """Submitters of one kind.

    Attributes:
        running: number of those that have not ended.
        end_event: returns the event that the last one has ended, at a time, s.
    """

    running: int
    end_event: Callable[[float], Any]


@dataclass(slots=True, eq=False)
class Submitter:
    """A process that sends the events of a file.

    Attributes:
        left: number of events that it has not sent.
    """

    group: SubmitterGroup
    left: int
    wait: Wait


class _Sent(NamedTuple):
    """What a process sends at an instant.

    Attributes:
        event: the event; None: the submitter reports its end.
    """

    before: Before
    wait: Wait
    submitter: Submitter | None
    event: Any


class EventQueue:
    """Events for the scheduler, each in the form of the version of the protocol.

    Events outside an instant, such as replies to decisions, keep their order.
    """

    def __init__(self) -> None:
        self._events: list[Any] = []
        self._sent: list[_Sent] = []
        self._in_instant = False
        self._after: Any = None
        self._waits = FIRST_WAIT

    def __bool__(self) -> bool:
        return bool(self._events)

    def begin_wait(self, now_s: float) -> Wait:
        """Return the wait of a process from now on."""
        self._waits += 1
        return Wait(round(now_s, 9), self._waits - 1)

    def add_submitter(self, group: SubmitterGroup, events: int) -> Submitter:
        """Return a submitter that begins at time 0. Without events, it ends then."""
        submitter = Submitter(group, events, self.begin_wait(0.0))
        if not events:
            self._sent.append(_Sent(Before.NOTHING, submitter.wait, submitter, None))
        return submitter

    def add(self, event: Any) -> None:
        """Add an event after all others."""
        self._events.append(event)

    def send(self, event: Any, wait: Wait, before: Before = Before.NOTHING) -> None:
        """Add an event of a process, at the place of its wait if it is within an instant."""
        if self._in_instant:
            self._sent.append(_Sent(before, wait, None, event))
        else:
            self._events.append(event)

    def submit(self, event: Any, submitter: Submitter) -> None:
        """Add an event of a submitter, within an instant."""
        submitter.left -= 1
        self._sent.append(_Sent(Before.NOTHING, submitter.wait, submitter, event))

    def begin_instant(self) -> None:
        """Begin an instant after all events so far."""
        self._add_postponed()
        self._in_instant = True

    def end_instant(self, time_s: float) -> None:
        """Sort the events of the instant.

        A submitter reports its end after the server has received its last event. If that is the
        last event of the instant, the server sends its message before.
        """
        self._in_instant = False
        queue = deque(sorted(self._sent, key=lambda sent: (sent.before, sent.wait)))
        self._sent = []
        while queue:
            sent = queue.popleft()
            submitter = sent.submitter
            if sent.event is not None:
                self._events.append(sent.event)
                if submitter is None or (queue and queue[0].submitter is submitter):
                    continue
                if submitter.left:
                    submitter.wait = self.begin_wait(time_s)
                elif queue:
                    queue.append(sent._replace(event=None))
                else:
                    self._after = _end_of(submitter, time_s)
            elif submitter is not None and (end := _end_of(submitter, time_s)) is not None:
                self._events.append(end)

    def take(self) -> list[Any]:
        """Return the events of a message and remove them."""
        events = self._events
        self._events = []
        self._add_postponed()
        return events

    def _add_postponed(self) -> None:
        if self._after is not None:
            self._events.append(self._after)
            self._after = None


def _end_of(submitter: Submitter, time_s: float) -> Any:
    """Return the event that all submitters of a group have ended; None: some have not."""
    group = submitter.group
    group.running -= 1
    return None if group.running else group.end_event(time_s)
