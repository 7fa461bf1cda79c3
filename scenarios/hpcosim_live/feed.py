"""The feed of one session: from the thread of the simulation to the viewers.

The thread of the simulation calls `look` and `close`. Neither waits. The event loop of the HTTP
server calls everything else.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from hpcosim_live.history import LIVE_LEVEL, History, merged
from hpcosim_results.frame import Frame, encode_frame
from hpcosim_server.engine.simulation import Simulation
from hpcosim_server.service.pace import Pace
from hpcosim_server.service.session import Opened

QUEUE = 8
"""Maximum number of frames between the simulation and the event loop."""
RATE_WINDOW_S = 1.0
WORK = 5000
"""Limit of the work of a look: some 0.1 s, so that a late viewer does not hold the simulation."""


class FrameReader(Protocol):
    """Reads a running simulation; see `RecordingReader`."""

    is_behind: bool

    def frame(self, work: int | None = None) -> Frame:
        """Return what is new since the last call, limited to some work."""


class Stats(NamedTuple):
    """Counters of a session.

    Attributes:
        now_s: simulated time, s.
        jobs_over: number of jobs that have ended or were rejected.
        requests: number of requests of the scheduler.
        decisions: number of its decisions.
        rejected: number of rejected decisions.
        messages_per_s: requests in the last second of wall time.
    """

    now_s: float = 0.0
    jobs_over: int = 0
    requests: int = 0
    decisions: int = 0
    rejected: int = 0
    messages_per_s: float = 0.0

    def plus(self, other: Stats) -> Stats:
        """Return the sums of the counts."""
        return Stats(
            jobs_over=self.jobs_over + other.jobs_over,
            requests=self.requests + other.requests,
            decisions=self.decisions + other.decisions,
            rejected=self.rejected + other.rejected,
        )


class _Read(NamedTuple):
    """A frame, and whether the simulation has more."""

    frame: Frame
    is_behind: bool


class Feed:
    """What viewers get of a session.

    Args:
        label: public label of the session.
        opened: its simulation.
        pace: its pace.
        reader: reads its simulation; called when the first viewer has come.
        wake: tells the event loop that the feed has something new; may be called by any thread.

    Attributes:
        stats: its counters, as of the last look.
        viewers: number of viewers.
        skipped: number of frames that were put off because viewers are slow; the next frame has
            their content.
        received: number of frames of the simulation.
        rounds: number of those after which it had nothing more.
        over: reason for the end of the session; empty while it is open.
        complete: whether the history has the whole session.
        changed: set, then replaced, when a viewer can go on.
        latest: the last encoded frame without rows, which tells only time and counters; the history
            does not keep it. Empty: there is none since the last frame with rows.
    """

    def __init__(
        self,
        label: str,
        opened: Opened,
        pace: Pace,
        reader: Callable[[Opened], FrameReader],
        wake: Callable[[], None],
    ) -> None:
        self.label, self.pace = label, pace
        self.scenario, self.scheduler = opened.run.scenario, opened.run.scheduler
        self.jobs = opened.jobs
        self.stats = Stats()
        self.viewers = self.skipped = self.received = self.rounds = 0
        self.over, self.complete = "", False
        self.history = History()
        self.latest = b""
        self.changed = asyncio.Event()
        self._wanted = False
        self._inbox: deque[_Read] = deque()
        self._opened: Opened | None = opened
        self._new_reader, self._reader = reader, None
        self._wake = wake
        self._last_live: Mapping[str, Any] = {}
        self._rates: deque[tuple[float, int]] = deque(maxlen=16)

    _reader: FrameReader | None

    # In the thread of the simulation

    def look(self) -> bool:
        """Read the counters and, if someone watches, make a frame.

        Returns:
            Whether the next look is due soon: the frame was limited, and the viewers keep up.
        """
        opened = self._opened
        assert opened is not None
        self.stats = self._read_stats(opened.simulation)
        if not (self.viewers or self._wanted):
            return False
        if len(self._inbox) >= QUEUE:
            self.skipped += 1
            return False
        self._wanted = False
        new = self._next_frame()
        if new.is_behind:
            self._wanted = True
        self._inbox.append(new)
        self._wake()
        return new.is_behind

    def close(self) -> None:
        """Note the end of the session. The event loop makes the last frame, if someone watches."""
        assert self._opened is not None
        self.stats = self._read_stats(self._opened.simulation)._replace(messages_per_s=0.0)
        self.over = self._opened.run.ended_because or "the session is over"
        self._wake()

    def fail(self) -> None:
        """Note that the session cannot be shown any more."""
        self.over, self.complete = "the live view of this session failed; see the log", True
        self._wake()

    def _read_stats(self, simulation: Simulation) -> Stats:
        at_s, requests = time.monotonic(), simulation.requests
        while len(self._rates) > 1 and at_s - self._rates[1][0] >= RATE_WINDOW_S:
            self._rates.popleft()
        self._rates.append((at_s, requests))
        since_s, before = self._rates[0]
        rate = (requests - before) / max(at_s - since_s, 1e-3)
        over = simulation.recording.over
        decisions, rejected = simulation.decisions, simulation.rejected
        return Stats(simulation.now_s, over, requests, decisions, rejected, rate)

    def _next_frame(self) -> _Read:
        if self._reader is None:
            assert self._opened is not None
            self._reader = self._new_reader(self._opened)
        frame = self._reader.frame(WORK)
        about = {**frame.about, "live": self.live()}
        return _Read(Frame(about, frame.columns), self._reader.is_behind)

    # In the event loop

    def live(self) -> dict[str, Any]:
        """Return the entry `live` of a frame's `about`."""
        stats, pace = self.stats, self.pace.state
        return {
            "requests": stats.requests,
            "rejected": stats.rejected,
            "messages_per_s": round(stats.messages_per_s, 1),
            "speed": pace.speed,
            "paused": pace.paused,
        }

    async def receive(self) -> None:
        """Encode what the simulation has sent, and wake the viewers."""
        while self._inbox:
            await self._take(self._inbox[0])
            self._inbox.popleft()
        while self.over and not self.complete and (self.viewers or self._wanted):
            self._wanted = True  # all of it, also if the viewer leaves
            last = await asyncio.to_thread(self._next_frame)
            await self._take(last)
            if not last.is_behind:
                self.complete, self._opened, self._reader = True, None, None
            self.notify()
        if older := self.history.older_half():
            self.history.replace(older, await asyncio.to_thread(merged, older))
        self.notify()

    async def whole(self, timeout_s: float) -> bytes:
        """Return one encoded frame with the run so far; empty: there is none yet.

        Args:
            timeout_s: longest wait for a frame of the simulation's thread, s. After it, the frame
                has what other viewers have seen.
        """
        self._wanted, before, received = True, self.rounds, self.received
        self._wake()
        until_s = time.monotonic() + timeout_s
        while self.rounds == before and not self.complete:
            changed, left_s = self.changed, until_s - time.monotonic()
            try:
                await asyncio.wait_for(changed.wait(), max(0.0, left_s))
            except TimeoutError:
                break
            if self.received != received:  # one of several limited frames
                received, until_s = self.received, time.monotonic() + timeout_s
        entries = list(self.history.entries)
        return await asyncio.to_thread(merged, entries) if entries else b""

    async def _take(self, read: _Read) -> None:
        await self._keep(read.frame)
        self.received += 1
        self.rounds += not read.is_behind

    async def _keep(self, frame: Frame) -> None:
        has_rows = not self.history.last or any(len(c) for c in frame.columns.values())
        if not has_rows and not self.over and frame.about == self._last_live:
            return
        self._last_live = frame.about
        data = await asyncio.to_thread(encode_frame, frame, LIVE_LEVEL)
        if has_rows or self.over:
            self.history.add(data)
            self.latest = b""
        else:
            self.latest = data

    def notify(self) -> None:
        """Wake the viewers."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()
