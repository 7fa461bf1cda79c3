"""Reader of result files of the CQSim simulator (Illinois Institute of Technology).

    id;procs;procs;requested;run;wait;submit;start;end

Times are in seconds. Lines that begin with '#' are comments. The reader ignores the schedule that
CQSim computed: wait, start and end.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hpcosim_protocol import Placement
from hpcosim_workloads.logs.job_log import (
    JobColumns,
    LogJob,
    ZeroRunTime,
    checked,
    job_columns,
    read_log,
)
from hpcosim_workloads.logs.plain_numbers import plain_numbers
from hpcosim_workloads.table import MAX_CORES, MAX_TIME_S, JobTable

FIELDS = 9
READ = {1: "job_id", 2: "cores", 4: "requested_s", 5: "run_s", 7: "submit_s"}
"""Columns by the number of their field, counted from 1."""

INTEGERS = (1, 2)


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
        parse_plain=_parse_plain,
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


def _parse_plain(lines: Sequence[bytes]) -> JobColumns | None:
    """Parse lines as `_parse` does; None: one of them needs `_parse`."""
    text = b"".join(lines)
    # Then fields are separated by nothing else, and none of them is empty.
    if b" " in text or b"\t" in text or text.count(b"\r") != text.count(b"\r\n"):
        return None
    if text.count(b";") != (FIELDS - 1) * len(lines):
        return None
    read = plain_numbers([line.replace(b";", b" ") for line in lines], FIELDS, [*READ], INTEGERS)
    if read is None:
        return None
    numbers = dict(zip(READ.values(), read.T, strict=True))
    times_s = np.abs([numbers[name] for name in ("requested_s", "run_s", "submit_s")])
    if (
        times_s.max() > MAX_TIME_S
        or numbers["cores"].max() > MAX_CORES
        or numbers["job_id"].min() < 0
    ):
        return None
    return job_columns(len(lines), **numbers)
