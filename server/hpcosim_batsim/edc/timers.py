"""Points in time that a component requests: single ones, and the multiples of a period."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import hpcosim_protocol as protocol
from hpcosim_batsim.bridge.event_queue import Wait
from hpcosim_batsim.bridge.run import BatsimRun, set_call
from hpcosim_batsim.edc import messages
from hpcosim_workloads.table import MAX_TIME_S

SAME_TIME_S = 1e-9  # a multiple of a period at most this long ago is that of now

Happen = Callable[[BatsimRun, Wait, float, bool], bool]
"""Called at each time; arguments: the run, the wait until then, the time, s, and whether it is the
last one. Returns whether it counts."""


@dataclass(slots=True)
class Repeated:
    """Something that happens at the multiples of a period.

    Attributes:
        left: remaining times; infinity: no end.
        alarm: id of the alarm of the next time.
    """

    period_s: float
    left: float
    happen: Happen
    alarm: int = -1


class Timers:
    """The alarms of a component."""

    def __init__(self) -> None:
        self._calls: dict[int, Callable[[BatsimRun, Wait, float], object]] = {}  # by alarm

    def on_call(self, run: BatsimRun, call: Wait, time_s: float) -> None:
        """Let happen what has been requested for this time."""
        self._calls.pop(call.number)(run, call, time_s)

    def at(
        self,
        run: BatsimRun,
        kind: str,
        when: Any,
        named: dict[str, Repeated],
        name: str,
        happen: Happen,
    ) -> None:
        """Let something happen at the times of a trigger. A time in the past means now.

        Args:
            kind: type of the trigger.
            when: the trigger.
            named: what is periodic, by name.
        """
        trigger = messages.union_of(
            "when", kind, when, {"OneShot": messages.OneShot, "Periodic": messages.Periodic}
        )
        if isinstance(trigger, messages.OneShot):
            at_s = max(_seconds(trigger.time, trigger.time_unit), run.simulation.now_s)
            self._set_alarm(run, at_s, lambda run, wait, time_s: happen(run, wait, time_s, False))
            return
        if name in named:
            raise ValueError(f"{name!r} is in use; expected a new name")
        if trigger.offset:
            raise ValueError(f"offset: expected 0, as in Batsim 5, got {trigger.offset}")
        if trigger.period < 1:
            raise ValueError(f"period: expected a number > 0, got {trigger.period}")
        modes: dict[str, type[messages.Table]] = {
            "Infinite": messages.Infinite,
            "FinitePeriodNumber": messages.FinitePeriodNumber,
        }
        mode = messages.union_of("mode", trigger.mode_type, trigger.mode, modes)
        left = math.inf if isinstance(mode, messages.Infinite) else mode.nb_periods
        if left < 1:
            raise ValueError(f"nb_periods: expected a number > 0, got {left}")
        period_s = _seconds(trigger.period, trigger.time_unit)
        named[name] = repeated = Repeated(period_s, left, happen)
        self._set_next(run, named, name, repeated)

    def end(self, run: BatsimRun, named: dict[str, Repeated], name: str) -> None:
        """End something periodic. As in Batsim, there may be none of this name."""
        repeated = named.pop(name, None)
        if repeated is not None:
            del self._calls[repeated.alarm], run.calls[repeated.alarm]
            run.simulation.carry_out(protocol.CancelAlarm(repeated.alarm))

    def _set_next(
        self, run: BatsimRun, named: dict[str, Repeated], name: str, repeated: Repeated
    ) -> None:
        def again(run: BatsimRun, wait: Wait, time_s: float) -> None:
            if repeated.happen(run, wait, time_s, repeated.left == 1):
                repeated.left -= 1
            if repeated.left and _next_s(run, repeated) <= MAX_TIME_S:
                self._set_next(run, named, name, repeated)
            else:
                del named[name]

        repeated.alarm = self._set_alarm(run, _next_s(run, repeated), again)

    def _set_alarm(
        self, run: BatsimRun, at_s: float, call: Callable[[BatsimRun, Wait, float], object]
    ) -> int:
        alarm = set_call(run, at_s).number
        self._calls[alarm] = call
        return alarm


def _next_s(run: BatsimRun, repeated: Repeated) -> float:
    """Return the next multiple of a period, s."""
    number = math.floor((run.simulation.now_s + SAME_TIME_S) / repeated.period_s) + 1
    return number * repeated.period_s


def _seconds(value: int, unit: messages.TimeUnit) -> float:
    return value / 1000 if unit == "Millisecond" else float(value)
