"""Dependencies of the command line as dependencies on the job numbers of a workload."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hpcosim_imports.errors import FieldError
from hpcosim_imports.units import shown

KINDS = frozenset(("after", "afterok", "afternotok", "afterany", "aftercorr"))
MOST_JOBS = 10_000
Tasks = Mapping[int, Mapping[int, int]]
"""Job number of each task, by array and index."""

_JOB = re.compile(r"(\d{1,18})(?:_(\d{1,10}|\*))?(\+\d{1,9})?")


def dependency_of(text: str, index: int | None, tasks: Tasks) -> str:
    """Return a dependency in which tasks of arrays are replaced by their job numbers.

    `aftercorr` of a task becomes `afterok` of the task with the same index.

    Args:
        text: as in `sbatch --dependency`.
        index: index of the job in its array; None: it is not part of one.
        tasks: the known arrays. Jobs that are not in one keep their number.

    Raises:
        FieldError: the text has another form.

    Example:
        >>> dependency_of("afterok:7:9_2,singleton", None, {9: {1: 10, 2: 11}})
        'afterok:7:11,singleton'
    """
    separator = "?" if "?" in text else ","
    if separator == "?" and "," in text:
        raise FieldError(f"expected `,` or `?` between dependencies, got both in {shown(text)}")
    return separator.join(_clause(part, index, tasks) for part in text.split(separator))


def _clause(part: str, index: int | None, tasks: Tasks) -> str:
    kind, *jobs = part.split(":")
    if kind == "singleton" and not jobs:
        return kind
    if kind.isdecimal():  # the old form `--dependency=7` means afterany
        kind, jobs = "afterany", [kind, *jobs]
    if kind not in KINDS or not jobs or len(jobs) > MOST_JOBS:
        raise FieldError(f"expected a dependency such as afterok:1001, got {shown(part)}")
    corresponding = kind == "aftercorr"
    numbers = [number for job in jobs for number in _numbers(job, corresponding, index, tasks)]
    return ":".join([("afterok" if corresponding else kind), *numbers])


def _numbers(job: str, corresponding: bool, index: int | None, tasks: Tasks) -> list[str]:
    match = _JOB.fullmatch(job)
    if match is None:
        raise FieldError(f"expected a job number such as 1001 or 1001_3, got {shown(job)}")
    number, task, delay = int(match[1]), match[2], match[3] or ""
    known = tasks.get(number, {})
    if task not in (None, "*"):
        return [f"{known.get(int(task), number)}{delay}"]
    if corresponding and index in known:
        return [f"{known[index]}{delay}"]
    return [f"{each}{delay}" for each in known.values()] or [f"{number}{delay}"]
