"""Dependencies of jobs as those of the protocol."""

from __future__ import annotations

import re
from typing import NamedTuple

from hpcosim_protocol import Dependency
from hpcosim_slurm.reading.arrays import MAX_WAITING_TASKS, task_id
from hpcosim_slurm.state import LiveJob
from hpcosim_slurm.worlds.shown import Shown
from hpcosim_workloads.logs.dependencies import Clause, Reference, parse_dependency

_REMARK = re.compile(r"\([a-z]*\)")  # Slurm writes `afterok:7(unfulfilled)`


class Conditions(NamedTuple):
    """What a job waits for.

    Attributes:
        dependencies: the conditions that the protocol can express.
        any_of: whether one of them is sufficient.
        is_complete: whether there are no others.
    """

    dependencies: tuple[Dependency, ...] = ()
    any_of: bool = False
    is_complete: bool = True


UNKNOWN = Conditions(is_complete=False)


def conditions_of(job: LiveJob, shown: Shown) -> Conditions:
    """Return what a job waits for.

    A condition is expressed if the scheduler sees all jobs that it names. Slurm removes conditions
    that are met from its text: what it still says of other jobs, it waits for.

    Args:
        job: the job.
        shown: what the scheduler sees.
    """
    if not job.dependency:
        return Conditions()
    try:
        parsed = parse_dependency(_REMARK.sub("", job.dependency))
    except ValueError:
        return UNKNOWN
    found = [_dependency(job, clause, shown) for clause in parsed.clauses]
    known = tuple(each for each in found if each is not None)
    if len(known) == len(found):
        return Conditions(known, parsed.any_of)
    return UNKNOWN if parsed.any_of else Conditions(known, is_complete=False)


def _dependency(job: LiveJob, clause: Clause, shown: Shown) -> Dependency | None:
    """Return a condition; None: a job that it names is over, or in no partition that is shown."""
    numbers: list[int] = []
    for each in clause.references:
        found = _numbers(job, clause.kind, each, shown)
        if not found:
            return None
        numbers += found
    kind = "afterok" if clause.kind == "aftercorr" else clause.kind
    return Dependency(kind, tuple(numbers), clause.delay_s)  # type: ignore[arg-type]


def _numbers(job: LiveJob, kind: str, other: Reference, shown: Shown) -> list[int]:
    """Return the numbers of the jobs that a reference names; empty: they are not known."""
    if other.task is not None:
        wanted = [task_id(other.job_id, other.task)]
    elif kind == "aftercorr" and job.array is not None:
        wanted = [task_id(other.job_id, job.task)]
    elif other.job_id in shown.tasks:
        wanted = shown.tasks[other.job_id]
        if len(wanted) >= MAX_WAITING_TASKS:
            return []  # there may be more
    else:
        wanted = [other.job_id]
    jobs = shown.state.jobs
    known = all(number in jobs and jobs[number].state != "over" for number in wanted)
    return wanted if known else []
