"""The live page of a server of several processes: a process of its own serves it."""

from __future__ import annotations

import asyncio
import select
import shutil
import socket
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from hpcosim_server import log
from hpcosim_server.service.control import Control, Stopping, Summary
from hpcosim_server.service.observer import Watch
from hpcosim_server.service.pace import Speed
from hpcosim_server.service.session import Opened
from hpcosim_server.service.status import LivePage
from hpcosim_view.live.address import Page
from hpcosim_view.live.hub import Hub
from hpcosim_view.live.messages import (
    Report,
    SessionCounted,
    StatusNoted,
    WorkerConnected,
    WorkerRestored,
    decode_command,
    encode_report,
    framed,
    receive_message,
)
from hpcosim_view.live.source import FrameReader, Sources
from hpcosim_view.live.web_server import WebServer
from hpcosim_view.run.recording import RecordingReader

# The link of a worker to the process of the page. It comes back; the simulation never waits.

MOST_COUNTS = 1000
"""Reports that wait, above which new counters are left out: the next ones replace them."""
MOST_REPORTS = 10_000
"""Reports that wait, above which the link begins anew: the other process has hung for long."""
AGAIN_S = 0.2  # before another attempt to connect


class WorkerLink:
    """Sends the reports of a worker's sessions, in threads of its own.

    Args:
        path: file of the socket of the process of the page.
        worker: number of the worker.
        reader: makes the reader of a session's simulation.
    """

    def __init__(self, path: Path, worker: int, reader: Callable[[Opened], FrameReader]) -> None:
        self.sources = Sources(reader, self._deliver)
        self._path, self._worker = path, worker
        self._waiting = deque[Report]()
        self._changed = threading.Condition()
        self._socket: socket.socket | None = None  # None: there is no connection
        self._is_restored = self._is_ending = False
        self._thread = threading.Thread(target=self._run, name="hpcosim-page-link", daemon=True)
        self._thread.start()

    def note_restored(self) -> None:
        """Note that the worker has restored its sessions."""
        self._is_restored = True
        self._deliver(WorkerRestored())

    def end(self, timeout_s: float, *, all_frames: bool) -> None:
        """Send what is left, and close the link.

        Args:
            timeout_s: longest time for it, s.
            all_frames: whether also closed sessions are sent that nobody watches now.
        """
        until_s = time.monotonic() + timeout_s
        with self._changed:
            is_connected = self._socket is not None
        if is_connected:
            if all_frames:
                self.sources.want_all()
            self.sources.wait_complete(until_s)
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
        self._thread.join(max(0.0, until_s - time.monotonic()))

    # In the thread of the simulations, or in that of last frames

    def _deliver(self, report: Report) -> None:
        with self._changed:
            if self._socket is None or isinstance(report, StatusNoted):  # the front tells it
                return
            if isinstance(report, SessionCounted) and len(self._waiting) >= MOST_COUNTS:
                return
            if len(self._waiting) >= MOST_REPORTS:
                self._disconnect(self._socket)
                return
            self._waiting.append(report)
            self._changed.notify_all()

    # In the threads of the link

    def _run(self) -> None:
        while not self._is_ending:
            try:
                connection = socket.socket(socket.AF_UNIX)
                connection.connect(str(self._path))
            except OSError:
                connection.close()
                with self._changed:
                    self._changed.wait_for(lambda: self._is_ending, AGAIN_S)
                continue
            self._use(connection)

    def _use(self, connection: socket.socket) -> None:
        """Send reports on a connection until it breaks, or until the link ends."""
        with self._changed:
            self._waiting.clear()
            self._waiting.append(WorkerConnected(self._worker))
            self._socket = connection
        obeying = threading.Thread(target=self._obey, args=(connection,), daemon=True)
        obeying.start()
        self.sources.announce()
        if self._is_restored:
            self._deliver(WorkerRestored())
        try:
            while (report := self._next(connection)) is not None:
                connection.sendall(framed(encode_report(report)))
            if self._is_ending:  # a socket that is closed too early loses what is on its way
                connection.shutdown(socket.SHUT_WR)
                obeying.join()
        except OSError as error:
            log.warning("page_link_lost", worker=self._worker, error=str(error))
        except Exception as error:  # a bug of the live view
            log.exception("live_view_failed", worker=self._worker, error=str(error))
        finally:
            self._disconnect(connection)
            connection.close()

    def _next(self, connection: socket.socket) -> Report | None:
        """Return the next report to send; None: there will be none on this connection."""
        with self._changed:
            while self._socket is connection:
                if self._waiting:
                    return self._waiting.popleft()
                if self._is_ending:
                    return None
                self._changed.wait()
            return None

    def _obey(self, connection: socket.socket) -> None:
        """Carry out commands until the connection breaks."""
        try:
            while True:
                self.sources.obey(decode_command(receive_message(connection)))
        except (OSError, msgspec.MsgspecError):
            self._disconnect(connection)

    def _disconnect(self, connection: socket.socket) -> None:
        """Use a connection no more; both its threads end."""
        with self._changed:
            if self._socket is connection:
                self._socket = None
                self._waiting.clear()
            self._changed.notify_all()
        with suppress(OSError):  # it is closed
            connection.shutdown(socket.SHUT_RDWR)


