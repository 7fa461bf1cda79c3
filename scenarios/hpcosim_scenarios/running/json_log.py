"""The log of a server: one JSON object per line on standard error.

Logging neither ends nor delays a server: lines that cannot be written at once are lost, because
the reader of a pipe does not read or the disk is full. A later line gives their number.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime

from hpcosim_scenarios.running.lines import Lines
from hpcosim_server import log
from hpcosim_server.wire.log_rate import LogRate

STDERR = 2
LINES_PER_S, LINES_BURST = 20.0, 1000


def log_as_json() -> None:
    """Write the log of this process as lines of JSON."""
    log.write_to(BoundedLines(_line_writer()))


class BoundedLines:
    """Writes events as lines up to a rate, so that a client cannot fill the log.

    Errors have a bound of their own. The next line after those left out has their number.

    Args:
        write: writes a line without its line break.
        per_s: lines per second in the long run.
        burst: lines that may follow each other at once.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        per_s: float = LINES_PER_S,
        burst: int = LINES_BURST,
    ) -> None:
        self._write = write
        self._rates = {False: LogRate(per_s, burst), True: LogRate(per_s, burst)}

    def __call__(self, event: log.Event) -> None:
        """Write an event, or leave it out."""
        rate = self._rates[event["level"] == "error"]
        if not rate.admits():
            return
        if left_out := rate.take_left_out():
            event["left_out"] = left_out
        event["timestamp"] = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        self._write(log.as_json(event))


def _line_writer() -> Callable[[str], None]:
    """Return what writes lines: to standard error, or to what a notebook has instead."""
    try:
        is_plain = sys.stderr is None or sys.stderr.fileno() == STDERR
    except (AttributeError, OSError, ValueError):
        is_plain = False
    if not is_plain:
        stream = sys.stderr
        return lambda line: print(line, file=stream)
    lines = Lines(STDERR, _lost_line)
    return lambda line: lines.write(f"{line}\n".encode())


def _lost_line(count: int) -> bytes:
    return b'{"count": %d, "event": "log_lines_lost", "level": "warning"}\n' % count
