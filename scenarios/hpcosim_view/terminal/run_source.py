"""What `hpcosim show top` shows: the playback of a results folder, or a session of a live view."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
import numpy as np

from hpcosim_view.errors import FrameError, LiveError, NoLiveViewError
from hpcosim_view.live.client import Event, LiveView, check_run
from hpcosim_view.run.frame import Frame, append

FACTOR = 2.0
"""Factor of one change of the speed."""
SPEEDS = (1e-3, 1e12)
"""Lowest and highest speed of a playback."""
TIMES = ("job.submit_s", "start.time_s", "pause.time_s", "end.time_s", "power.time_s")
"""Columns with the times at which a playback can stop."""


RETRY_S = 1.0
"""Time between two attempts to connect, s."""
FIRST_SPEED = 86_400.0
"""Speed after a session at full speed is made slower."""
MAX_REASON = 200


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


class _Live(msgspec.Struct):
    """The entry `live` of a frame's `about`; see the live view."""

    speed: float | None = None
    paused: bool = False
    messages_per_s: float = 0.0


class Following:
    """A session of a live view. If the server goes away, the thread tries again."""

    def __init__(self, view: LiveView, label: str, retry_s: float = RETRY_S) -> None:
        self._view, self._label, self._retry_s = view, label, retry_s
        self._lock = threading.Lock()
        self._whole: Frame | None = None
        self._new: list[Frame] = []
        self._trouble, self._over = "", ""
        self._closed = threading.Event()
        # Threads of a closed source end by themselves, at the latest with the process.
        threading.Thread(target=self._follow, daemon=True).start()

    def frame(self) -> Frame | None:
        """Return the run so far; None: no frame has arrived yet."""
        with self._lock:
            if self._new:
                whole = append([self._whole, *self._new] if self._whole else self._new)
                self._new = []
                try:
                    check_run(whole)
                    self._whole = whole
                except FrameError as error:
                    self._over = str(error)
            return self._whole

    def now_s(self) -> float:
        """Return the simulated time of the last frame, s."""
        frame = self.frame()
        return float(frame.about["now_s"]) if frame else 0.0

    def status(self) -> str:
        """Return speed, pause and trouble as text."""
        if self._over or self._trouble:
            return self._over or self._trouble
        live = self._live()
        state = ", paused" if live.paused else ""
        return f"live, {speed_text(live.speed)}{state}, {live.messages_per_s:,} messages/s"

    def advance(self, elapsed_s: float) -> None:
        """Do nothing: the session goes on by itself."""

    def toggle_pause(self) -> None:
        """Pause the session, or resume it."""
        self._change({"paused": not self._live().paused})

    def step(self) -> None:
        """Pause the session, or let a paused one run one batch of events."""
        self._change({"step": 1} if self._live().paused else {"paused": True})

    def change_speed(self, factor: float) -> None:
        """Multiply the speed; a session at full speed can only become slower."""
        speed = self._live().speed
        if speed is not None or factor < 1:
            self._change({"speed": FIRST_SPEED if speed is None else speed * factor})

    def close(self) -> None:
        """End the thread."""
        self._closed.set()

    def _live(self) -> _Live:
        frame = self.frame()
        try:
            return msgspec.convert(frame.about.get("live", {}) if frame else {}, _Live)
        except msgspec.ValidationError:
            return _Live()

    def _change(self, change: Mapping[str, Any]) -> None:
        def send() -> None:
            try:
                self._view.change_pace(self._label, change)
            except LiveError as error:
                self._trouble = str(error)

        threading.Thread(target=send, daemon=True).start()

    def _follow(self) -> None:
        while not self._closed.is_set() and not self._over:
            try:
                self._read()
            except NoLiveViewError:
                self._trouble = "connection lost, trying again"
            except LiveError as error:
                self._over = str(error)
            self._closed.wait(0 if self._over else self._retry_s)

    def _read(self) -> None:
        """Read the events of one connection; its first frame is the begin of the session."""
        fresh = True
        for event in self._view.events(self._label):
            if self._closed.is_set():
                return
            if event.kind == "restart":
                fresh = True
            elif event.kind == "end":
                self._over = f"over: {_reason(event)}"
                return
            elif event.kind == "message":
                self._take(self._view.frame_of(event), fresh=fresh)
                fresh = False
        self._trouble = "connection lost, trying again"

    def _take(self, frame: Frame, *, fresh: bool) -> None:
        """Take a frame; a fresh one begins the session again."""
        with self._lock:
            if fresh:
                self._whole, self._new = None, []
            self._new.append(frame)
        self._trouble = ""


def _reason(event: Event) -> str:
    try:
        return str(json.loads(event.data))[:MAX_REASON]
    except ValueError:
        return "the session has ended"
