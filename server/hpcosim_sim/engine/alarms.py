"""Alarms: a scheduler sets an alarm to be called at a given simulation time."""

from __future__ import annotations

from collections.abc import Callable

from hpcosim_protocol import Alarm, Event
from hpcosim_sim.engine.clock import Clock, Rank, Timer
from hpcosim_sim.errors import Rejection
from hpcosim_workloads.table import MAX_TIME_S

MAX_ALARMS = 100_000
"""Maximum number of alarms that are set at the same time."""


class Alarms:
    """The pending alarms of a simulation.

    Args:
        clock: clock of the simulation.
        emit: called with an `Alarm` event when an alarm goes off.
    """

    def __init__(self, clock: Clock, emit: Callable[[Event], None]) -> None:
        self._clock = clock
        self._emit = emit
        self._timers: dict[int, Timer] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def times_s(self) -> dict[int, float]:
        """Return the time of each pending alarm, s, by alarm id."""
        return {alarm_id: timer.at_s for alarm_id, timer in self._timers.items()}

    def set(self, alarm_id: int, at_s: float) -> None:
        """Set an alarm. It replaces a pending alarm with the same id.

        Args:
            alarm_id: number of the alarm, chosen by the scheduler.
            at_s: simulation time at which it goes off, s; above now, at most `MAX_TIME_S`.

        Raises:
            Rejection: `at_s` is out of range, or `MAX_ALARMS` alarms are pending.
        """
        now_s = self._clock.now
        if not now_s < at_s <= MAX_TIME_S:
            raise Rejection(
                "bad_time",
                f"set_alarm.at_s is {at_s}; expected a time above {now_s} (now) and at most "
                f"{MAX_TIME_S}",
            )
        previous = self._timers.get(alarm_id)
        if previous is not None:
            self._clock.cancel(previous)
        elif len(self._timers) >= MAX_ALARMS:
            raise Rejection(
                "not_allowed", f"{MAX_ALARMS} alarms are pending, the maximum of a session"
            )
        self._timers[alarm_id] = self._clock.at(at_s, Rank.ALARM, self._on_alarm, alarm_id)

    def cancel(self, alarm_id: int) -> None:
        """Cancel a pending alarm.

        Raises:
            Rejection: no pending alarm has this id.
        """
        timer = self._timers.pop(alarm_id, None)
        if timer is None:
            raise Rejection("unknown_alarm", f"cancel_alarm: alarm {alarm_id} is not pending")
        self._clock.cancel(timer)

    def _on_alarm(self, timer: Timer) -> None:
        del self._timers[timer.subject]
        self._emit(Alarm(self._clock.now, timer.subject))
