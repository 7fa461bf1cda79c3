"""The computing periods of jobs: which start belongs to which run, and when and why it ended.

A job that was never suspended or requeued has one period. A suspension divides a run into periods,
a requeue begins another run.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_sim.record.periods import PERIOD_ENDS
from hpcosim_view.run.frame import Frame

SUSPENDED = PERIOD_ENDS.index("suspended")
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class JobPeriods(NamedTuple):
    """The computing periods of a run of the simulation, one element for each row of `start`.

    Attributes:
        end_s: end of the period, s; NaN: it lasts.
        why: index into `PERIOD_ENDS`; 0: it lasts, or the job was over.
        run: number of the run of a job that it belongs to, in no particular order; the periods of
            the same run have the same number.
        resumes: whether it continues a suspended run.
        run_start_s: start of its run, s.
        last: row of `start` with the last period of each job, by row of the job; -1: none.
    """

    end_s: Floats
    why: Ints
    run: Ints
    resumes: NDArray[np.bool_]
    run_start_s: Floats
    last: Ints

    @property
    def requeued(self) -> NDArray[np.bool_]:
        """Whether the job waits again after the period."""
        return self.why > SUSPENDED

    def computed_s(self, start_s: Floats, until_s: float) -> Floats:
        """Return the time that the run of each period has computed up to a time, s.

        Args:
            start_s: begin of each period, s.
            until_s: simulated time, s.
        """
        end_s = np.fmin(self.end_s, until_s)
        parts_s = np.maximum(end_s - start_s, 0.0)
        runs_s = np.zeros(len(parts_s))
        np.add.at(runs_s, self.run, parts_s)
        return runs_s[self.run]


def periods_of(frame: Frame) -> JobPeriods:
    """Return the computing periods of a run."""
    columns = frame.columns
    job, start_s = columns["start.job"].astype(np.int64), columns["start.time_s"]
    count = len(job)
    why = np.zeros(count, np.int64)
    why[columns["pause.start"]] = columns["pause.why"]
    last = np.full(len(columns["job.id"]), -1, np.int64)
    last[job] = np.arange(count)  # the last assignment counts
    over_s = np.full(len(last), np.nan)
    over_s[columns["end.job"]] = columns["end.time_s"]
    end_s = np.where(last[job] == np.arange(count), over_s[job], np.nan)
    end_s[columns["pause.start"]] = columns["pause.time_s"]
    order = np.argsort(job, kind="stable")
    follows = np.zeros(count, bool)  # in this order: the element before is of the same job
    follows[1:] = job[order[1:]] == job[order[:-1]]
    resumed = follows & (np.roll(why[order], 1) == SUSPENDED)
    run, resumes = np.zeros(count, np.int64), np.zeros(count, bool)
    run[order], resumes[order] = np.cumsum(~resumed) - 1, resumed
    run_start_s = start_s[order][~resumed][run]
    return JobPeriods(end_s, why, run, resumes, run_start_s, last)
