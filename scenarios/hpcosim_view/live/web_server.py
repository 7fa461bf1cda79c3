"""The web server of a live view, in a thread of the simulator's process."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple, Self, cast

import h11
import msgspec
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from hpcosim_server import log
from hpcosim_view.live.address import Page
from hpcosim_view.live.app import make_app
from hpcosim_view.live.hub import Feed, Hub
from hpcosim_view.live.messages import (
    Command,
    Obey,
    SessionOpened,
    WorkerConnected,
    WorkerRestored,
    decode_report,
    encode_command,
    framed,
    read_message,
)

# The reports of workers in the process of the page.


class _Link(NamedTuple):
    """A connection of a worker."""

    obey: Obey
    labels: set[str]


class WorkerReports:
    """Receives the reports of workers for a hub, in its event loop."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._open: set[asyncio.StreamWriter] = set()
        self._links: dict[int, _Link] = {}
        self._lost: dict[int, dict[str, Feed]] = {}  # of workers that are gone, by label

    async def serve(self, listener: socket.socket) -> None:
        """Accept the connections of workers at a listening socket."""
        self._server = await asyncio.start_unix_server(self._connected, sock=listener)

    async def close(self) -> None:
        """Close all connections and the listening socket."""
        self._server.close()
        for out in self._open:
            out.transport.abort()
        while self._open:
            await asyncio.sleep(0)

    async def _connected(self, stream: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        """Handle the reports on a connection until it breaks."""

        def obey(command: Command) -> None:
            if not out.is_closing():
                out.write(framed(encode_command(command)))

        self._open.add(out)
        labels: set[str] = set()
        worker = 0
        try:
            while True:
                report = decode_report(await read_message(stream))
                if isinstance(report, WorkerConnected):
                    worker = report.worker
                    self._lose(worker)  # if the end of an earlier connection is not noticed yet
                    self._links[worker] = _Link(obey, labels)
                elif isinstance(report, WorkerRestored):
                    self._end_lost(worker, labels)
                if isinstance(report, SessionOpened):
                    labels.add(report.label)
                self._hub.take(report, obey)
        except (asyncio.IncompleteReadError, OSError):
            pass  # the worker has ended
        except (msgspec.MsgspecError, ValueError) as error:
            log.exception("live_view_failed", worker=worker, error=str(error))
        finally:
            await self._hub.settle(labels)  # the last frames come before the end
            if worker in self._links and self._links[worker].obey == obey:
                self._lose(worker)
            out.close()
            self._open.discard(out)

    def _lose(self, worker: int) -> None:
        """Note the sessions of a broken connection: the worker may restore the open ones."""
        link = self._links.pop(worker, None)
        for label in link.labels if link else ():
            feed = self._hub.feeds.get(label)
            if feed is None or feed.complete:
                continue
            if feed.over:
                self._hub.lose(feed)
            else:
                self._lost.setdefault(worker, {})[label] = feed

    def _end_lost(self, worker: int, restored: set[str]) -> None:
        """End the sessions that a worker had, and has not restored."""
        for label, feed in self._lost.pop(worker, {}).items():
            if label not in restored:
                self._hub.lose(feed)


# The messages of the web server's libraries, as events of the log.

LIBRARIES = ("uvicorn.error", "asyncio")
INTERVAL_S = 1.0
"""Shortest time between two events with the same message, s."""


class EventHandler(logging.Handler):
    """Writes warnings and errors of libraries to the log: each message once a second at most.

    An event tells in `omitted` how often its message was left out before.
    """

    def __init__(self, interval_s: float = INTERVAL_S) -> None:
        super().__init__(logging.WARNING)
        self._interval_s = interval_s
        self._due_s: dict[str, float] = {}
        self._omitted: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it."""
        now_s, kind = time.monotonic(), str(record.msg)
        if now_s < self._due_s.get(kind, 0.0):
            self._omitted[kind] += 1
            return
        self._due_s[kind] = now_s + self._interval_s
        write = log.error if record.levelno >= logging.ERROR else log.warning
        omitted = {"omitted": count} if (count := self._omitted.pop(kind, 0)) else {}
        raised = record.exc_info[1] if record.exc_info else None
        failure = {} if raised is None else {"exception": log.described(raised)}
        write("web_server", message=record.getMessage(), **omitted, **failure)


@contextmanager
def library_messages_logged() -> Iterator[None]:
    """Write the messages of libraries to the log during the `with` block."""
    handler = EventHandler()
    loggers = [logging.getLogger(name) for name in LIBRARIES]
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, propagate in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.propagate = propagate


# Connections of the web server that cannot be held open by half a request.

REQUEST_TIMEOUT_S = 10.0


class Connection(H11Protocol):
    """A connection that is closed if it sends no whole request in time.

    When the server has as many connections as it accepts, a new one takes the place of the one that
    has been without a whole request for longest. So peers that send nothing keep no other out.

    Attributes:
        request_timeout_s: longest time for a request, from the begin of the connection or the end
            of the reply before, s.
    """

    request_timeout_s = REQUEST_TIMEOUT_S
    _since_s = 0.0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._begin_to_wait()
        if len(self.connections) >= (self.limit_concurrency or float("inf")):
            self._make_room()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self._begin_to_wait()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    @property
    def is_waiting(self) -> bool:
        """Whether a whole request is missing."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def close_if_waiting(self) -> None:
        """Close the connection when its last reply is sent, unless a whole request has arrived."""
        if self.is_waiting:
            self.transport.close()

    def _begin_to_wait(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._since_s = self.loop.time()
        self._deadline = self.loop.call_later(self.request_timeout_s, self.close_if_waiting)

    def _make_room(self) -> None:
        others = (cast("Connection", each) for each in self.connections if each is not self)
        idle = [each for each in others if each.is_waiting or each.transport.is_closing()]
        if idle:
            oldest = min(idle, key=lambda each: each._since_s)
            self.connections.discard(oldest)
            oldest.transport.abort()  # its peer may never read what is left to send


def connection_with(request_timeout_s: float) -> Any:
    """Return the class of connections with a timeout for requests, s."""
    return type("TimedConnection", (Connection,), {"request_timeout_s": request_timeout_s})


MAX_CONNECTIONS = 256
DRAIN_S = 5.0
"""Longest wait for viewers that have not read all when the server ends, s."""
START_TIMEOUT_S = 30.0


def bounded_server(
    app: ASGIApp,
    request_timeout_s: float = REQUEST_TIMEOUT_S,
    connections: int = MAX_CONNECTIONS,
) -> uvicorn.Server:
    """Return a server that peers can neither hold up nor fill.

    Args:
        request_timeout_s: time after which a connection without a whole request is closed, s.
        connections: largest number of connections.
    """
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            loop="asyncio",
            http=connection_with(request_timeout_s),
            ws="none",
            limit_concurrency=connections,
            h11_max_incomplete_event_size=16 * 2**10,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=1,
        )
    )


