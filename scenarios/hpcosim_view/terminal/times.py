"""Times of a run from text."""

from __future__ import annotations

import math
import re

from hpcosim_view.errors import SelectionError
from hpcosim_view.run.frame import Frame

SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
EXPECTED = (
    "expected seconds, 90m, 36h, 2d, 1w, M:SS, H:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS, or a part of "
    "the run such as 50%"
)
_NUMBER = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(?:[eE]\+?(\d{1,2}))?\s*([smhdw%]?)", re.ASCII)
_DAYS = re.compile(r"(\d{1,9})-(\d{1,9})(?::([0-5]?\d))?(?::([0-5]?\d))?", re.ASCII)
_CLOCK = re.compile(r"(?:(\d{1,9}):)?(\d{1,9}):([0-5]?\d)", re.ASCII)


def time_in(frame: Frame, text: str) -> float:
    """Return a simulated time in a run, s.

    Args:
        frame: the run.
        text: seconds; a number with a unit, such as `36h`; `M:SS`, `H:MM:SS`, `D-HH`, `D-HH:MM`
            or `D-HH:MM:SS`; or a percentage of the time from the begin to the end of the run. A
            time in the second of the begin is the begin, since tables print whole seconds.

    Raises:
        SelectionError: the text is no time, or not one of the run.
    """
    start_s, now_s = float(frame.about["start_s"]), float(frame.about["now_s"])
    at_s = _seconds(text.strip(), start_s, now_s)
    if at_s == math.floor(start_s):
        at_s = start_s
    if not start_s <= at_s <= now_s:
        raise SelectionError(
            f"--at {text:.60}: {at_s:.15g} s is not in the run, which goes from {start_s:.15g} s "
            f"(0%) to {now_s:.15g} s (100%)"
        )
    return at_s


def _seconds(text: str, start_s: float, now_s: float) -> float:
    if match := _DAYS.fullmatch(text):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return days * 86_400.0 + hours * 3600.0 + minutes * 60.0 + seconds
    if match := _CLOCK.fullmatch(text):
        hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return hours * 3600.0 + minutes * 60.0 + seconds
    if not (match := _NUMBER.fullmatch(text)):
        raise SelectionError(f"--at: {text!r:.60} is no time; {EXPECTED}")
    number, exponent, unit = match.groups()
    value = float(number) * 10.0 ** int(exponent or 0)
    if unit == "%":
        return start_s + (now_s - start_s) * value / 100 if value != 100 else now_s
    return value * SECONDS.get(unit, 1.0) if math.isfinite(value) else math.inf
