"""Connections of the web server that cannot be held open by half a request."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

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
