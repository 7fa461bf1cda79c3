"""The log of a server: one JSON object per line on standard error.

Logging neither ends nor delays a server: lines that cannot be written at once are lost, because
the reader of a pipe does not read or the disk is full. A later line gives their number.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, MutableMapping
from typing import Any

import structlog
from structlog.tracebacks import ExceptionDictTransformer

from hpcosim_scenarios.running.lines import Lines
from hpcosim_server.wire.log_rate import LogRate

STDERR = 2
ERRORS = ("error", "critical", "exception")
LINES_PER_S, LINES_BURST = 20.0, 1000


def log_as_json() -> None:
    """Configure structlog for this process."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            BoundedLines(),
            structlog.processors.TimeStamper(fmt="iso"),
            # Local variables have names of sessions and contents of messages.
            structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=_logger_factory(),
        cache_logger_on_first_use=True,
    )


class BoundedLines:
    """Leaves out lines beyond a rate, so that a client cannot fill the log.

    Errors have a bound of their own. The next line after those left out has their number.

    Args:
        per_s: lines per second in the long run.
        burst: lines that may follow each other at once.
    """

    def __init__(self, per_s: float = LINES_PER_S, burst: int = LINES_BURST) -> None:
        self._rates = {False: LogRate(per_s, burst), True: LogRate(per_s, burst)}

    def __call__(
        self, _logger: object, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """Return an entry, or leave it out."""
        rate = self._rates[method in ERRORS]
        if not rate.admits():
            raise structlog.DropEvent
        if left_out := rate.take_left_out():
            event["left_out"] = left_out
        return event


class LineLogger:
    """Writes each entry as one line.

    Args:
        lines: where the lines go.
    """

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def msg(self, entry: str) -> None:
        """Write an entry."""
        self._lines.write(f"{entry}\n".encode())

    debug = info = warning = error = critical = exception = msg


def _logger_factory() -> Callable[..., object]:
    """Return what makes the loggers: for standard error, or for what a notebook has instead."""
    try:
        is_plain = sys.stderr is None or sys.stderr.fileno() == STDERR
    except (AttributeError, OSError, ValueError):
        is_plain = False
    if not is_plain:
        return structlog.PrintLoggerFactory(sys.stderr)
    logger = LineLogger(Lines(STDERR, _lost_line))
    return lambda *_: logger


def _lost_line(count: int) -> bytes:
    return b'{"count": %d, "event": "log_lines_lost", "level": "warning"}\n' % count
