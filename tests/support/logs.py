"""What a server logs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hpcosim_server import log


@contextmanager
def captured_log() -> Iterator[list[log.Event]]:
    """Collect the events that are logged in the `with` block instead of writing them."""
    events: list[log.Event] = []
    previous = log.write_to(events.append)
    try:
        yield events
    finally:
        log.write_to(previous)
