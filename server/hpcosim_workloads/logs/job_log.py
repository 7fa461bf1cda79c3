"""Job logs of one job a line, in whatever format: which jobs are usable, and their table."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_protocol import Placement
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.logs.job_line import (
    NO_PROFILE,
    NO_PROFILES,
    NOT_OF_LOGS,
    Profile,
    not_of_logs,
)
from hpcosim_workloads.logs.log_file import numbered_lines
from hpcosim_workloads.table import LATEST_S, MOST_CORES, PLACEMENTS, JobTable, job_table


class LogJob(NamedTuple):
    """A job as a line of a log has it; a time or count that is not above 0 is unknown.

    Attributes:
        memory_mb: of each task; 0: unknown.
        profile: the name of its profile; "": it has none.
    """

    job_id: int
    submit_s: float
    run_s: float
    requested_s: float
    cores: int
    memory_mb: float = 0.0
    profile: str = ""


def read_log(
    path: Path,
    parse: Callable[[str], LogJob],
    *,
    comment: str = ";",
    placement: Placement = "cores",
    lenient: bool = False,
    profiles: Mapping[str, Profile] = NO_PROFILES,
) -> JobTable:
    """Return the jobs of a log of a job a line, by the rules, arguments and errors of `read_swf`.

    `parse` reads a line, and raises ValueError where it is corrupt; lines that begin with `comment`
    are skipped.
    """
    counts: Counter[str] = Counter()
    table, line_of = _read(_usable_jobs(path, parse, comment, lenient, counts), counts)
    kinds = [profiles.get(name, NO_PROFILE) for name in table.profiles]
    table = _filled(table, kinds, placement, path)
    firsts = np.unique(table.job_id, return_index=True)[1]
    repeated = np.delete(np.arange(len(table)), firsts)  # rows whose job is in an earlier one
    if repeated.size and not lenient:
        row = int(repeated[0])
        raise WorkloadError(f"job {table.job_id[row]} is there twice", path, line_of[row])
    if repeated.size:
        counts["repeated_job_ids"] += repeated.size
        table = table.take(np.sort(firsts))
    return table.take(np.argsort(table.submit_s, kind="stable")).with_skipped(+counts)


def _read(jobs: Iterable[tuple[int, LogJob]], counts: Counter[str]) -> tuple[JobTable, array[int]]:
    """Return jobs in the order they come, and the number of the line of each."""
    line_of, job_id, cores, profile = array("q"), array("q"), array("q"), array("q")
    submit_s, run_s, requested_s, memory_mb = array("d"), array("d"), array("d"), array("d")
    codes = {"": 0}
    latest_s = -math.inf
    for number, job in jobs:
        counts["out_of_order"] += job.submit_s < latest_s
        counts["requested_time_unknown"] += job.requested_s <= 0
        latest_s = max(latest_s, job.submit_s)
        line_of.append(number)
        job_id.append(job.job_id)
        submit_s.append(job.submit_s)
        run_s.append(job.run_s)
        requested_s.append(job.requested_s if job.requested_s > 0 else job.run_s)
        cores.append(job.cores)
        memory_mb.append(job.memory_mb)
        profile.append(codes.setdefault(job.profile, len(codes)))
    table = job_table(
        job_id=job_id,
        submit_s=submit_s,
        run_s=run_s,
        requested_s=requested_s,
        cores=cores,
        memory_mb=memory_mb,
        profile=profile,
        profiles=tuple(codes),
    )
    return table, line_of


def _usable_jobs(
    path: Path,
    parse: Callable[[str], LogJob],
    comment: str,
    lenient: bool,
    counts: Counter[str],
) -> Iterator[tuple[int, LogJob]]:
    """Yield the jobs that can be run again, with their lines' numbers; count those left out."""
    for number, raw in numbered_lines(path):
        line = raw.decode("latin-1").strip()  # headers hold names in whatever encoding
        if not line or line.startswith(comment):
            continue
        try:
            job = parse(line)
        except ValueError as error:
            if not lenient:
                raise WorkloadError(str(error), path, number) from None
            counts["corrupt_lines"] += 1
            continue
        if reason := _unusable(job):
            counts[reason] += 1
        else:
            yield number, job


def checked(job: LogJob) -> LogJob:
    """Return a job whose numbers are such as a table can hold.

    Raises:
        ValueError: one isn't.
    """
    if not all(abs(time_s) <= LATEST_S for time_s in (job.submit_s, job.run_s, job.requested_s)):
        raise ValueError(f"a time is not a number of up to {LATEST_S} s")
    if not 0 <= job.job_id < 2**63 or job.cores > MOST_CORES:
        raise ValueError(f"a job number must be 0 or more, and cores {MOST_CORES} or fewer")
    return job


def _unusable(job: LogJob) -> str:
    if job.run_s <= 0:
        return "run_time_unknown_or_zero"
    if job.cores <= 0:
        return "cores_unknown"
    return "submit_time_unknown" if job.submit_s < 0 else ""


def _filled(
    table: JobTable, kinds: Sequence[Profile], placement: Placement, path: Path
) -> JobTable:
    """Return a table with what its log does not say, by the profile of each job."""
    for name, kind in zip(table.profiles, kinds, strict=True):
        for field in NOT_OF_LOGS:
            if getattr(kind, field) is not None:
                what = f"a job of this log has profile {name!r}, but {not_of_logs(field)}"
                raise WorkloadError(what, path)

    def by_job(values: Iterable[float], kind: type[np.generic] = np.float64) -> NDArray[Any]:
        return np.array(list(values), dtype=kind)[table.profile]

    memory_mb = by_job(kind.memory_mb or 0.0 for kind in kinds)
    return replace(
        table,
        placement=by_job(
            (PLACEMENTS.index(kind.placement or placement) for kind in kinds), np.int8
        ),
        memory_mb=np.where(table.memory_mb > 0.0, table.memory_mb, memory_mb),
        memory_volume_mb=by_job(kind.memory_volume_mb or 0.0 for kind in kinds),
        max_energy_j=by_job(kind.max_energy_j or math.inf for kind in kinds),
    )
