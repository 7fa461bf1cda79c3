"""Job logs in the Standard Workload Format, version 2.2 (Feitelson, Parallel Workloads Archive)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from hpcosim_protocol import Placement
from hpcosim_workloads.logs.job_lines import NO_PROFILES, JobProfile
from hpcosim_workloads.logs.job_log import (
    SUBMITTERS,
    JobColumns,
    LogJob,
    ZeroRunTime,
    checked,
    job_columns,
    read_log,
)
from hpcosim_workloads.logs.plain_numbers import plain_numbers
from hpcosim_workloads.logs.requirements import MAX_MB, NodesOf
from hpcosim_workloads.table import MAX_CORES, MAX_TIME_S, JobTable

FIELDS = 18
KB_PER_MB = 1000
MOST_SHOWN = 40  # characters of a field in a message
INTEGERS = {
    1: "job number",
    5: "allocated processors",
    8: "requested processors",
    12: "user number",
    13: "group number",
    16: "partition number",
}
NUMBERS = {
    2: "submission time",
    4: "run time",
    7: "used memory",
    9: "requested time",
    10: "requested memory",
}
NAMES = {**INTEGERS, **NUMBERS}
MAX_KB = MAX_MB * KB_PER_MB


Sizes = Literal["requested", "allocated"]
"""Field of an SWF log that states the cores of a job: requested (8) or allocated (5)."""
FailedJobs = Literal["complete", "fail"]
"""How jobs end that failed or were cancelled (field 11)."""
PrecedingJobs = Literal["ignore", "wait"]
"""Whether a job waits for its preceding job (field 17) and the think time (field 18)."""
PartitionField = Literal["partition", "queue"]
"""Field of an SWF log that states the partition of a job: partition (16) or queue (15)."""

FAILED, CANCELLED = 0, 5  # values of the status
MORE_INTEGERS = {11: "status", 15: "queue number", 17: "preceding job"}
THINK_TIME = 18


class SwfFields(NamedTuple):
    """Which fields of an SWF log are read, and how. The defaults are those of `read_swf`."""

    sizes: Sizes = "requested"
    failed_jobs: FailedJobs = "complete"
    preceding_jobs: PrecedingJobs = "ignore"
    partition_field: PartitionField = "partition"

    @property
    def reads_more(self) -> bool:
        """Whether a field is read that `MORE_INTEGERS` has."""
        return self[1:] != DEFAULT_FIELDS[1:]


DEFAULT_FIELDS = SwfFields()


def read_swf(
    path: Path,
    *,
    placement: Placement = "cores",
    lenient: bool = False,
    profiles: Mapping[str, JobProfile] = NO_PROFILES,
    zero_run_time: ZeroRunTime = "drop",
    fields: SwfFields = DEFAULT_FIELDS,
    nodes_of: NodesOf | None = None,
) -> JobTable:
    """Return the usable jobs of an SWF log, plain or gzipped.

    The whole file is read before the simulation starts, so an error at its end is found first.

    Rules that drop or change a job; `JobTable.skipped` counts the jobs of each rule:

    - `cancelled_while_waiting`: dropped, with `failed_jobs="fail"`: the status (field 11) is 5 and
      the run time is 0 or -1.
    - `run_time_unknown_or_zero`: dropped, the run time (field 4) is 0 or -1. With
      `zero_run_time="keep"` a job of run time 0 is kept and ends at the instant it starts; the rule
      for -1 is `run_time_unknown`.
    - `cores_unknown`: dropped, requested (field 8) and allocated (field 5) processors are both
      0 or less.
    - `submit_time_unknown`: dropped, the submission time (field 2) is below 0.
    - `requested_time_unknown`: kept, the requested time (field 9) is 0 or less; it becomes the
      run time.
    - `out_of_order`: kept, an earlier line has a later submission time. Jobs are sorted by
      submission time; jobs of the same time keep the order of the file.
    - `corrupt_lines`, `repeated_job_ids`: dropped, the line is corrupt or repeats a job number;
      only if `lenient`.

    The status (field 11) is not read by default. With `failed_jobs="fail"` jobs of status 0
    (failed) and 5 (cancelled) fail at their end, which matters to jobs that depend on them. A job
    that was
    cancelled while it waited has no run time in most logs, and the default drops it. With
    `zero_run_time="keep"` a cancelled job of run time 0 is simulated as a job that ran: it waits in
    the queue, needs its processors at one instant, and counts in the metrics. Keep such jobs to
    reproduce results of a simulator that keeps them, or if the jobs of the log ran for less than
    its resolution, 1 s. A job that was cancelled or failed after its start has the run time that it
    reached.

    The memory per task is the requested memory (field 10), or if unknown the used memory (field 7),
    in KB per processor (1000 KB = 1 MB). User, group and partition are the fields 12, 13 and 16;
    below 0: unknown. With `partition_field="queue"` the partition is the queue (field 15).

    A job whose executable number (field 14) is a key of `profiles` has that profile. The profile
    supplies what the log lacks: placement, memory volume, maximum energy, memory if the log states
    none, and requirements such as features and generic resources.

    With `preceding_jobs="wait"` a job waits until its preceding job (field 17) is over and the
    think time (field 18) has passed; its submission time does not change. A preceding job that was
    dropped or not selected has no effect.

    Args:
        placement: placement of jobs whose profile states none; SWF has no such field.
        lenient: drop corrupt lines; default: the first one is an error.
        profiles: job profiles by executable number. A profile must not set the fields of
            `LOG_FIELDS`, which the log states.
        zero_run_time: drop or keep the jobs whose run time is 0.
        fields: `sizes`: source of a job's cores, requested (field 8) or allocated (field 5)
            processors; if that field is 0 or less, the other one is used. `failed_jobs`,
            `preceding_jobs`, `partition_field`: see above.
        nodes_of: returns the nodes of a host list in a profile; None: nodes have no names.

    Raises:
        WorkloadError: the file cannot be read, a line is corrupt (the error names the line), or a
            job's profile sets a field of `LOG_FIELDS`.
    """
    parse = partial(_parse, profiles=profiles, which=fields)
    # Profiles are named by a field as text, which columns of numbers do not have.
    return read_log(
        path,
        parse,
        parse_plain=None if profiles or fields.reads_more else partial(_parse_plain, which=fields),
        placement=placement,
        lenient=lenient,
        profiles=profiles,
        zero_run_time=zero_run_time,
        nodes_of=nodes_of,
    )


def _parse(line: str, profiles: Mapping[str, JobProfile], which: SwfFields) -> LogJob:
    fields = line.split()
    if len(fields) != FIELDS:
        raise ValueError(f"expected {FIELDS} fields, got {len(fields)}")
    if "_" in line:  # int("1_000") is valid in Python
        _check_numbers(fields)
    try:
        job_id = int(fields[0])
        submit_s, run_s, requested_s = float(fields[1]), float(fields[3]), float(fields[8])
        allocated, requested = int(fields[4]), int(fields[7])
        used_kb, requested_kb = float(fields[6]), float(fields[9])
        submitter = int(fields[11]), int(fields[12]), int(fields[15])
    except ValueError:
        _check_numbers(fields)
        raise
    if (most := max(allocated, requested)) > MAX_CORES:
        where = _named(5 if allocated == most else 8)
        raise ValueError(f"{where}: expected at most {MAX_CORES}, got {most}")
    if not (abs(used_kb) <= MAX_KB and abs(requested_kb) <= MAX_KB):
        number, kb = (10, requested_kb) if abs(used_kb) <= MAX_KB else (7, used_kb)
        raise ValueError(f"{_named(number)}: expected a number up to {MAX_KB:g} KB, got {kb:g}")
    memory_kb = requested_kb if requested_kb > 0 else max(used_kb, 0.0)
    profile = fields[13] if fields[13] in profiles else ""
    first, second = requested, allocated
    if which.sizes == "allocated":
        first, second = allocated, requested
    cores = first if first > 0 else second
    memory_mb = memory_kb / KB_PER_MB
    job = LogJob(job_id, submit_s, run_s, requested_s, cores, memory_mb, profile, *submitter)
    return checked(_with_more(job, fields, which) if which.reads_more else job)


def _parse_plain(lines: Sequence[bytes], which: SwfFields) -> JobColumns | None:
    """Parse lines as `_parse` does, without profiles; None: one of them needs `_parse`."""
    read = plain_numbers(lines, FIELDS, [*NAMES], INTEGERS)
    if read is None:
        return None
    numbers = dict(zip(NAMES, read.T, strict=True))
    submit_s, run_s, used_kb, requested_s, requested_kb = (numbers[field] for field in NUMBERS)
    job_id, allocated, requested, *submitters = (
        numbers[field].astype(np.int64) for field in INTEGERS
    )
    times_s = np.abs((submit_s, run_s, requested_s))
    if (
        max(allocated.max(), requested.max()) > MAX_CORES
        or max(np.abs(used_kb).max(), np.abs(requested_kb).max()) > MAX_KB
        or times_s.max() > MAX_TIME_S
        or job_id.min() < 0
    ):
        return None
    first, second = requested, allocated
    if which.sizes == "allocated":
        first, second = allocated, requested
    kb = np.where(requested_kb > 0, requested_kb, np.where(used_kb < 0.0, 0.0, used_kb))
    return job_columns(
        len(lines),
        job_id=job_id,
        submit_s=submit_s,
        run_s=run_s,
        requested_s=requested_s,
        cores=np.where(first > 0, first, second),
        memory_mb=kb / KB_PER_MB,
        **dict(zip(SUBMITTERS, submitters, strict=True)),
    )


def _with_more(job: LogJob, fields: Sequence[str], which: SwfFields) -> LogJob:
    """Return a job with the fields that are not read by default."""
    _check_numbers(fields, {**MORE_INTEGERS, THINK_TIME: "think time"})
    status, queue, preceding_id = (int(fields[number - 1]) for number in MORE_INTEGERS)
    if which.failed_jobs == "fail":
        cancelled = status == CANCELLED and job.run_s <= 0
        job = job._replace(fails=status in (FAILED, CANCELLED), cancelled=cancelled)
    if which.partition_field == "queue":
        job = job._replace(partition=queue)
    if which.preceding_jobs == "wait" and preceding_id > 0:
        if preceding_id >= job.job_id:
            what = f"expected a job number below {job.job_id}, got {preceding_id}"
            raise ValueError(f"field 17 (preceding job): {what}")
        think_s = float(fields[THINK_TIME - 1])
        if not think_s <= MAX_TIME_S:
            what = f"expected a number up to {MAX_TIME_S:g} s, got {think_s:g}"
            raise ValueError(f"field 18 (think time): {what}")
        job = job._replace(preceding_id=preceding_id, think_s=max(think_s, 0.0))
    return job


def _check_numbers(fields: Sequence[str], names: Mapping[int, str] = NAMES) -> None:
    """Check that fields are numbers in decimal notation."""
    for number in sorted(names):
        whole = number in INTEGERS or number in MORE_INTEGERS
        parse, expected = (int, "an integer") if whole else (float, "a number")
        text = fields[number - 1]
        try:
            parse(text.replace("_", "?"))
        except ValueError:
            short = repr(text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}...")
            where = f"field {number} ({names[number]})"
            raise ValueError(f"{where}: expected {expected}, got {short}") from None


def _named(number: int) -> str:
    return f"field {number} ({NAMES[number]})"
