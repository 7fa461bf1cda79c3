"""The feed of one session: from its reports to its viewers, in the event loop of the hub."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hpcosim_view.errors import PaceError
from hpcosim_view.live.control import changed
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
from hpcosim_view.run.frame import Frame, append, decode_frame, encode_frame

# The encoded frames of a session, for viewers that join late or come back.

LIVE_LEVEL = 1
"""zlib level of live frames: fast."""
MAX_ENTRIES = 512
"""Number of encoded frames above which the older half is merged."""


class Entry(NamedTuple):
    """One encoded frame, or several merged ones.

    Attributes:
        first, last: numbers of the frames in it.
        data: the encoded frame.
    """

    first: int
    last: int
    data: bytes


class History:
    """The frames of a session since its begin, as entries without a gap.

    Args:
        before: number of the frame before the first one.
    """

    def __init__(self, before: int = 0) -> None:
        self.entries: list[Entry] = []
        self._before = before

    @property
    def last(self) -> int:
        """Number of the last frame, or of the one before the first."""
        return self.entries[-1].last if self.entries else self._before

    @property
    def size_bytes(self) -> int:
        """Size of all entries."""
        return sum(len(entry.data) for entry in self.entries)

    def add(self, data: bytes) -> None:
        """Add an encoded frame."""
        number = self.last + 1
        self.entries.append(Entry(number, number, data))

    def after(self, number: int) -> Entry | None:
        """Return the entry that follows a frame.

        Args:
            number: number of the last frame that a viewer has; 0: none.

        Returns:
            The entry, None if there is no newer frame, or the first entry if the viewer must start
            again: its frame is unknown, or has been merged with later ones.
        """
        if number == self.last or not self.entries:
            return None
        for entry in reversed(self.entries):
            if entry.first == number + 1:
                return entry
            if entry.first <= number:
                break
        return self.entries[0]

    def older_half(self) -> Sequence[Entry]:
        """Return the entries to merge; empty: there are few."""
        return self.entries[: MAX_ENTRIES // 2] if len(self.entries) > MAX_ENTRIES else ()

    def replace(self, entries: Sequence[Entry], merged: bytes) -> None:
        """Replace the first entries by their merged frame."""
        self.entries[: len(entries)] = [Entry(entries[0].first, entries[-1].last, merged)]


def merged(entries: Sequence[Entry]) -> bytes:
    """Return the encoded frame of several entries, which follow each other."""
    if len(entries) == 1:
        return entries[0].data
    frames: list[Frame] = [decode_frame(entry.data) for entry in entries]
    return encode_frame(append(frames), LIVE_LEVEL)


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
