"""Forecasts of starts on a real Slurm of this host."""

from __future__ import annotations

import pytest

from hpcosim_twin.answers.calibration import score_of
from support.live_forecasts import (
    forecast,
    forecasted,
    planning_cluster,
    submit_jobs,
    wait_for_ends,
)


@pytest.mark.slow
def test_forecasts_are_nearer_than_those_of_squeue() -> None:
    """After some jobs have ended, medians are nearer to the starts than `squeue --start`."""
    with planning_cluster() as cluster:
        jobs = submit_jobs(cluster)
        wait_for_ends(cluster, jobs, 4)
        forecasts = forecast(cluster)
        assert forecasts["history_jobs"] >= 4
        assert len(forecasts["jobs"]) >= 3
        wait_for_ends(cluster, jobs, len(jobs))
        score = score_of(forecasted(cluster, forecasts))
    assert score.compared > 0
    assert score.compared_error_s < score.slurm_error_s
