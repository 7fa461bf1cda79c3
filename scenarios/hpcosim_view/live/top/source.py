"""What `hpcosim show top` shows: the interface, and the playback of a results folder."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from hpcosim_view.run.frame import Frame

FACTOR = 2.0
"""Factor of one change of the speed."""
SPEEDS = (1e-3, 1e12)
"""Lowest and highest speed of a playback."""
TIMES = ("job.submit_s", "start.time_s", "pause.time_s", "end.time_s", "power.time_s")
"""Columns with the times at which a playback can stop."""


class Source(Protocol):
    """A run that goes on. All methods return at once."""

    def frame(self) -> Frame | None:
        """Return the run so far, the same object as before if nothing is new; None: none yet."""

    def now_s(self) -> float:
        """Return the simulated time that is shown, s."""

    def status(self) -> str:
        """Return speed, pause and trouble as text."""

    def advance(self, elapsed_s: float) -> None:
        """Let wall time pass, s."""

    def toggle_pause(self) -> None:
        """Pause, or go on."""

    def step(self) -> None:
        """Go to the next event, and pause."""

    def change_speed(self, factor: float) -> None:
        """Multiply the speed."""

    def close(self) -> None:
        """End."""


def speed_text(speed: float | None) -> str:
    """Return a speed as text; None: as fast as possible."""
    return "full speed" if speed is None else f"{speed:,.6g} s/s"


class Playback:
    """A results folder, played back. It begins at the begin of the run.

    Args:
        frame: the whole run.
        speed: simulated seconds per wall-clock second; None: the whole run takes a minute.
    """

    def __init__(self, frame: Frame, speed: float | None = None) -> None:
        self._frame = frame
        self._start_s, self._end_s = float(frame.about["start_s"]), float(frame.about["now_s"])
        self._at_s = self._start_s
        self._speed = speed or min(max((self._end_s - self._start_s) / 60, SPEEDS[0]), SPEEDS[1])
        self._paused = False
        times_s = np.unique(np.concatenate([frame.columns[name] for name in TIMES]))
        self._times_s = times_s[(times_s > self._start_s) & (times_s <= self._end_s)]

    def frame(self) -> Frame:
        """Return the run."""
        return self._frame

    def now_s(self) -> float:
        """Return the simulated time that is shown, s."""
        return self._at_s

    def status(self) -> str:
        """Return speed and pause as text."""
        over = self._at_s >= self._end_s
        state = ", end of the run" if over else ", paused" if self._paused else ""
        return f"playback, {speed_text(self._speed)}{state}"

    def advance(self, elapsed_s: float) -> None:
        """Let wall time pass, s."""
        if not self._paused:
            self._at_s = min(self._at_s + elapsed_s * self._speed, self._end_s)

    def toggle_pause(self) -> None:
        """Pause, or go on; at the end of the run, begin again."""
        if self._at_s >= self._end_s and not self._paused:
            self._at_s = self._start_s
        else:
            self._paused = not self._paused

    def step(self) -> None:
        """Go to the next event, and pause."""
        self._paused = True
        index = int(np.searchsorted(self._times_s, self._at_s, side="right"))
        self._at_s = float(self._times_s[index]) if index < len(self._times_s) else self._end_s

    def change_speed(self, factor: float) -> None:
        """Multiply the speed."""
        self._speed = min(max(self._speed * factor, SPEEDS[0]), SPEEDS[1])

    def close(self) -> None:
        """Do nothing."""
