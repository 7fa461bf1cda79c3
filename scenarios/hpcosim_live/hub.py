"""The hub: observes the sessions of a server, and feeds their viewers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

import structlog

from hpcosim_live.events import closing, end, frame_event, heartbeat, restart
from hpcosim_live.feed import Feed, FrameReader, Stats
from hpcosim_protocol import ServerStatus
from hpcosim_server.service.pace import Pace
from hpcosim_server.service.session import Opened

log = structlog.get_logger()

HEARTBEAT_S = 10.0
MAX_VIEWERS = 64
MAX_CLOSED = 16
"""Number of closed sessions that the hub keeps for viewers."""


class Hub:
    """The sessions that a live view shows. It is the `Observer` of a service.

    Args:
        reader: makes the reader of a session's simulation.
        on_viewed: called when the first page asks for the sessions.

    Attributes:
        feeds: the sessions by label, the oldest first.
        sessions: number of sessions so far.
        retired: summed counters of sessions that are no longer kept.
        retired_skipped: number of frames that were put off in these sessions.
        closing: whether the server ends.
        status: the last status of the service; None: there is none yet.
    """

    def __init__(
        self,
        reader: Callable[[Opened], FrameReader],
        on_viewed: Callable[[], None] = lambda: None,
    ) -> None:
        self.feeds: dict[str, Feed] = {}
        self.sessions = 0
        self.retired = Stats()
        self.retired_skipped = 0
        self.closing = False
        self.status: ServerStatus | None = None
        self._reader = reader
        self._on_viewed = on_viewed
        self._viewed = threading.Event()
        self._open: dict[str, Feed] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work: set[asyncio.Task[None]] = set()
        self._locks: dict[str, asyncio.Lock] = {}

    # In the thread of the simulations

    def opened(self, label: str, opened: Opened, pace: Pace) -> None:
        """See `Observer`."""

        def wake() -> None:
            self._in_loop(self._start_receiving, label)

        feed = Feed(label, opened, pace, self._reader, wake)
        self.sessions += 1
        self._open[label] = feed
        self._in_loop(self._add, feed)

    def ticked(self) -> bool:
        """See `Observer`."""
        has_more = False
        for label, feed in list(self._open.items()):
            try:
                has_more |= feed.look()
            except Exception as error:  # a bug of the live view must not end the simulation
                log.exception("live_view_failed", session=label, error=str(error))
                feed.fail()
                del self._open[label]
        return has_more

    def noted(self, status: ServerStatus) -> None:
        """See `Observer`."""
        self.status = status

    def closed(self, label: str) -> None:
        """See `Observer`."""
        if label in self._open:
            self._open.pop(label).close()

    def _in_loop(self, call: Callable[..., None], *arguments: object) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: there are no viewers
                self._loop.call_soon_threadsafe(call, *arguments)

    # In any thread

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

    def begin(self) -> None:
        """Use the running event loop."""
        self._loop = asyncio.get_running_loop()

    async def drain(self, timeout_s: float) -> None:
        """Let viewers read to the end, then end their streams.

        Args:
            timeout_s: time after which slow viewers are left behind, s.
        """
        for feed in list(self.feeds.values()):
            await self._receive(feed)
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
        feed.viewers += 1
        self._start_receiving(feed.label)
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
            feed.viewers -= 1

    def _add(self, feed: Feed) -> None:
        self.feeds[feed.label] = feed
        closed = [feed for feed in self.feeds.values() if feed.over and not feed.viewers]
        for old in closed[: max(0, len(closed) - MAX_CLOSED)]:
            del self.feeds[old.label]
            self._locks.pop(old.label, None)
            self.retired = self.retired.plus(old.stats)
            self.retired_skipped += old.skipped

    def _start_receiving(self, label: str) -> None:
        feed = self.feeds.get(label)
        if feed is not None:
            task = asyncio.get_running_loop().create_task(self._receive(feed))
            self._work.add(task)
            task.add_done_callback(self._work.discard)

    async def _receive(self, feed: Feed) -> None:
        async with self._locks.setdefault(feed.label, asyncio.Lock()):
            await feed.receive()
