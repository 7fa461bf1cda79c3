"""Checkpoint intervals by the formulas of Young and Daly."""

from __future__ import annotations

import math

from hpcosim_client import View
from hpcosim_protocol import (
    Checkpointing,
    JobRequest,
    JobSubmitted,
    NodeGroup,
    Platform,
    Processor,
    SetCheckpoint,
)
from hpcosim_schedulers.heuristics.young_daly import daly_s, young_daly, young_s


def submitted(job_id: int, cores: int, checkpointing: Checkpointing | None) -> JobSubmitted:
    """Return the submission of a job with checkpoints."""
    request = JobRequest(checkpointing=checkpointing)
    return JobSubmitted(0.0, job_id, cores, 100.0, request=request)


def test_young_is_the_root_of_twice_cost_times_mtbf() -> None:
    """Young's interval for a cost of 50 s and failures every 10,000 s is 1,000 s."""
    assert young_s(50.0, 10_000.0) == 1000.0


def test_daly_minimizes_the_expected_run_time() -> None:
    """Daly's interval costs at most 0.1 % more than the best of Daly's complete model."""

    def expected(interval_s: float) -> float:  # Daly 2006, equation 20, restart left out
        return math.expm1((interval_s + 60.0) / 3600.0) / interval_s

    best = min(expected(each) for each in range(100, 3600))
    assert expected(daly_s(60.0, 3600.0)) <= 1.001 * best


def test_a_checkpoint_dearer_than_failures_are_far_apart_has_the_mtbf_as_interval() -> None:
    """If a checkpoint costs twice the mean time between failures, the interval is that time."""
    assert daly_s(200.0, 100.0) == 100.0


def test_jobs_without_an_interval_get_that_of_their_nodes() -> None:
    """A job on two nodes fails twice as often; stated intervals and jobs without a cost stay."""
    group = NodeGroup(4, (Processor(8),), mtbf_s=10_000.0)
    view = View(Platform((group,)))
    view.apply(
        0.0,
        [
            submitted(1, 8, Checkpointing(cost_s=50.0)),
            submitted(2, 16, Checkpointing(cost_s=50.0)),
            submitted(3, 8, Checkpointing(cost_s=50.0, interval_s=7.0)),
            submitted(4, 8, None),
        ],
    )
    young_daly(lambda view: None, "young")(view)
    assert view.decisions == [SetCheckpoint(1, 1000.0), SetCheckpoint(2, young_s(50.0, 5_000.0))]


def test_nodes_without_a_stated_time_leave_the_interval() -> None:
    """If no node states its mean time between failures, no interval is set."""
    view = View(Platform((NodeGroup(4, (Processor(8),)),)))
    view.apply(0.0, [submitted(1, 8, Checkpointing(cost_s=50.0))])
    young_daly(lambda view: None)(view)
    assert view.decisions == []
