"""The web server of a live view, in a thread of the simulator's process."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Self

import uvicorn

from hpcosim_live.address import HttpAddress, listen, machine_names
from hpcosim_live.app import make_app
from hpcosim_live.hub import Hub
from hpcosim_live.web_connection import REQUEST_TIMEOUT_S, connection_with
from hpcosim_live.web_log import library_messages_logged

MAX_CONNECTIONS = 256
DRAIN_S = 5.0
"""Longest wait for viewers that have not read all when the server ends, s."""
START_TIMEOUT_S = 30.0


class WebServer:
    """Serves a hub for the `with` block.

    Args:
        hub: the hub.
        address: where to listen; the socket is open when the constructor returns.
        token: the token that every request needs; empty: none.
        request_timeout_s: time after which a connection without a whole request is closed, s.

    Attributes:
        url: URL of the page, with the token.

    Raises:
        HttpBindError: the server cannot listen at the address.
    """

    def __init__(
        self,
        hub: Hub,
        address: HttpAddress,
        token: str = "",
        request_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        self._hub = hub
        self._socket, address = listen(address)
        names = () if address.is_loopback else machine_names()
        url = address.url(names)
        self.url = f"{url}?token={token}" if token else url
        self._server = uvicorn.Server(
            uvicorn.Config(
                make_app(hub, address.host, address.port, token, names),
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
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(2 * DRAIN_S)

    def _run(self) -> None:
        with library_messages_logged(), asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._ending = asyncio.Event()
        self._hub.begin()
        serving = asyncio.create_task(self._server.serve([self._socket]))
        self._ready.set()
        await self._ending.wait()
        await self._hub.drain(DRAIN_S)
        self._server.should_exit = True
        await serving
