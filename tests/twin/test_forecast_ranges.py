"""Ranges of starts over many simulations, and their scores."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hpcosim_experiments.executors import Local, parallel_map
from hpcosim_schedulers.slurm.settings import SiteSettings
from hpcosim_twin.answers.calibration import Forecasted, score_of
from hpcosim_twin.cluster.observation import EndedJob
from hpcosim_twin.cluster.queue_state import QueuedJob, QueueState, SlurmAt
from hpcosim_twin.futures.forecast import forecast_starts
from hpcosim_workloads.table import JobSpec
from support.simulating import cluster_of

HISTORY = [EndedJob("ann", 600.0, float(run_s)) for run_s in range(30, 600, 30)]


def spec(job_id: int, cores: int = 1) -> JobSpec:
    """Return a job of Ann's with a limit of ten minutes."""
    return JobSpec(job_id, float(job_id), math.nan, 600.0, cores, "cores", user="ann")


def busy(waiting: int = 6) -> QueueState:
    """Return two nodes of one core that run a job each, and jobs that wait, at 100 s."""
    running = [QueuedJob(spec(number), 20.0, (number - 1,), (1,)) for number in (1, 2)]
    queue = [QueuedJob(spec(number, 1 + number % 2)) for number in range(3, 3 + waiting)]
    policy = SlurmAt(SiteSettings(), 100.0, None)
    return QueueState(100.0, cluster_of(2), [*running, *queue], policy)


def test_the_median_lies_in_the_range_and_nothing_starts_before_now() -> None:
    """Quantiles are ordered, and starts are in the future."""
    for each in forecast_starts(busy(), HISTORY, 9, seed=3):
        assert 100.0 <= each.low_s <= each.median_s <= each.high_s
        assert each.high_s - each.low_s > 1.0


def test_a_job_that_runs_until_its_limit_bounds_the_next_start() -> None:
    """The start at the limits is after the limits of the jobs that run, and a check of limits."""
    first = forecast_starts(busy(1), HISTORY, 1, seed=3)[0]
    assert 620.0 <= first.at_limits_s <= 620.0 + 30.0 + 65.0


@pytest.mark.slow
def test_the_same_seed_gives_the_same_forecasts_on_any_number_of_workers() -> None:
    """Draws depend on the seed and the sample only."""
    once = forecast_starts(busy(), HISTORY, 6, seed=5)
    assert forecast_starts(busy(), HISTORY, 6, seed=5) == once
    assert forecast_starts(busy(), HISTORY, 6, seed=6) != once
    with parallel_map(Local(workers=2)) as parallel:
        assert forecast_starts(busy(), HISTORY, 6, seed=5, parallel=parallel) == once


def test_without_waiting_jobs_there_are_no_forecasts() -> None:
    """A queue without waiting jobs has an empty forecast."""
    assert forecast_starts(busy(0), HISTORY, 2, seed=1) == []


def test_the_phase_of_the_periodic_work_is_drawn() -> None:
    """An idle node starts a job at the next pass, whose time is not known."""
    state = QueueState(
        100.0, cluster_of(1), [QueuedJob(spec(3))], SlurmAt(SiteSettings(), 100.0, None)
    )
    (found,) = forecast_starts(state, HISTORY, 30, seed=1)
    assert 100.0 <= found.low_s < found.high_s <= 165.0


@pytest.mark.parametrize(
    ("uptime_s", "least_s", "most_s"), [(200.0, 200.0, 200.0), (3100.0, 97.0, 100.0)]
)
def test_the_phase_is_known_for_a_controller_that_has_just_started(
    uptime_s: float, least_s: float, most_s: float
) -> None:
    """Priorities are calculated every 300 s from the start; each period lasts up to 0.3 s more."""
    for seed in range(20):
        site = SlurmAt(SiteSettings(), 100.0, uptime_s).drawn(np.random.default_rng(seed))
        assert least_s <= site.dtstart_s + 100.0 <= most_s


def test_the_phase_of_an_old_controller_is_unknown() -> None:
    """After weeks, any phase is possible."""
    policy = SlurmAt(SiteSettings(), 0.0, 1e7)
    draws = [policy.drawn(np.random.default_rng(seed)).dtstart_s for seed in range(100)]
    assert min(draws) < 30.0
    assert max(draws) > 270.0


def test_a_job_that_can_never_start_has_no_time() -> None:
    """A job larger than the cluster never starts: its forecast is infinite."""
    state = busy(1)
    jobs = [*state.jobs[:2], QueuedJob(spec(9, 3))]
    (found,) = forecast_starts(
        QueueState(100.0, state.platform, jobs, state.new_policy), HISTORY, 3, seed=1
    )
    assert found.median_s == found.low_s == found.at_limits_s == math.inf


def test_a_score_is_the_median_error_and_the_coverage() -> None:
    """Forecasts of which Slurm says nothing count in the score but not in the comparison."""
    found = score_of(
        [
            Forecasted(100.0, 90.0, 80.0, 99.5, 400.0),  # within a second of the range
            Forecasted(100.0, 130.0, 120.0, 140.0, 105.0),
            Forecasted(100.0, 100.0, 50.0, 150.0, None),
        ]
    )
    assert found.forecasts == 3
    assert found.error_s == 10.0
    assert found.coverage == pytest.approx(2 / 3)
    assert (found.compared, found.compared_error_s, found.slurm_error_s) == (2, 20.0, 152.5)


@pytest.mark.slow
def test_a_range_of_the_model_covers_what_the_model_does() -> None:
    """If run times are as in the history, the range from 10 to 90 % covers about 80 %."""
    state = busy(6)
    forecasts = forecast_starts(state, HISTORY, 40, seed=2)
    inside = total = 0
    for seed in range(40):
        again = forecast_starts(state, HISTORY, 1, seed=100 + seed)
        for each, actual in zip(forecasts, again, strict=True):
            inside += each.low_s <= actual.median_s <= each.high_s
            total += 1
    assert 0.7 <= inside / total <= 0.92
