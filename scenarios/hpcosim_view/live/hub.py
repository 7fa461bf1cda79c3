"""The hub: receives the reports of sessions, and feeds their viewers."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Iterable

from starlette.responses import StreamingResponse
from starlette.types import Message, Send

from hpcosim_protocol import ServerStatus
from hpcosim_view.live.feed import Feed
from hpcosim_view.live.messages import (
    FrameMade,
    Obey,
    Report,
    SessionClosed,
    SessionCounted,
    SessionOpened,
    Stats,
    StatusNoted,
)
from hpcosim_view.live.sources import MAX_CLOSED

# Server-sent events: their text, and a response that gives up on a stuck reader.

SEND_TIMEOUT_S = 60.0
"""Time after which a viewer that reads nothing is disconnected, s."""


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
    """A stream of server-sent events.

    Args:
        events: the events.
    """

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
        """Handle a report.

        Args:
            report: the report.
            obey: passes commands to its sender.
        """
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
