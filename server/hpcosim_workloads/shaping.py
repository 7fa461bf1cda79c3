"""Functions that select a window of a workload or change its load and job sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.table import AppliedRules, JobTable


def window_by_time(table: JobTable, from_s: float, to_s: float) -> JobTable:
    """Return the jobs submitted in [from_s, to_s).

    The submission time of the first job becomes 0. `JobTable.skipped` counts the jobs of the
    window.

    Raises:
        WorkloadError: the window has no jobs.
    """
    first, last = np.searchsorted(table.submit_s, (from_s, to_s)).tolist()
    rules = table.rules.in_time(from_s, to_s)
    return _window(table, first, last, rules, f"submitted from {from_s} s to {to_s} s")


def window_by_number(table: JobTable, first: int, last: int) -> JobTable:
    """Return jobs `first` to `last` - 1 in submission order, counted from 0.

    The submission time of the first job becomes 0. `JobTable.skipped` counts the jobs of the
    window: a dropped job belongs to the window of the next job submitted later.
    """
    rules = table.rules.in_rows(first, last, len(table))
    return _window(table, first, last, rules, f"numbered {first} to {last}")


def select(table: JobTable, first: int, last: int) -> JobTable:
    """Return the jobs of `window_by_number` with their submission times unchanged."""
    rules = table.rules.in_rows(first, last, len(table)).moved(first, 0.0)
    return replace(table.take(slice(first, last)), rules=rules)


def scale_load(table: JobTable, factor: float) -> JobTable:
    """Return the workload with an arrival rate `factor` times as high.

    Times between submissions are divided by `factor`. Run times and sizes do not change, nor do the
    times from a submission to the deadline of the job.
    """
    if not len(table):
        return table
    first_s = table.submit_s[0]
    return table.at(first_s + (table.submit_s - first_s) / factor)


def divide_cores(table: JobTable, by: int) -> JobTable:
    """Return the workload with the cores of every job divided by `by`, rounded up to whole tasks.

    Run times do not change. `JobTable.skipped` does not count these jobs.
    """
    of_task = _cores_per_task(table)
    return replace(table, cores=-(-table.cores // (by * of_task)) * of_task)


def cap_cores(table: JobTable, max_cores: int) -> JobTable:
    """Return the workload with every larger job reduced to `max_cores` cores.

    Jobs with several cores per task keep whole tasks, and at least one. `JobTable.skipped` counts
    the reduced jobs as `cores_capped`.
    """
    capped = np.flatnonzero(table.cores > max_cores)
    rules = table.rules.plus("cores_capped", capped, table.submit_s[capped])
    of_task = _cores_per_task(table)
    most = np.maximum(max_cores // of_task, 1) * of_task
    return replace(table, cores=np.minimum(table.cores, most), rules=rules)


def _cores_per_task(table: JobTable) -> NDArray[np.int64]:
    """Return the cores of a task of each job."""
    by_code = [*(request.cores_per_task for request in table.requests), 1]  # code -1: no request
    return np.array(by_code, dtype=np.int64)[table.request]


def _window(table: JobTable, first: int, last: int, rules: AppliedRules, which: str) -> JobTable:
    jobs = table.take(slice(first, last))
    if not len(jobs):
        drops = rules.drops()
        raise WorkloadError(
            f"no jobs {which}; the workload has {len(table)}"
            + (f"; jobs of this window were dropped: {drops}" if drops else "")
        )
    first_s = float(jobs.submit_s[0])
    return replace(jobs.at(jobs.submit_s - first_s), rules=rules.moved(first, first_s))
