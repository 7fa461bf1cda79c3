"""The feed of one session: from its reports to its viewers, in the event loop of the hub."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from hpcosim_view.live.control import changed
from hpcosim_view.live.errors import PaceError
from hpcosim_view.live.history import LIVE_LEVEL, History, merged
from hpcosim_view.live.messages import (
    ChangePace,
    Forget,
    FrameMade,
    Obey,
    PaceChange,
    SessionOpened,
    Stats,
    Taken,
    Want,
    Watch,
)
from hpcosim_view.live.source import live_of
from hpcosim_view.run.frame import Frame, encode_frame


class Feed:
    """What viewers get of a session.

    Args:
        opened: the report of its begin.
        obey: passes commands to its source.
        before: number of the frame before its first one.

    Attributes:
        label: public label of the session.
        stats: its counters, as they were reported last.
        pace: settings of its pace.
        viewers: number of viewers.
        received: number of frames of the simulation.
        rounds: number of those after which it had nothing more.
        over: reason for the end of the session; empty while it is open.
        complete: whether the history has the whole session.
        changed: set, then replaced, when a viewer can go on.
        latest: the last encoded frame without rows, which tells only time and counters; the history
            does not keep it. Empty: there is none since the last frame with rows.
    """

    def __init__(self, opened: SessionOpened, obey: Obey, before: int = 0) -> None:
        self.viewers = self.received = self.rounds = 0
        self.history = History(before)
        self.changed = asyncio.Event()
        self.stats = Stats()
        self._begin(opened, obey)

    def _begin(self, opened: SessionOpened, obey: Obey) -> None:
        self.label, self.jobs = opened.label, opened.jobs
        self.scenario, self.scheduler = opened.scenario, opened.scheduler
        self.pace, self._fixed = opened.pace, opened.fixed
        self.over, self.complete = "", False
        self.latest = b""
        self._obey = obey
        self._inbox: deque[FrameMade] = deque()
        self._last_live: Mapping[str, Any] = {}

    def restart(self, opened: SessionOpened, obey: Obey) -> None:
        """Begin again: another process has the session now, or has it again.

        Viewers start again, because none has the frame before the first one.
        """
        self.history = History(self.history.last + 1)
        self._begin(opened, obey)
        if self.viewers:
            obey(Watch(self.label, True))
        self.notify()

    def is_from(self, obey: Obey) -> bool:
        """Return whether its source is the one that takes these commands."""
        return self._obey == obey

    def add_viewer(self) -> None:
        """Note a viewer."""
        self.viewers += 1
        if self.viewers == 1:
            self._obey(Watch(self.label, True))

    def remove_viewer(self) -> None:
        """Note that a viewer has left."""
        self.viewers -= 1
        if not self.viewers:
            self._obey(Watch(self.label, False))

    def forget(self) -> None:
        """Tell the source that no viewer will come."""
        self._obey(Forget(self.label))

    def close(self, why: str, *, failed: bool = False) -> None:
        """Note the end of the session.

        Args:
            why: the reason.
            failed: whether no frame will come.
        """
        self.over, self.complete = why, failed or self.complete
        self.notify()

    def live(self) -> dict[str, Any]:
        """Return the entry `live` of a frame's `about`."""
        return live_of(self.stats, self.pace)

    def change_pace(self, change: PaceChange) -> None:
        """Change the pace of the session.

        Raises:
            PaceError: viewers cannot change it.
        """
        if self._fixed:
            raise PaceError(self._fixed)
        self._obey(ChangePace(self.label, change))
        self.pace = changed(self.pace, change)

    def add(self, made: FrameMade) -> None:
        """Add a frame, which `receive` handles."""
        self._inbox.append(made)

    async def receive(self) -> None:
        """Encode what the simulation has sent, and wake the viewers."""
        inbox = self._inbox
        while inbox and inbox is self._inbox:
            made = inbox[0]
            await self._keep(made.frame, inbox)
            inbox.popleft()
            if inbox is self._inbox:
                self._obey(Taken(self.label))
                self.received += 1
                self.rounds += not made.is_behind
                self.complete |= made.is_last
                self.notify()
        history = self.history
        if older := history.older_half():
            history.replace(older, await asyncio.to_thread(merged, older))
        self.notify()

    async def whole(self, timeout_s: float) -> bytes:
        """Return one encoded frame with the run so far; empty: there is none yet.

        Args:
            timeout_s: longest wait for a frame of the simulation's thread, s. After it, the frame
                has what other viewers have seen.
        """
        before, received = self.rounds, self.received
        if not self.complete:
            self._obey(Want(self.label))
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

    async def _keep(self, frame: Frame, inbox: deque[FrameMade]) -> None:
        """Keep a frame for the viewers, unless the session began again meanwhile."""
        has_rows = not self.history.entries or any(len(c) for c in frame.columns.values())
        if not has_rows and not self.over and frame.about == self._last_live:
            return
        data = await asyncio.to_thread(encode_frame, frame, LIVE_LEVEL)
        if inbox is not self._inbox:
            return
        self._last_live = frame.about
        if has_rows or self.over:
            self.history.add(data)
            self.latest = b""
        else:
            self.latest = data

    def notify(self) -> None:
        """Wake the viewers."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()
