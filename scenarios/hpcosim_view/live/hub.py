"""The hub: receives the reports of sessions, and feeds their viewers."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from base64 import b64encode
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from starlette.responses import StreamingResponse
from starlette.types import Message, Send

from hpcosim_protocol import ServerStatus
from hpcosim_view.errors import PaceError
from hpcosim_view.live.messages import (
    ChangePace,
    Forget,
    FrameMade,
    Obey,
    PaceChange,
    Report,
    SessionClosed,
    SessionCounted,
    SessionOpened,
    Stats,
    StatusNoted,
    Taken,
    Want,
    Watch,
    changed,
)
from hpcosim_view.live.source import MAX_CLOSED, live_of
from hpcosim_view.run.frame import Frame, append, decode_frame, encode_frame

# Server-sent events: their text, and a response that gives up on a stuck reader.

SEND_TIMEOUT_S = 60.0
"""Time after which a viewer that reads nothing is disconnected, s."""


# The encoded frames of a session, for viewers that join late or come back.

LIVE_LEVEL = 1
"""zlib level of live frames: fast."""
MAX_ENTRIES = 512
"""Number of encoded frames above which the older half is merged."""


def frame_event(number: int, data: bytes) -> bytes:
    """Return the event with an encoded frame; `number` is its id."""
    return b"id: %d\ndata: %s\n\n" % (number, b64encode(data))


def heartbeat() -> bytes:
    """Return a comment that keeps the connection open; a lost one is tried again after 1 s."""
    return b"retry: 1000\n\n"


def restart() -> bytes:
    """Return the event after which the frames begin again."""
    return b"event: restart\ndata: 0\n\n"


def end(why: str) -> bytes:
    """Return the event at the end of a session."""
    return b"event: end\ndata: %s\n\n" % json.dumps(why).encode()


def closing() -> bytes:
    """Return the event at the end of the server, while a session is open."""
    return b"event: closing\ndata: 0\n\n"


class EventStream(StreamingResponse):
    """A stream of server-sent events."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__(events)
        self._events = events

    async def stream_response(self, send: Send) -> None:
        """Send the events; end if the viewer reads nothing for `SEND_TIMEOUT_S`."""

        async def timed(message: Message) -> None:
            await asyncio.wait_for(send(message), SEND_TIMEOUT_S)

        try:
            await super().stream_response(timed)
        finally:
            await self._events.aclose()  # at once, so that the viewer is no longer counted


HEARTBEAT_S = 10.0
MAX_VIEWERS = 64
GATHER_S = 3.0
"""Time in which workers find a new process of the page, s."""
GONE = "the process of the session was killed, and the session has no journal"


