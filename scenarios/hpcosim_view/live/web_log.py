"""The messages of the web server's libraries, as events of the log."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from hpcosim_server import log

LIBRARIES = ("uvicorn.error", "asyncio")
INTERVAL_S = 1.0
"""Shortest time between two events with the same message, s."""


class EventHandler(logging.Handler):
    """Writes warnings and errors of libraries to the log: each message once a second at most.

    An event tells in `omitted` how often its message was left out before.
    """

    def __init__(self, interval_s: float = INTERVAL_S) -> None:
        super().__init__(logging.WARNING)
        self._interval_s = interval_s
        self._due_s: dict[str, float] = {}
        self._omitted: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it."""
        now_s, kind = time.monotonic(), str(record.msg)
        if now_s < self._due_s.get(kind, 0.0):
            self._omitted[kind] += 1
            return
        self._due_s[kind] = now_s + self._interval_s
        write = log.error if record.levelno >= logging.ERROR else log.warning
        omitted = {"omitted": count} if (count := self._omitted.pop(kind, 0)) else {}
        raised = record.exc_info[1] if record.exc_info else None
        failure = {} if raised is None else {"exception": log.described(raised)}
        write("web_server", message=record.getMessage(), **omitted, **failure)


@contextmanager
def library_messages_logged() -> Iterator[None]:
    """Write the messages of libraries to the log during the `with` block."""
    handler = EventHandler()
    loggers = [logging.getLogger(name) for name in LIBRARIES]
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, propagate in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.propagate = propagate
