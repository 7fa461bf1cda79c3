"""Slurm's texts of memory, durations, resources (TRES), devices, dependencies and job arrays.

A text of another form is a `FieldError`; of a dependency or an array, a `ValueError`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from hpcosim_protocol.errors import HpcosimError

MB_BY_UNIT: Mapping[str, float] = {
    "": 1.0,
    "K": 2.0**-10,
    "M": 1.0,
    "G": 2.0**10,
    "T": 2.0**20,
    "P": 2.0**30,
    "E": 2.0**40,
}
"""Megabytes (2^20 bytes, as Slurm counts) by suffix; without a suffix Slurm means megabytes."""

UNLIMITED = frozenset(("unlimited", "infinite", "infinity", "-1"))
UNKNOWN = frozenset(("", "none", "unknown", "partition_limit", "invalid", "n/a", "none assigned"))

MOST_S = 1e12
"""Longest duration, s. Longer ones are taken for damaged text."""

_MEMORY = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)([KMGTPE]?)B?([cn]?)", re.IGNORECASE)
_DURATION = re.compile(r"(?:(\d{1,9})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9})(?:\.\d{1,9})?)?")
_DEVICE = re.compile(  # an optional prefix, a name, an optional type, an optional count
    r"(?:gres[:/])?([^:=\s]+)(?:[:=](?!\d+[KMG]?$)([^:=\s]+))?(?:[:=](\d{1,15}[KMG]?))?"
)
_COUNT = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)([KMG]?)", re.IGNORECASE)
_COUNT_BY_UNIT: Mapping[str, int] = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}

Per = Literal["job", "core", "node"]


KINDS = ("after", "afterok", "afternotok", "afterany", "aftercorr", "singleton")
MOST_REFERENCES = 10_000  # jobs that a dependency names
MOST_TASKS = 1_000_000  # of all arrays of a workload
MOST_INDEX = 2**31 - 1
MOST_JOB_ID = 2**63 - 1
MOST_DELAY_MIN = 1e12
SHOWN = 60  # characters of a text in a message

REFERENCE = re.compile(r"([0-9]{1,19})(?:_([0-9]{1,10}|\*))?(?:\+([0-9]{1,15}(?:\.[0-9]{1,15})?))?")
LONG = re.compile(r"[0-9]{11}")  # of a number that may be too large
LIMIT = re.compile(r"[0-9]{1,10}")
SPAN = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10})(?::([0-9]{1,10}))?)?")


class FieldError(HpcosimError, ValueError):
    """A text has another form than expected. The caller adds the place."""


class Memory(NamedTuple):
    """An amount of memory.

    Attributes:
        mb: the amount, MB.
        per: what it is for. Slurm before 21.08 appends `c` (core) or `n` (node).
    """

    mb: float
    per: Per = "job"


def memory_of(text: str) -> Memory:
    """Return an amount of memory such as `33600M`, `262.50G`, `2800Mc` or `4Gn`."""
    match = _MEMORY.fullmatch(text.strip())
    if match is None:
        raise FieldError(f"expected memory such as 2800M, 4.5G or 2800Mc, got {shown(text)}")
    number, unit, per = match.groups()
    kinds: Mapping[str, Per] = {"": "job", "c": "core", "n": "node"}
    return Memory(float(number) * MB_BY_UNIT[unit.upper()], kinds[per.lower()])


def duration_s(text: str) -> float | None:
    """Return a duration in seconds; None: unlimited.

    The forms are those of `sbatch --time`: `MINUTES`, `MINUTES:SECONDS`, `HOURS:MINUTES:SECONDS`,
    `DAYS-HOURS`, `DAYS-HOURS:MINUTES`, `DAYS-HOURS:MINUTES:SECONDS`; or `UNLIMITED`, `INFINITE`.
    """
    text = text.strip()
    if text.lower() in UNLIMITED:
        return None
    match = _DURATION.fullmatch(text)
    if match is None:
        raise FieldError(
            f"expected a duration such as 30, 12:30:00 or 2-12:00:00, or UNLIMITED, "
            f"got {shown(text)}"
        )
    days, *rest = match.groups()
    parts = [int(part) for part in rest if part is not None]
    if days is not None:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    else:
        hours, minutes, seconds = {
            1: (0, parts[0], 0),
            2: (0, *parts),
            3: tuple(parts),
        }[len(parts)]
    total_s = float(int(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds)
    if total_s > MOST_S:
        raise FieldError(f"expected a duration up to {MOST_S:g} s, got {shown(text)}")
    return total_s


def tres_of(text: str) -> dict[str, float]:
    """Return trackable resources such as `cpu=12,mem=33600M,node=1,gres/gpu:a100=2`.

    Memory is in MB. A resource without a type (`gres/gpu=2`) that merely sums up its types
    (`gres/gpu:a100=2`) is left out.
    """
    found: dict[str, float] = {}
    for entry in filter(None, (each.strip() for each in text.split(","))):
        name, equals, value = entry.rpartition("=")
        if not equals or not name:
            raise FieldError(f"expected resources such as cpu=4,mem=8G, got {shown(entry)}")
        found[name] = memory_of(value).mb if name in ("mem", "vmem") else _amount(value, entry)
    types = {name.partition(":")[0] for name in found if name.startswith("gres/") and ":" in name}
    return {name: value for name, value in found.items() if name not in types}


def device_counts(text: str) -> dict[str, int]:
    """Return the number of devices by name with type, of a node or of a job.

    The forms are those of Slurm 21.08 to 24.05: `gpu:2`, `gpu:a100:4(S:0-1)`, `gres:gpu:1`,
    `gres/gpu:1`, `gres/gpu=2`, `gpu` (one), `tape:no_consume:3`.

    Example:
        >>> device_counts("gpu:a100:4(S:0-1),gpu:2,shard:8")
        {'gpu:a100': 4, 'gpu': 2, 'shard': 8}
    """
    found: dict[str, int] = {}
    for entry in re.sub(r"\([^)]*\)|:no_consume", "", text).split(","):
        if not (entry := entry.strip()):
            continue
        match = _DEVICE.fullmatch(entry)
        if match is None:
            raise FieldError(f"expected devices such as gpu:2 or gpu:a100:4, got {shown(entry)}")
        name, kind, count = match.groups()
        key = f"{name}:{kind}" if kind else name
        found[key] = found.get(key, 0) + (1 if count is None else count_of(count))
    return found


def count_of(text: str) -> int:
    """Return a count, such as the `4` of `NNodes`; also `2K` and `4G` as some versions print."""
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        raise FieldError(f"expected a number, got {shown(text)}")
    return int(float(match[1]) * _COUNT_BY_UNIT[match[2].upper()])


def is_unknown(text: str) -> bool:
    """Return whether a field states nothing: empty, `None`, `Unknown`, `None assigned`, ..."""
    return text.strip().lower() in UNKNOWN


def shown(text: str) -> str:
    """Return a text of a file as a message quotes it, shortened."""
    quoted = repr(text)
    return quoted if len(quoted) <= 80 else f"{quoted[:76]}...{quoted[-1]}"


def _amount(value: str, entry: str) -> float:
    """Return a number with an optional suffix K, M, G, ... of powers of 1024."""
    match = _MEMORY.fullmatch(value)
    if match is None or match[3]:
        raise FieldError(f"expected resources such as cpu=4,mem=8G, got {shown(entry)}")
    unit = match[2].upper()
    factor = 1.0 if not unit else MB_BY_UNIT[unit] * 2.0**20
    return float(match[1]) * factor


class Reference(NamedTuple):
    """A job that another one depends on.

    Attributes:
        job_id: number of a job or of an array.
        task: index of a task of the array; None: the job, or all tasks of the array.
    """

    job_id: int
    task: int | None = None

    def __str__(self) -> str:
        return str(self.job_id) if self.task is None else f"{self.job_id}_{self.task}"


class Clause(NamedTuple):
    """One condition of a dependency.

    Attributes:
        kind: one of `KINDS`.
        references: the other jobs; empty with `singleton`.
        delay_s: time after the condition is met, s.
    """

    kind: str
    references: tuple[Reference, ...] = ()
    delay_s: float = 0.0


class DependencyText(NamedTuple):
    """A parsed dependency.

    Attributes:
        any_of: whether one met condition is sufficient (`?`); False: all must be met (`,`).
    """

    clauses: tuple[Clause, ...]
    any_of: bool


def parse_dependency(text: str) -> DependencyText:
    """Parse a dependency such as `afterok:1005_3:1006,after:7+5` or `afterany:1?afterany:2`.

    A delay (`+`) is in minutes.
    """
    if "," in text and "?" in text:
        what = "expected all conditions (',') or one of them ('?'), got both separators"
        raise ValueError(f"{what} in {_short(text)}")
    any_of = "?" in text
    parts = text.split("?" if any_of else ",")
    if len(parts) > MOST_REFERENCES or text.count(":") > MOST_REFERENCES:
        raise ValueError(f"expected at most {MOST_REFERENCES} jobs in a dependency")
    return DependencyText(tuple(clause for part in parts for clause in _clauses(part)), any_of)


def parse_reference(text: str) -> Reference:
    """Parse the number of a job, an array (`7` or `7_*`) or a task of an array (`7_3`)."""
    found = REFERENCE.fullmatch(text)
    if found is None or found[3] is not None:
        raise ValueError(f"expected a job number or ARRAY_INDEX, such as 7 or 7_3, got {text!r}")
    return _reference(found)


def _clauses(part: str) -> list[Clause]:
    kind, *texts = part.strip().split(":")
    if kind not in KINDS:
        raise ValueError(f"expected one of {', '.join(KINDS)} in a dependency, got {_short(kind)}")
    if kind == "singleton":
        if texts:
            raise ValueError(f"expected singleton without job numbers, got {_short(part)}")
        return [Clause(kind)]
    if not texts:
        raise ValueError(f"expected {kind}:JOB, such as {kind}:7, got {_short(part)}")
    by_delay: dict[float, list[Reference]] = {}
    for text in texts:
        found = REFERENCE.fullmatch(text)
        if found is None:
            what = "expected JOB, ARRAY_INDEX or JOB+MINUTES, such as 7, 7_3 or 7+5"
            if LONG.search(text):
                what += f", JOB up to {MOST_JOB_ID}, MINUTES up to {MOST_DELAY_MIN:.0f}"
            raise ValueError(f"{what}, got {_short(text)} in {_short(part)}")
        delay_min = float(found[3] or 0.0)
        if delay_min > MOST_DELAY_MIN:
            what = f"expected MINUTES up to {MOST_DELAY_MIN:.0f} after '+'"
            raise ValueError(f"{what}, got {_short(text)} in {_short(part)}")
        delay_s = delay_min * 60.0
        by_delay.setdefault(delay_s, []).append(_reference(found))
    return [Clause(kind, tuple(each), delay_s) for delay_s, each in by_delay.items()]


def _reference(found: re.Match[str]) -> Reference:
    job_id = int(found[1])
    if job_id > MOST_JOB_ID:
        raise ValueError(f"expected a job number up to 2**63 - 1, got {job_id}")
    return Reference(job_id, None if found[2] in (None, "*") else int(found[2]))


class ArrayText(NamedTuple):
    """A parsed job array.

    Attributes:
        indices: indices of the tasks, ascending.
        limit: maximum number of tasks that run at once; 0: no limit.
    """

    indices: tuple[int, ...]
    limit: int = 0


def parse_array(text: str) -> ArrayText:
    """Parse a job array such as `0-9`, `1,3,5-9:2` or `0-99%4`."""
    spans, percent, limit = text.partition("%")
    if percent and not (LIMIT.fullmatch(limit) and 0 < int(limit) <= MOST_INDEX):
        what = f"expected a number of tasks after '%' from 1 to {MOST_INDEX}, such as 0-9%3"
        raise ValueError(f"{what}, got {_short(text)}")
    indices: set[int] = set()
    for span in spans.split(","):
        found = SPAN.fullmatch(span)
        if found is None:
            what = "expected indices such as 0-9, 1,3,5 or 0-15:4, with %LIMIT at the end"
            if LONG.search(span):
                what += f", indices up to {MOST_INDEX}"
            raise ValueError(f"{what}, got {_short(text)}")
        indices |= _span(found)
        if len(indices) > MOST_TASKS:
            raise ValueError(_too_many(text))
    return ArrayText(tuple(sorted(indices)), int(limit) if percent else 0)


def _span(found: re.Match[str]) -> set[int]:
    first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
    if last > MOST_INDEX:
        raise ValueError(f"expected indices up to {MOST_INDEX}, got {last}")
    if first > last or not step:
        what = f"FIRST-LAST:STEP with FIRST <= LAST and STEP > 0, got {found[0]!r}"
        raise ValueError(f"expected {what}")
    if (last - first) // step >= MOST_TASKS:
        raise ValueError(_too_many(found[0]))
    return set(range(first, last + 1, step))


def _too_many(text: str) -> str:
    return f"expected at most {MOST_TASKS} tasks, got more in {_short(text)}"


def _short(text: str) -> str:
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")
