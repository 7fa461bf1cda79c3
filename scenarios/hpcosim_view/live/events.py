"""Server-sent events: their text, and a response that gives up on a stuck reader."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncGenerator

from starlette.responses import StreamingResponse
from starlette.types import Message, Send

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
