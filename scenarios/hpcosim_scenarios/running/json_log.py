"""The log of a server: one JSON object per line on standard error.

Logging neither ends nor delays a server: lines that cannot be written at once are lost, because
the reader of a pipe does not read or the disk is full. A later line gives their number.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import structlog

from hpcosim_scenarios.running.lines import Lines

STDERR = 2


def log_as_json() -> None:
    """Configure structlog for this process."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.dict_tracebacks,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=_logger_factory(),
        cache_logger_on_first_use=True,
    )


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
