"""The computing periods of a run: `runs.csv`, or the jobs themselves if each has one period."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hpcosim_sim.record.periods import FIRST_FINAL, PERIOD_ENDS
from hpcosim_view.run import csv_columns as read
from hpcosim_view.run.job_columns import MIXED, JobRows, read_allocations, starts_of
from hpcosim_view.run.layout import Ends, Starts


def single_ends(starts: Starts, jobs: Mapping[str, Any]) -> Ends:
    """Return the ends of jobs that have one computing period each."""
    end_s = jobs["end_s"][starts.job]
    ended = np.flatnonzero(~np.isnan(end_s))
    return Ends(starts.period[ended], end_s[ended])


def read_periods(
    path: Path, rows: JobRows, jobs: Mapping[str, Any]
) -> tuple[Starts, Ends, dict[str, Any]]:
    """Return the begins and ends of the periods in `runs.csv`, and the columns of `pause`.

    Raises:
        ReadResultsError: the file is damaged, or contradicts `jobs.csv`.
    """
    columns: dict[str, read.Convert] = {
        "job_id": read.integers,
        "run": read.counts,
        "start_s": read.times_s,
        "end_s": read.optional_times_s,
        "end": read.one_of(PERIOD_ENDS),
    }
    whole = read_allocations(path, columns)
    job = rows.of(path, whole["job_id"])
    start_s, end_s, why = whole["start_s"], whole["end_s"], whole["end"]
    final = why >= FIRST_FINAL
    wrong = (whole["nodes"] == 0) | (whole["nodes"] != whole["tasks"]) | (end_s < start_s)
    wrong |= (np.isnan(end_s) != (why == 0)) | (final & (end_s != jobs["end_s"][job]))
    wrong[1:] |= start_s[1:] < start_s[:-1]
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        what = (
            f"job {whole['job_id'][row]}: expected rows in order of start_s, each with its end, "
            f"its nodes and as many numbers of tasks, and the end of its job in jobs.csv; {MIXED}"
        )
        raise read.located(path, row, what)
    ended = np.flatnonzero(why > 0)
    starts = starts_of(whole, jobs, job, np.ones(len(job), bool))
    paused = np.flatnonzero((why > 0) & ~final)
    paused = paused[np.argsort(end_s[paused], kind="stable")]
    pauses = {"pause.start": paused, "pause.time_s": end_s[paused], "pause.why": why[paused]}
    return starts, Ends(ended, end_s[ended]), pauses
