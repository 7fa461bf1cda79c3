"""Reader of result files of the CQSim simulator (Illinois Institute of Technology).

    id;procs;procs;requested;run;wait;submit;start;end

Times are in seconds. Lines that begin with '#' are comments. The reader ignores the schedule that
CQSim computed: wait, start and end.
"""

from __future__ import annotations

from pathlib import Path

from hpcosim_protocol import Placement
from hpcosim_workloads.logs.job_log import LogJob, ZeroRunTime, checked, read_log
from hpcosim_workloads.table import JobTable

FIELDS = 9


def read_cqsim(
    path: Path,
    *,
    placement: Placement = "cores",
    lenient: bool = False,
    zero_run_time: ZeroRunTime = "drop",
) -> JobTable:
    """Return the usable jobs of a CQSim result file, plain or gzipped.

    The rules and their counts are those of `read_swf`. The cores of a job are the first `procs`.

    Args:
        placement: placement of every job; the format has no such field.
        lenient: drop corrupt lines; default: the first one is an error.
        zero_run_time: drop or keep the jobs whose run time is 0.

    Raises:
        WorkloadError: the file cannot be read, or a line is corrupt; the error names the line.
    """
    return read_log(
        path,
        _parse,
        comment="#",
        placement=placement,
        lenient=lenient,
        zero_run_time=zero_run_time,
    )


def _parse(line: str) -> LogJob:
    fields = line.replace("_", "?").split(";")  # int("1_000") is valid in Python
    if len(fields) != FIELDS:
        raise ValueError(f"expected {FIELDS} fields separated by ';', got {len(fields)}")
    try:
        job_id, cores = int(fields[0]), int(fields[1])
        requested_s, run_s, submit_s = float(fields[3]), float(fields[4]), float(fields[6])
    except ValueError as error:
        raise ValueError(f"a field is not a number: {error}") from None
    return checked(LogJob(job_id, submit_s, run_s, requested_s, cores))
