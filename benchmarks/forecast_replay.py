"""Job logs as a scheduler sees them: submissions, starts and ends in the order of time.

The starts are those of a simulation with EASY, in which a job ends at its logged run time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import numpy as np

from benchmarks.cases import SHARED_TRACES, equal_nodes, simulate, trace
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.logs.cqsim import read_cqsim
from hpcosim_workloads.table import JobSpec, JobTable

KIT = SHARED_TRACES / "KIT-FH2-2016-1.first25326.csv.gz"
Kind = Literal["end", "submit", "start"]
_ORDER: tuple[Kind, ...] = ("end", "submit", "start")


class LogEvent(NamedTuple):
    """An event of a job.

    Attributes:
        time_s: its time, s.
        kind: what happens.
        job: the job; `requested_s` is infinity where the log has no requests.
    """

    time_s: float
    kind: Kind
    job: JobSpec


class Case(NamedTuple):
    """A part of a log.

    Attributes:
        title: its name in tables.
        read: returns the log; None: it is not on this machine.
        cores: number of cores of the cluster.
        first, last: the part, as shares of the jobs.
        requests: whether the log has requested times.
    """

    title: str
    read: Callable[[], JobTable | None]
    cores: int
    first: float
    last: float
    requests: bool


def kit() -> JobTable | None:
    """Return the beginning of the log KIT-FH2; None: it is not on this machine."""
    try:
        return read_cqsim(KIT)
    except WorkloadError:
        return None


CASES = (
    Case("NASA-iPSC", lambda: trace("nasa-ipsc"), 128, 0.0, 1.0, False),
    Case("SDSC-SP2, first third", lambda: trace("sdsc-sp2"), 128, 0.0, 1 / 3, True),
    Case("CTC-SP2, first half", lambda: trace("ctc-sp2"), 338, 0.0, 0.5, True),
    Case("KIT-FH2", kit, 24_048, 0.0, 1.0, True),
    Case("SDSC-SP2, rest", lambda: trace("sdsc-sp2"), 128, 0.4, 1.0, True),
    Case("CTC-SP2, second half", lambda: trace("ctc-sp2"), 338, 0.5, 1.0, True),
    Case("LLNL-Thunder, first tenth", lambda: trace("llnl-thunder"), 4008, 0.0, 0.1, False),
)


def jobs_of(case: Case, most: int) -> JobTable | None:
    """Return at most `most` jobs of a case that fit its cluster; None: the log is missing."""
    jobs = case.read()
    if jobs is None:
        return None
    jobs = jobs.take(slice(round(case.first * len(jobs)), round(case.last * len(jobs))))
    return jobs.take(np.flatnonzero(jobs.cores <= case.cores)[:most])


def events_of(case: Case, jobs: JobTable) -> Iterator[LogEvent]:
    """Yield the events of jobs on the cluster of a case, in the order of time."""
    simulation, _ = simulate(equal_nodes(1, case.cores), jobs, "easy")
    recording = simulation.recording
    start_s = dict(zip(recording.job_id, recording.start_s, strict=True))
    end_s = dict(zip(recording.job_id, recording.end_s, strict=True))
    found = []
    for row, spec in enumerate(jobs.rows()):
        job = spec if case.requests else spec._replace(requested_s=math.inf)
        times_s = (end_s[job.job_id], job.submit_s, start_s[job.job_id])
        found += [(time_s, kind, row, job) for kind, time_s in enumerate(times_s)]
    for time_s, kind, _, job in sorted(found, key=lambda event: event[:3]):
        yield LogEvent(time_s, _ORDER[kind], job)