class Hub:
    """The sessions that a live view shows. All runs in its event loop, unless it says otherwise.

    Args:
        on_viewed: called when the first page asks for the sessions.
        before: number of the frame before the first one of each session.
        status_age_s: age of the last status above which the server is unhealthy, s.

    Attributes:
        feeds: the sessions by label, the oldest first.
        sessions: number of sessions so far.
        retired: summed counters of sessions that are no longer kept.
        draining: whether the server ends; any thread may set it.
        closing: whether open streams end.
    """

    def __init__(
        self,
        on_viewed: Callable[[], None] = lambda: None,
        before: int = 0,
        status_age_s: float = float("inf"),
    ) -> None:
        self.feeds: dict[str, Feed] = {}
        self.sessions = 0
        self.retired = Stats()
        self.draining = self.closing = False
        self._status: tuple[float, ServerStatus] | None = None
        self._status_age_s = status_age_s
        self._before = before
        self._gathered_s = time.monotonic() + GATHER_S if before else 0.0
        self._on_viewed = on_viewed
        self._viewed = threading.Event()
        self._work: set[asyncio.Task[None]] = set()
        self._locks: dict[str, asyncio.Lock] = {}

    # In any thread

    def note_status(self, status: ServerStatus) -> None:
        """Note the status of the server."""
        self._status = time.monotonic(), status

    @property
    def status(self) -> ServerStatus | None:
        """The last status of the server; None: there is none yet."""
        return self._status[1] if self._status else None

    def problems(self) -> list[str]:
        """Return why the server should not get new sessions; empty: it is healthy."""
        if self.closing or self.draining:
            return ["draining"]
        if self._status is None:
            return []
        at_s, status = self._status
        if (age_s := time.monotonic() - at_s) > self._status_age_s:
            return [f"the front process has been silent for {age_s:.0f} s"]
        return status.problems()

    def note_view(self) -> None:
        """Note that a page has opened."""
        if not self._viewed.is_set():
            self._viewed.set()
            self._on_viewed()

    @property
    def is_viewed(self) -> bool:
        """Whether a page has opened."""
        return self._viewed.is_set()

    @property
    def viewers(self) -> int:
        """Number of viewers of all sessions."""
        return sum(feed.viewers for feed in list(self.feeds.values()))

    # In the event loop

    async def find(self, label: str) -> Feed | None:
        """Return a session; None: there is none.

        A hub of workers that has just started waits for their sessions: browsers that come back
        give up for ever if a session is not found.
        """
        while label not in self.feeds and time.monotonic() < self._gathered_s:
            await asyncio.sleep(0.02)
        return self.feeds.get(label)

    def take(self, report: Report, obey: Obey) -> None:
        """Handle a report."""
        if isinstance(report, SessionOpened):
            self._open(report, obey)
        elif isinstance(report, StatusNoted):
            self.note_status(report.status)
        elif isinstance(report, SessionCounted | FrameMade | SessionClosed):
            feed = self.feeds.get(report.label)
            if feed is not None and feed.is_from(obey):
                self._update(feed, report)

    async def settle(self, labels: Iterable[str]) -> None:
        """Handle the frames of sessions that have arrived."""
        for label in labels:
            if feed := self.feeds.get(label):
                await self._receive(feed)

    def lose(self, feed: Feed) -> None:
        """End an open session whose process is gone."""
        if not feed.complete:
            feed.close(feed.over or GONE, failed=True)

    async def drain(self, timeout_s: float) -> None:
        """Let viewers read to the end, then end their streams.

        Args:
            timeout_s: time after which slow viewers are left behind, s.
        """
        await self.settle(list(self.feeds))
        self.closing = True
        for feed in self.feeds.values():
            feed.notify()
        loop = asyncio.get_running_loop()
        until_s = loop.time() + timeout_s
        while self.viewers and loop.time() < until_s:
            await asyncio.sleep(0.02)

    async def events(self, feed: Feed, number: int) -> AsyncGenerator[bytes, None]:
        """Yield the server-sent events of a viewer until the session is over.

        Args:
            feed: the session.
            number: number of the last frame that the viewer has; 0: none.
        """
        feed.add_viewer()
        latest = b""
        try:
            yield heartbeat()
            while True:
                changed = feed.changed
                entry = feed.history.after(number)
                if entry is not None:
                    if entry.first != number + 1 and number:
                        yield restart()
                    yield frame_event(entry.last, entry.data)
                    number = entry.last
                elif feed.complete:
                    yield end(feed.over)
                    return
                elif self.closing and not feed.over:
                    yield closing()
                    return
                elif feed.latest and feed.latest is not latest:
                    latest = feed.latest
                    yield frame_event(number, latest)
                else:
                    try:
                        await asyncio.wait_for(changed.wait(), HEARTBEAT_S)
                    except TimeoutError:
                        yield heartbeat()
        finally:
            feed.remove_viewer()

    def _open(self, opened: SessionOpened, obey: Obey) -> None:
        if feed := self.feeds.get(opened.label):
            feed.restart(opened, obey)
            return
        self.sessions += 1
        self.feeds[opened.label] = Feed(opened, obey, self._before)
        closed = [feed for feed in self.feeds.values() if feed.over and not feed.viewers]
        for old in closed[: max(0, len(closed) - MAX_CLOSED)]:
            del self.feeds[old.label]
            self._locks.pop(old.label, None)
            self.retired = self.retired.plus(old.stats)
            old.forget()

    def _update(self, feed: Feed, report: SessionCounted | FrameMade | SessionClosed) -> None:
        if isinstance(report, SessionCounted):
            feed.stats, feed.pace = report.stats, report.pace
        elif isinstance(report, FrameMade):
            feed.add(report)
            task = asyncio.get_running_loop().create_task(self._receive(feed))
            self._work.add(task)
            task.add_done_callback(self._work.discard)
        else:
            feed.close(report.why, failed=report.failed)

    async def _receive(self, feed: Feed) -> None:
        async with self._locks.setdefault(feed.label, asyncio.Lock()):
            await feed.receive()


class Entry(NamedTuple):
    """One encoded frame, or several merged ones."""

    first: int
    last: int
    data: bytes


class History:
    """The frames of a session since its begin, as entries without a gap."""

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
        """Note the end of the session."""
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
