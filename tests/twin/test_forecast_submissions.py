"""Future submissions of a cluster."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hpcosim_protocol import Dependency, JobRequest
from hpcosim_schedulers.slurm.settings import SiteSettings
from hpcosim_twin.cluster.observation import EndedJob
from hpcosim_twin.cluster.queue_state import QueuedJob, QueueState, SlurmAt
from hpcosim_twin.futures.forecast import Submissions, forecast_starts
from hpcosim_workloads.table import JobSpec
from support.simulating import cluster_of


def spec(job_id: int, submit_s: float, nice: int = 0) -> JobSpec:
    """Return a job with a limit of ten minutes."""
    request = JobRequest(
        name="mesh", nice=nice, begin_s=5.0, hold=True, dependencies=(Dependency("afterok", (1,)),)
    )
    return JobSpec(job_id, submit_s, math.nan, 600.0, 1, "cores", user="ann", request=request)


def state_of(past: list[JobSpec], now_s: float) -> QueueState:
    """Return a node that runs a job, and a job that waits."""
    policy = SlurmAt(SiteSettings(), now_s, None)
    running = JobSpec(900, now_s - 60.0, math.nan, 600.0, 1, "cores", user="ann")
    waiting = QueuedJob(running._replace(job_id=901, submit_s=now_s - 1.0))
    queue = [QueuedJob(running, now_s - 60.0, (0,), (1,)), waiting]
    return QueueState(now_s, cluster_of(1), queue, policy, past=past)


def test_future_jobs_are_copies_of_past_ones_without_conditions() -> None:
    """Numbers are new, times in the future, requirements kept; dependencies and holds are not."""
    past = [spec(number, 30.0 * number) for number in range(100)]
    found = Submissions(state_of(past, 3000.0)).drawn(3600.0, np.random.default_rng(1))
    assert len(found) > 20
    assert [job.spec.job_id for job in found] == list(range(902, 902 + len(found)))
    assert all(3000.0 < job.spec.submit_s <= 6600.0 for job in found)
    copies = [job.spec.request for job in found if job.spec.request is not None]
    assert copies
    assert all(each == JobRequest(name="mesh") for each in copies)


def test_submissions_have_ended_if_many_were_expected_and_none_came() -> None:
    """A steady stream that stops is at its end; while it goes on, most simulations continue it."""
    past = [spec(number, 2.0 * number) for number in range(500)]

    def empty(now_s: float) -> int:
        jobs = [QueuedJob(job) for job in past]
        model = Submissions(QueueState(now_s, cluster_of(1), jobs, state_of([], 0.0).new_policy))
        return sum(not model.drawn(3600.0, np.random.default_rng(seed)) for seed in range(100))

    assert empty(1000.0) < 40
    assert empty(1300.0) > 90


def test_after_a_silence_less_is_submitted() -> None:
    """What is submitted depends on how long ago the last submissions were."""
    past = [spec(number, 30.0 * number) for number in range(100)]
    soon, later = (
        np.mean([len(model.drawn(3600.0, np.random.default_rng(seed))) for seed in range(40)])
        for model in (Submissions(state_of(past, at_s)) for at_s in (3000.0, 90_000.0))
    )
    assert later < 0.5 * soon


@pytest.mark.slow
def test_jobs_that_will_be_submitted_can_delay_one_that_waits() -> None:
    """With preferred jobs in the past, the range reaches later than without, over several seeds.

    On average by more than such a job runs at most; most seeds draw none in the way.
    """
    history = [EndedJob("ann", 600.0, 300.0)] * 20
    many = [spec(number, 2970.0 + 0.2 * number, nice=-1000) for number in range(100)]

    def mean_high_s(past: list[JobSpec]) -> float:
        state = state_of(past, 3000.0)
        found = [forecast_starts(state, history, 15, seed=seed)[0] for seed in (1, 2, 5)]
        return float(np.mean([forecast.high_s for forecast in found]))

    assert mean_high_s(many) > mean_high_s([]) + 600.0
