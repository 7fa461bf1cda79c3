"""Alarms that a scheduler sets to be woken at a time it names."""

from __future__ import annotations

from collections.abc import Callable

from hpcosim_protocol import Alarm, Event
from hpcosim_server.engine.clock import Clock, Rank, Timer
from hpcosim_server.errors import Rejection
from hpcosim_workloads.table import LATEST_S

MAX_ALARMS = 100_000  # set at a time


class Alarms:
    """The alarms that are set and have not gone off.

    Args:
        clock: the simulation's.
        tell: called with the event when an alarm goes off.
    """

    def __init__(self, clock: Clock, tell: Callable[[Event], None]) -> None:
        self._clock = clock
        self._tell = tell
        self._timers: dict[int, Timer] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def times_s(self) -> dict[int, float]:
        """Return when each alarm goes off, s, by its number."""
        return {alarm_id: timer.at_s for alarm_id, timer in self._timers.items()}

    def set(self, alarm_id: int, at_s: float) -> None:
        """Set an alarm; one of the same number is replaced.

        Raises:
            Rejection: `at_s` is not in the future or too late, or there are too many alarms.
        """
        now_s = self._clock.now
        if not now_s < at_s <= LATEST_S:
            raise Rejection(
                "bad_time",
                f"an alarm must be after now, {now_s} s, and by {LATEST_S} s; not at {at_s} s",
            )
        previous = self._timers.get(alarm_id)
        if previous is not None:
            self._clock.cancel(previous)
        elif len(self._timers) >= MAX_ALARMS:
            raise Rejection("not_allowed", f"a session has at most {MAX_ALARMS} alarms")
        self._timers[alarm_id] = self._clock.at(at_s, Rank.ALARM, self._on_alarm, alarm_id)

    def cancel(self, alarm_id: int) -> None:
        """Cancel an alarm.

        Raises:
            Rejection: there is none of this number.
        """
        timer = self._timers.pop(alarm_id, None)
        if timer is None:
            raise Rejection("unknown_alarm", f"there is no alarm {alarm_id}")
        self._clock.cancel(timer)

    def _on_alarm(self, timer: Timer) -> None:
        del self._timers[timer.subject]
        self._tell(Alarm(self._clock.now, timer.subject))
