"""The jobs of a run that have started and ended, with their waits and run times."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_sim.record.run_record import RunRecord

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class JobsThatRan(NamedTuple):
    """Columns of the jobs that ran, in order of submission.

    Attributes:
        row: int64[jobs], row in the recording.
        wait_s: float64[jobs], wait, s.
        run_s: float64[jobs], run time, s.
    """

    row: NDArray[np.int64]
    wait_s: Floats
    run_s: Floats

    @property
    def response_s(self) -> Floats:
        """float64[jobs], response = wait + run time, s."""
        return self.wait_s + self.run_s


def jobs_that_ran(record: RunRecord, among: Mask | None = None) -> JobsThatRan:
    """Return the jobs of a run that have started and ended.

    Args:
        record: a run, complete or not.
        among: bool[jobs], the jobs to choose from, by row of the recording. None: all jobs.
    """
    recording = record.recording
    start_s, end_s = np.array(recording.start_s), np.array(recording.end_s)
    ran = ~np.isnan(start_s) & ~np.isnan(end_s)
    row = np.flatnonzero(ran if among is None else ran & among)
    submit_s = np.array(recording.submit_s)
    wait_s, run_s = (start_s - submit_s)[row], (end_s - start_s)[row]
    if in_last_run_s := recording.last_run_suspended_s:
        suspended_s = np.array([in_last_run_s.get(each, 0.0) for each in row.tolist()])
        wait_s, run_s = wait_s + suspended_s, run_s - suspended_s
    return JobsThatRan(row, wait_s, run_s)
