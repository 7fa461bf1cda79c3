"""Weekday and hour at which a log begins, from its header."""

from __future__ import annotations

from datetime import datetime, timedelta
from email.utils import parsedate
from itertools import takewhile
from pathlib import Path

from hpcosim_workloads.logs.log_file import numbered_lines

DAY_S = 86_400.0
EPOCH = datetime(1970, 1, 1)


def log_start_s(path: Path) -> float | None:
    """Return local time at time 0 of an SWF log, in seconds after Monday 00:00.

    Source: SWF 2.2, header comments. `StartTime` is local time and has priority. Otherwise the
    result is `UnixStartTime` plus `TimeZone` seconds (default 0). `TimeZoneString` is ignored,
    because its meaning depends on the machine. Changes to and from summer time within the log are
    ignored.

    Args:
        path: the log, plain or gzipped; only the lines before the first job are read.

    Returns:
        Seconds in [0, 604800); None: the header has no valid start time.

    Raises:
        WorkloadError: the file cannot be read.
    """
    lines = (raw.decode("latin-1").strip() for _, raw in numbered_lines(path, ";"))
    header: dict[str, str] = {}  # the first value of each label
    for line in takewhile(lambda line: not line or line.startswith(";"), lines):
        label, _, value = line.lstrip("; \t").partition(":")
        header.setdefault(label.strip(), value.strip())
    try:
        # The form is that of a mail's date: "Fri Oct 01 00:00:03 PDT 1993".
        if (read := parsedate(header.get("StartTime", ""))) is not None:
            start = datetime(*read[:6])
        elif "UnixStartTime" in header:
            since_s = int(header["UnixStartTime"]) + int(header.get("TimeZone", "0"))
            start = EPOCH + timedelta(seconds=since_s)
        else:
            return None
    except (ValueError, OverflowError):  # the date does not exist or is out of range
        return None
    return start.weekday() * DAY_S + start.hour * 3600.0 + start.minute * 60.0 + start.second
