"""Fits of what the configuration of a cluster does not say: each finds what was drawn."""

from __future__ import annotations

import math
from dataclasses import replace
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from hpcosim_slurm.state import LiveJob
from hpcosim_twin.cluster.observation import EndedJob, JobRunTimes
from hpcosim_twin.cluster.recorded import RecordedJob, RecordedRun
from hpcosim_twin.fits.outcomes import giving_up, outcomes
from hpcosim_twin.fits.periods import periods, start_delay
from hpcosim_twin.fits.run_times import RunTimeChoice, chosen, score
from hpcosim_twin.fits.submissions import rhythm, waiting_users

UTC = ZoneInfo("UTC")
ASKED = LiveJob(1, "solve", "ada", "cpu", "pending", "PENDING", 0.0, 8, 1, 0, eligible_s=0.0)


def job(submit_s: float, start_s: float, end_s: float, state: str = "COMPLETED") -> RecordedJob:
    """Return a job; one without a start was cancelled at its end."""
    asked = replace(ASKED, submitted_s=submit_s, eligible_s=submit_s)
    runs = (RecordedRun(start_s, end_s, ("c01",), state),) if math.isfinite(start_s) else ()
    return RecordedJob(asked, runs, end_s, state if runs else "CANCELLED", None)


def test_the_hazard_of_giving_up_is_found() -> None:
    """Waits end by a start or, after 10 h on average, by a cancellation: 0.1 in an hour."""
    draw = np.random.default_rng(2)
    jobs = []
    for number in range(1000):
        start_s, gone_s = draw.exponential(20_000.0), draw.exponential(36_000.0)
        submit_s = 100.0 * number
        has_gone = gone_s < start_s
        jobs.append(
            job(submit_s, math.inf, submit_s + gone_s)
            if has_gone
            else job(submit_s, submit_s + start_s, submit_s + start_s + 60.0)
        )
    rate, shape = giving_up(jobs, 1e9)
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low < 0.1 < rate.high
    assert rate.value == pytest.approx(0.1, rel=0.15)
    assert shape.value == pytest.approx(1.0, abs=0.1)


def test_without_cancelled_jobs_nobody_gives_up_and_the_reason_is_said() -> None:
    """The accounting may have been asked for started jobs only."""
    (found,) = giving_up([job(0.0, 100.0, 200.0)] * 30, 1e9)
    assert found.value == 0.0
    assert "no job was cancelled" in found.reason


def test_shares_of_ends_have_intervals() -> None:
    """Ten of a hundred fail, one run in 101 is a second one."""
    jobs = [job(0.0, 1.0, 2.0, "FAILED" if number < 10 else "COMPLETED") for number in range(100)]
    jobs[99] = replace(jobs[99], runs=(RecordedRun(0.5, 0.7, (), "NODE_FAIL"), *jobs[99].runs))
    found = {each.name: each for each in outcomes(jobs)}
    failed = found["jobs that fail"]
    assert failed.value == 0.1
    assert failed.low is not None
    assert failed.high is not None
    assert failed.low < 0.1 < failed.high
    assert found["runs that are requeued"].value == pytest.approx(1 / 101)


def test_the_hours_of_the_day_are_found_and_those_of_a_constant_rate_are_not() -> None:
    """By day there are four times as many submissions as by night, in local time."""
    draw = np.random.default_rng(4)
    times_s = np.sort(draw.uniform(0.0, 28 * 86_400.0, 6000)) + 1_772_409_600.0
    hours = (times_s / 3600.0 + 1.0) % 24  # Berlin in March is UTC + 1
    by_day = times_s[(hours >= 8) & (hours < 20) | (draw.random(6000) < 0.25)]
    found, findings = rhythm(by_day, ZoneInfo("Europe/Berlin"))
    assert np.mean(found.hours[8:20]) == pytest.approx(1.6, abs=0.08)
    assert not findings[0].reason
    constant, findings = rhythm(times_s, UTC)
    assert max(constant.days) == 1.0
    assert all(each.reason for each in findings)


def test_users_who_wait_for_their_jobs_are_found() -> None:
    """Half of the jobs come five minutes after the end of the last, the others a day later."""
    jobs, now_s = [], 0.0
    for number in range(40):
        jobs.append(job(now_s, now_s, now_s + 600.0))
        now_s += 900.0 if number % 2 else 86_400.0
    (found,) = waiting_users(jobs)
    assert found.value == pytest.approx(19 / 39)


def test_the_interval_of_passes_is_found() -> None:
    """Waiting jobs start at multiples of 45 s, and ends come at any time."""
    draw = np.random.default_rng(5)
    jobs = []
    for start in np.cumsum(draw.integers(1, 9, 300)):
        start_s = 45.0 * start + draw.integers(2)
        jobs.append(job(start_s - draw.uniform(400.0, 4000.0), start_s, start_s + 1e7))
    (found,) = periods(jobs, {})
    assert not found.reason
    assert found.value == pytest.approx(45.0, abs=0.5)
    at_any = [
        job(start_s - 4000.0, start_s, start_s + 1e7)
        for start_s in np.cumsum(draw.exponential(150.0, 300))
    ]
    (found,) = periods(at_any, {"scheduler": {"bf_interval_s": 70.0}})
    assert found.value == 70.0
    assert "no interval: bf_interval of slurm.conf" in found.reason


def test_the_delay_of_starts_is_that_of_an_idle_cluster() -> None:
    """Jobs that come one by one start after 20 s; those that queue do not count."""
    alone = [job(1000.0 * n, 1000.0 * n + 20.0, 1000.0 * n + 500.0) for n in range(30)]
    queued = [job(1e6 + n, 1e6 + 500.0 * n, 1e6 + 500.0 * (n + 1)) for n in range(1, 30)]
    median, most = start_delay([*alone, *queued])
    assert median.value == most.value == 20.0
    assert median.observations == 30


def test_the_score_of_a_run_time_is_that_of_its_definition() -> None:
    """E|X - y| - E|X - X'| / 2 of the logarithms, by the double sum."""
    model = JobRunTimes()
    for run_s in (10.0, 300.0, 4000.0, 90.0):
        model.learn(EndedJob("ada", 7200.0, run_s))
    found = model.distribution(*model.key("ada", "", 7200.0, 0.0))
    values, shares = np.log(found.values_s + 60.0), np.diff(found.upto, prepend=0.0)
    apart = shares @ np.abs(values - math.log(560.0))
    spread = shares @ np.abs(values[:, None] - values) @ shares
    assert score(found, 500.0) == pytest.approx(apart - spread / 2)


def test_run_times_depend_on_what_tells_them_apart() -> None:
    """The number of cores tells run times apart, the account does not."""
    draw = np.random.default_rng(6)
    jobs = []
    for _ in range(600):
        cores = float(draw.choice([1.0, 64.0]))
        run_s = 60.0 * cores * math.exp(draw.normal(0.0, 0.2))
        jobs.append(EndedJob("", 86_400.0, run_s, str(draw.choice(["a", "b"])), cores))
    choice, findings = chosen(jobs)
    assert choice.by_cores
    assert not any(each.reason for each in findings)
    few, findings = chosen(jobs[:20])
    assert few == RunTimeChoice()
    assert "only 20 jobs" in findings[0].reason