FLUSH_S = 5.0
"""Longest time in which a worker that ends sends its last frames, s."""
STATUS_AGE_S = 10.0
"""Age of the last status of the front above which the server is unhealthy, s."""
SOCKET_FILE = "live.sock"


class PageProcess:
    """The live page of a server of several processes. See `LiveProcess`.

    The supervisor of the server has the sockets, so they stay when the process that serves the page
    is killed. Workers connect to it, and send their sessions again to the next one.
    """

    def __init__(self, page: Page, listener: socket.socket, path: Path, speed: Speed) -> None:
        self._page, self._listener, self._path, self._speed = page, listener, path, speed

    def run(self, control: Control) -> None:
        """Serve the page until the supervisor ends it, or is gone."""

        def viewed() -> None:
            control.send(LivePage(self._page.url, viewed=True))

        # A viewer of an earlier process has no number that this one uses for another frame.
        hub = Hub(viewed, before=time.time_ns() // 1_000_000, status_age_s=STATUS_AGE_S)
        with WebServer(hub, self._page, self._listener):
            while not control.is_closed:
                select.select([control], [], [])
                order = control.order()
                if isinstance(order, Summary):
                    hub.note_status(order.of)
                elif isinstance(order, Stopping):
                    hub.draining = True
                    if order.is_over:
                        break
        if control.is_closed:  # the supervisor did not live to do it
            shutil.rmtree(self._path.parent, ignore_errors=True)

    def link(self, worker: int) -> PageLink:
        """Return the link of a worker, in its process."""
        self._page.socket.close()
        self._listener.close()
        return PageLink(WorkerLink(self._path, worker, RecordingReader), self._speed)


class PageLink:
    """The link of a worker to the live page. See `LiveLink`."""

    def __init__(self, link: WorkerLink, speed: Speed) -> None:
        self._link = link
        self.watch = Watch(link.sources, speed)

    def note_restored(self) -> None:
        """Note that the worker has restored its sessions."""
        self._link.note_restored()

    def end(self, *, all_frames: bool) -> None:
        """Send what viewers have not seen, for some seconds at most.

        Args:
            all_frames: whether also closed sessions are sent that nobody watches now.
        """
        self._link.end(FLUSH_S, all_frames=all_frames)


@contextmanager
def page_process(page: Page, speed: Speed) -> Iterator[PageProcess]:
    """Yield a live page for the supervisor of a server, with its socket for workers."""
    folder = Path(tempfile.mkdtemp(prefix="hpcosim-", dir="/tmp"))
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(folder / SOCKET_FILE))
        listener.listen(1024)
        yield PageProcess(page, listener, folder / SOCKET_FILE, speed)
    finally:
        listener.close()
        shutil.rmtree(folder, ignore_errors=True)


def sources_of(
    hub: Hub, loop: asyncio.AbstractEventLoop, reader: Callable[[Opened], FrameReader]
) -> Sources:
    """Return the observer of a service, which reports to a hub."""

    def deliver(report: Report) -> None:
        with suppress(RuntimeError):  # the loop is closed: there are no viewers
            loop.call_soon_threadsafe(hub.take, report, sources.obey)

    sources = Sources(reader, deliver)
    return sources