class WebServer:
    """Serves a hub for the `with` block.

    Args:
        page: where it is served.
        workers: listening socket for the links of workers; None: sessions are in this process.
        request_timeout_s: time after which a connection without a whole request is closed, s.

    Attributes:
        loop: the event loop of the hub, in the `with` block.
    """

    loop: asyncio.AbstractEventLoop

    def __init__(
        self,
        hub: Hub,
        page: Page,
        workers: socket.socket | None = None,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        self._hub, self._page, self._workers = hub, page, workers
        host, port = page.address
        app = make_app(hub, host, port, page.token, page.names, page.secret)
        self._server = bounded_server(app, request_timeout_s)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hpcosim-live", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(START_TIMEOUT_S):
            raise RuntimeError("the web server has not started")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let viewers read to the end, then end the thread."""
        self.loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(2 * DRAIN_S)

    def _run(self) -> None:
        with library_messages_logged(), asyncio.Runner() as runner:
            self.loop = runner.get_loop()
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._ending = asyncio.Event()
        reports = WorkerReports(self._hub)
        if self._workers is not None:
            await reports.serve(self._workers)
        serving = asyncio.create_task(self._server.serve([self._page.socket]))
        self._ready.set()
        await self._ending.wait()
        await self._hub.drain(DRAIN_S)
        self._server.should_exit = True
        await serving
        if self._workers is not None:
            await reports.close()
