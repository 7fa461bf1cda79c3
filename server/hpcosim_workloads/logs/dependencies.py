"""Parsers for Slurm's texts of dependencies (`--dependency`) and job arrays (`--array`).

Source: the manual pages of `sbatch` 22.05. Extension: every kind of dependency can have a delay.
"""

from __future__ import annotations

import re
from typing import NamedTuple

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
        clauses: the conditions.
        any_of: whether one met condition is sufficient (`?`); False: all must be met (`,`).
    """

    clauses: tuple[Clause, ...]
    any_of: bool


def parse_dependency(text: str) -> DependencyText:
    """Parse a dependency such as `afterok:1005_3:1006,after:7+5` or `afterany:1?afterany:2`.

    A delay (`+`) is in minutes.

    Raises:
        ValueError: the text is invalid.
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
    """Parse the number of a job, an array (`7` or `7_*`) or a task of an array (`7_3`).

    Raises:
        ValueError: the text is invalid.
    """
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
    """Parse a job array such as `0-9`, `1,3,5-9:2` or `0-99%4`.

    Raises:
        ValueError: the text is invalid.
    """
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
