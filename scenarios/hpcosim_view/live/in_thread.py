"""Sessions and their hub in one process: reports go to the event loop of the hub as objects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from hpcosim_server.service.session import Opened
from hpcosim_view.live.hub import Hub
from hpcosim_view.live.messages import Report
from hpcosim_view.live.source import FrameReader
from hpcosim_view.live.sources import Sources


def sources_of(
    hub: Hub, loop: asyncio.AbstractEventLoop, reader: Callable[[Opened], FrameReader]
) -> Sources:
    """Return the observer of a service, which reports to a hub.

    Args:
        hub: the hub.
        loop: its event loop, in a thread of its own.
        reader: makes the reader of a session's simulation.
    """

    def deliver(report: Report) -> None:
        with suppress(RuntimeError):  # the loop is closed: there are no viewers
            loop.call_soon_threadsafe(hub.take, report, sources.obey)

    sources = Sources(reader, deliver)
    return sources
