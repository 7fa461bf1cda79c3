"""Changes to a workload: a window of it, another load, smaller jobs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.table import JobTable


def window_by_time(table: JobTable, from_s: float, to_s: float) -> JobTable:
    """Return the jobs submitted in [from_s, to_s), their times counted from the first.

    Raises:
        WorkloadError: there are none.
    """
    chosen = (table.submit_s >= from_s) & (table.submit_s < to_s)
    return _rebased(table.take(chosen), f"submitted from {from_s} s to {to_s} s")


def window_by_number(table: JobTable, first: int, last: int) -> JobTable:
    """Return jobs `first` up to, without it, `last` in submission order, times as above.

    Raises:
        WorkloadError: there are none.
    """
    return _rebased(table.take(slice(first, last)), f"numbered {first} to {last}")


def scale_load(table: JobTable, factor: float) -> JobTable:
    """Return the workload with its arrivals `factor` times as dense.

    Times between submissions are divided by `factor`; run times and sizes stay.
    """
    if not len(table):
        return table
    first_s = table.submit_s[0]
    return replace(table, submit_s=first_s + (table.submit_s - first_s) / factor)


def divide_cores(table: JobTable, by: int) -> JobTable:
    """Return the workload with the cores of every job divided by `by`, rounded up.

    Run times stay. Nothing is counted: it changes every job.
    """
    return replace(table, cores=-(-table.cores // by))


def cap_cores(table: JobTable, most: int) -> JobTable:
    """Return the workload with every job of more than `most` cores cut down to these.

    The jobs cut are counted as `cores_capped` in `JobTable.skipped`.
    """
    capped = int((table.cores > most).sum())
    smaller = replace(table, cores=np.minimum(table.cores, most))
    return smaller.with_skipped({"cores_capped": capped}) if capped else smaller


def _rebased(table: JobTable, which: str) -> JobTable:
    if not len(table):
        raise WorkloadError(f"the workload has no jobs {which}")
    return replace(table, submit_s=table.submit_s - table.submit_s[0])
