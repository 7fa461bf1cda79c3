"""The reports of workers in the process of the page."""

from __future__ import annotations

import asyncio
import socket
from typing import NamedTuple

import msgspec

from hpcosim_server import log
from hpcosim_view.live.feed import Feed
from hpcosim_view.live.framing import framed, read_message
from hpcosim_view.live.hub import Hub
from hpcosim_view.live.messages import (
    Command,
    Obey,
    SessionOpened,
    WorkerConnected,
    WorkerRestored,
    decode_report,
    encode_command,
)


class _Link(NamedTuple):
    """A connection of a worker.

    Attributes:
        obey: passes commands to it.
        labels: the sessions that it has reported.
    """

    obey: Obey
    labels: set[str]


class WorkerReports:
    """Receives the reports of workers for a hub, in its event loop.

    Args:
        hub: the hub.
    """

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
