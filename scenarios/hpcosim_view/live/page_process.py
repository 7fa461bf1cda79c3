"""The live page of a server of several processes: a process of its own serves it."""

from __future__ import annotations

import select
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpcosim_server.service.control import Control, Stopping, Summary
from hpcosim_server.service.observer import Watch
from hpcosim_server.service.pace import Speed
from hpcosim_server.service.status import LivePage
from hpcosim_view.live.address import Page
from hpcosim_view.live.hub import Hub
from hpcosim_view.live.web_server import WebServer
from hpcosim_view.live.worker_link import WorkerLink
from hpcosim_view.run.recording import RecordingReader

FLUSH_S = 5.0
"""Longest time in which a worker that ends sends its last frames, s."""
STATUS_AGE_S = 10.0
"""Age of the last status of the front above which the server is unhealthy, s."""
SOCKET_FILE = "live.sock"


class PageProcess:
    """The live page of a server of several processes. See `LiveProcess`.

    The supervisor of the server has the sockets, so they stay when the process that serves the page
    is killed. Workers connect to it, and send their sessions again to the next one.

    Args:
        page: where the page is served.
        listener: listening socket for the links of workers.
        path: its file.
        speed: speed of each new session.
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
    """The link of a worker to the live page. See `LiveLink`.

    Args:
        link: the connection.
        speed: speed of each new session.

    Attributes:
        watch: the observer of its service.
    """

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
    """Yield a live page for the supervisor of a server, with its socket for workers.

    Args:
        page: where the page is served.
        speed: speed of each new session.
    """
    folder = Path(tempfile.mkdtemp(prefix="hpcosim-", dir="/tmp"))
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(folder / SOCKET_FILE))
        listener.listen(1024)
        yield PageProcess(page, listener, folder / SOCKET_FILE, speed)
    finally:
        listener.close()
        shutil.rmtree(folder, ignore_errors=True)
