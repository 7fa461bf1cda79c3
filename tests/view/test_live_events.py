"""The stream of events to a viewer that reads nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from starlette.types import Message

import hpcosim_view.live.hub
from hpcosim_view.live.hub import EventStream, heartbeat


def test_a_viewer_that_reads_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the timeout the stream ends, and so do its events, so it is no longer counted."""
    monkeypatch.setattr(hpcosim_view.live.hub, "SEND_TIMEOUT_S", 0.05)
    ended = []

    async def events() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield heartbeat()
        finally:
            ended.append(True)

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()  # the buffers of the connection are full

    with pytest.raises(TimeoutError):
        asyncio.run(EventStream(events()).stream_response(send))
    assert ended == [True]
