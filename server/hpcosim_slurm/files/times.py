"""Times of day in records: local times of a time zone, times with an offset, and Unix times."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hpcosim_slurm.files.errors import FieldError, InputError
from hpcosim_slurm.files.units import is_unknown, shown

LEAST_UNIX_S, MOST_UNIX_S = 0.0, 32503680000.0  # 1970 to 3000
_UNIX = re.compile(r"\d{1,12}(?:\.\d{1,9})?")


def zone_of(name: str) -> ZoneInfo:
    """Return a time zone of the IANA database, such as `Europe/Berlin`.

    Raises:
        InputError: there is no such zone.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(
            f"--time-zone: there is no time zone {shown(name)}; expected a name of the IANA "
            "database, such as Europe/Berlin or UTC"
        ) from None


def moments_of(text: str, zone: ZoneInfo) -> tuple[float, ...]:
    """Return the Unix times, s, that a text may mean.

    Accepted are ISO times (`2026-11-22T00:14:58`), with an offset or local to the zone, and Unix
    times in digits. A local time in the hour that is repeated when summer time ends has two
    meanings, the earlier first. A time in the hour that is skipped when summer time begins counts
    with the offset before it. A text such as `Unknown` has none.

    Raises:
        FieldError: the text has another form.
    """
    text = text.strip()
    if is_unknown(text):
        return ()
    if _UNIX.fullmatch(text):
        return _bounded((float(text),), text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise FieldError(
            f"expected a time such as 2026-11-22T00:14:58 or Unknown, got {shown(text)}"
        ) from None
    try:
        if time.tzinfo is not None:
            return _bounded((time.timestamp(),), text)
        both = (time.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
        first, second = both
    except (OverflowError, ValueError, OSError):
        raise FieldError(f"expected a year from 1970 to 3000, got {shown(text)}") from None
    if first == second or is_skipped(time, zone):
        return _bounded((first,), text)
    return _bounded((first, second), text)


def origin_of(start: str, zone: ZoneInfo, first_s: float) -> float:
    """Return the Unix time of simulated second 0, s.

    Args:
        start: value of the option `--start`; empty: the first submission.
        zone: time zone of local times.
        first_s: first submission, Unix time, s.

    Raises:
        InputError: the value of the option is no time.
    """
    if not start:
        return first_s
    try:
        return moments_of(start, zone)[0]
    except IndexError:
        raise InputError(f"--start: expected a time, got {shown(start)}") from None
    except FieldError as error:
        raise InputError(f"--start: {error}") from None


def is_skipped(time: datetime, zone: ZoneInfo) -> bool:
    """Return whether a local time does not exist, because clocks are set forward over it."""
    there = time.replace(tzinfo=zone).astimezone(UTC).astimezone(zone)
    return there.replace(tzinfo=None) != time.replace(tzinfo=None)


def consistent(
    candidates: Sequence[tuple[float, ...]], elapsed_s: float | None
) -> tuple[tuple[float | None, ...], bool]:
    """Choose among the meanings of the times of one record.

    Args:
        candidates: meanings of the submission, the eligible time, the start and the end; empty:
            unknown.
        elapsed_s: run time, s; None: unknown.

    Returns:
        The times, and whether there was a choice. The times do not decrease if possible, the time
        from start to end is nearest to the run time, and among equals the earlier time is chosen.
    """
    options = [each or (None,) for each in candidates]
    if all(len(each) == 1 for each in options):
        return tuple(each[0] for each in options), False

    def fault(times: tuple[float | None, ...]) -> tuple[float, float]:
        known = [time for time in times if time is not None]
        backwards = sum(max(a - b, 0.0) for a, b in itertools.pairwise(known))
        start, end = times[-2:]
        off = 0.0
        if start is not None and end is not None and elapsed_s is not None:
            off = abs(end - start - elapsed_s)
        return backwards, off

    return min(itertools.product(*options), key=fault), True


def as_text(unix_s: float) -> str:
    """Return a Unix time as an ISO time in UTC."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=unix_s)).isoformat()


def _bounded(times: tuple[float, ...], text: str) -> tuple[float, ...]:
    if not all(LEAST_UNIX_S <= time <= MOST_UNIX_S for time in times):
        raise FieldError(f"expected a year from 1970 to 3000, got {shown(text)}")
    return times
