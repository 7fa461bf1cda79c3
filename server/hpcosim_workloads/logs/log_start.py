"""On what weekday, and at what hour of it, a log begins: what its header says."""

from __future__ import annotations

from datetime import datetime, timedelta
from email.utils import parsedate
from itertools import takewhile
from pathlib import Path

from hpcosim_workloads.logs.log_file import numbered_lines

DAY_S = 86_400.0
EPOCH = datetime(1970, 1, 1)


def log_start_s(path: Path) -> float | None:
    """Return when time 0 of an SWF log is, in seconds after a Monday, 00:00, by its local clock.

    Source: SWF 2.2, header comments. `StartTime` is that clock's own reading and is taken
    first; else `UnixStartTime`, with the seconds of `TimeZone` or, without it, at UTC.
    `TimeZoneString` is passed over: what it means depends on the tables of each machine. So a
    change to or from summer time within the log isn't followed, and moves its hours by one.

    Args:
        path: the log, plain or gzipped; its lines that begin with ';' are looked at, up to the
            first job.

    Returns:
        Seconds of [0, 604800). None where the header doesn't say, or not so that it can be read.

    Raises:
        WorkloadError: the file can't be read.
    """
    lines = (raw.decode("latin-1").strip() for _, raw in numbered_lines(path))
    header: dict[str, str] = {}  # of a label that is there twice, the first
    for line in takewhile(lambda line: not line or line.startswith(";"), lines):
        label, _, value = line.lstrip("; \t").partition(":")
        header.setdefault(label.strip(), value.strip())
    try:
        # Such as "Fri Oct 01 00:00:03 PDT 1993"; a mail's date is written alike.
        if (read := parsedate(header.get("StartTime", ""))) is not None:
            start = datetime(*read[:6])
        elif "UnixStartTime" in header:
            since_s = int(header["UnixStartTime"]) + int(header.get("TimeZone", "0"))
            start = EPOCH + timedelta(seconds=since_s)
        else:
            return None
    except (ValueError, OverflowError):  # no such day, or one beyond the calendar
        return None
    return start.weekday() * DAY_S + start.hour * 3600.0 + start.minute * 60.0 + start.second
