"""The web server of a live view, in a thread of the simulator's process."""

from __future__ import annotations

import asyncio
import socket
import threading
from types import TracebackType
from typing import Self

import uvicorn

from hpcosim_view.live.address import Page
from hpcosim_view.live.app import make_app
from hpcosim_view.live.hub import Hub
from hpcosim_view.live.web_connection import REQUEST_TIMEOUT_S, connection_with
from hpcosim_view.live.web_log import library_messages_logged
from hpcosim_view.live.worker_reports import WorkerReports

MAX_CONNECTIONS = 256
DRAIN_S = 5.0
"""Longest wait for viewers that have not read all when the server ends, s."""
START_TIMEOUT_S = 30.0


class WebServer:
    """Serves a hub for the `with` block.

    Args:
        hub: the hub.
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
        self._server = uvicorn.Server(
            uvicorn.Config(
                make_app(hub, host, port, page.token, page.names, page.secret),
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                lifespan="off",
                loop="asyncio",
                http=connection_with(request_timeout_s),
                ws="none",
                limit_concurrency=MAX_CONNECTIONS,
                h11_max_incomplete_event_size=16 * 2**10,
                timeout_keep_alive=5,
                timeout_graceful_shutdown=1,
            )
        )
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
