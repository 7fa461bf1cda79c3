"""Slurm's texts: numbers, durations, resources, node lists, tasks of arrays, times.

A text of another form is a `ReadingError`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hpcosim_protocol.errors import HostListError
from hpcosim_protocol.hosts import expand
from hpcosim_slurm.errors import ReadingError
from hpcosim_slurm.files.output import InputError
from hpcosim_workloads.logs import quantities
from hpcosim_workloads.logs.quantities import FieldError, is_unknown, shown

MAX_DEVICES = 1024
"""Most devices of a name on a node. What has more, such as bandwidth, is no device."""

_NOTHING = frozenset(("", "(null)", "N/A", "n/a", "None", "NONE", "Unknown", "None assigned"))
_UNLIMITED = frozenset(("UNLIMITED", "INFINITE", "NOT_SET", "INVALID", "PARTITION_LIMIT"))

Value = TypeVar("Value")

MAX_WAITING_TASKS = 1000
"""Number of waiting tasks of an array that are told apart; later ones follow as these start."""
_TASK_SHIFT = 32  # Slurm's numbers of jobs have at most 32 bits
_PART = re.compile(r"(\d{1,10})(?:-(\d{1,10}))?(?::(\d{1,10}))?")

LEAST_UNIX_S, MOST_UNIX_S = 0.0, 32503680000.0  # 1970 to 3000
_UNIX = re.compile(r"\d{1,12}(?:\.\d{1,9})?")


def text_of(value: str) -> str:
    """Return a text; empty if Slurm prints that there is none, such as `(null)` or `N/A`."""
    return "" if value in _NOTHING else value


def number_of(value: str) -> int:
    """Return a number; 0 if there is none."""
    return 0 if value in _NOTHING else _read(quantities.count_of, value)


def memory_mb(value: str) -> float:
    """Return an amount of memory such as `4000`, `80M` or `1.50G`, MiB."""
    return _read(quantities.memory_of, value).mb


def time_of(value: str) -> float | None:
    """Return a Unix time, s; None if there is none."""
    if value in _NOTHING:
        return None
    if not re.fullmatch(r"\d{1,12}", value):
        raise ReadingError(f"expected a Unix time, got {value[:80]!r}")
    return float(value)


def duration_s(value: str) -> float | None:
    """Return a duration such as `10:00`, `1:00:00` or `2-12:00:00`, s; None: unlimited or none."""
    if value in _NOTHING or value.upper() in _UNLIMITED:
        return None
    return _read(quantities.duration_s, value)


def tres_of(value: str) -> dict[str, float]:
    """Return trackable resources such as `cpu=8,mem=80M,node=2` by name; memory in MiB."""
    return {} if value in _NOTHING else _read(quantities.tres_of, value)


def nodes_of(value: str) -> tuple[str, ...]:
    """Return the names of a node list such as `node[0-3,7]`."""
    if value in _NOTHING:
        return ()
    try:
        return tuple(expand(value))
    except HostListError as error:
        raise ReadingError(f"node list: {error}") from None


def devices_of(value: str) -> dict[str, int]:
    """Return numbers of devices by name with type, such as `{"gpu:a100": 4}`.

    Resources that jobs do not consume, and those of more than `MAX_DEVICES`, are left out.
    """
    if value in _NOTHING:
        return {}
    consumed = (each for each in value.split(",") if ":no_consume" not in each)
    found = _read(quantities.device_counts, ",".join(consumed))
    return {
        name: count
        for name, count in found.items()
        if name != "none" and 0 < count <= MAX_DEVICES  # of `sbatch --gres=none`
    }


def _read(read: Callable[[str], Value], text: str) -> Value:
    """Return what a reader of `quantities` returns; its errors are `ReadingError`."""
    try:
        return read(text)
    except ValueError as error:
        raise ReadingError(str(error)) from None


def task_id(array: int, task: int) -> int:
    """Return the number of an array's task in this package.

    Slurm gives a task a number of its own when it starts, so this one is made of the number of the
    array and that of the task. It stays the same from submission to end.
    """
    return (task + 1 << _TASK_SHIFT) + array


def tasks_of(text: str) -> list[int]:
    """Return the first `MAX_WAITING_TASKS` tasks of a list such as `1-5,9-17:2%3`, in its order."""
    listed = text.partition("%")[0]
    return list(islice(_tasks(listed), MAX_WAITING_TASKS))


def limit_of(text: str) -> int:
    """Return how many tasks of a list such as `1-5%2` may run at once; 0: no limit."""
    limit = text.partition("%")[2]
    if not re.fullmatch(r"\d{0,9}", limit):
        raise ReadingError(f"expected a number of tasks after %, got {limit[:80]!r}")
    return int(limit or 0)


def _tasks(listed: str) -> Iterator[int]:
    for part in listed.split(","):
        found = _PART.fullmatch(part)
        if found is None:
            raise ReadingError(f"expected tasks of an array such as 1-5,9, got {listed[:80]!r}")
        first, last, step = found.groups()
        yield from range(int(first), int(last or first) + 1, max(int(step or 1), 1))


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
