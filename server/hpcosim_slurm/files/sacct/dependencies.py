"""Dependencies of the command line as dependencies on the job numbers of a workload."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hpcosim_slurm.files.errors import FieldError
from hpcosim_slurm.files.units import shown

KINDS = frozenset(("after", "afterok", "afternotok", "afterany", "aftercorr"))
MOST_JOBS = 10_000
Tasks = Mapping[int, Mapping[int, int]]
"""Number in the workload of each task, by Slurm's number of the array and index. A job that is not
in an array is the only task of its own number."""

_JOB = re.compile(r"(\d{1,18})(?:_(\d{1,10}|\*))?(\+\d{1,9})?")


def dependency_of(text: str, index: int | None, tasks: Tasks) -> str:
    """Return a dependency in which jobs and tasks of arrays have their numbers in the workload.

    `aftercorr` of a task becomes `afterok` of the task with the same index. Jobs that are not in
    the workload are left out, and with them the conditions that have no other job.

    Args:
        text: as in `sbatch --dependency`.
        index: index of the job in its array; None: it is not part of one.
        tasks: the jobs of the workload, see `Tasks`.

    Returns:
        The dependency; empty: none of its jobs is in the workload.

    Raises:
        FieldError: the text has another form.

    Example:
        >>> dependency_of("afterok:7:8:9_2,singleton", None, {7: {0: 7}, 9: {1: 10, 2: 11}})
        'afterok:7:11,singleton'
    """
    separator = "?" if "?" in text else ","
    if separator == "?" and "," in text:
        raise FieldError(f"expected `,` or `?` between dependencies, got both in {shown(text)}")
    clauses = (_clause(part, index, tasks) for part in text.split(separator))
    return separator.join(filter(None, clauses))


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
    return ":".join([("afterok" if corresponding else kind), *numbers]) if numbers else ""


def _numbers(job: str, corresponding: bool, index: int | None, tasks: Tasks) -> list[str]:
    match = _JOB.fullmatch(job)
    if match is None:
        raise FieldError(f"expected a job number such as 1001 or 1001_3, got {shown(job)}")
    number, task, delay = int(match[1]), match[2], match[3] or ""
    known = tasks.get(number, {})
    if task not in (None, "*"):
        chosen = [known[int(task)]] if int(task) in known else []
    elif corresponding and index is not None and index in known:
        chosen = [known[index]]
    else:
        chosen = list(known.values())
    return [f"{each}{delay}" for each in chosen]
