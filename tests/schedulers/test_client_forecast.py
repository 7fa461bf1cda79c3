"""Forecasts of arrivals, run times and releases."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hpcosim_client import View, play
from hpcosim_protocol import NodeGroup, Platform, Processor
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.forecast import Arrivals, Releases, RunTimes, TimeDistribution, ViewForecast
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_workloads.synthetic.lublin import poisson

HOUR_S, DAY_S = 3600.0, 86_400.0


def office_hours(weeks: int) -> Arrivals:
    """Return the forecast after weeks with a submission each 10 minutes, from 8 to 18 o'clock."""
    arrivals = Arrivals()
    for day in range(7 * weeks):
        for minute in range(8 * 60, 18 * 60, 10):
            arrivals.submitted(day * DAY_S + minute * 60.0, "ann", 2.0, HOUR_S)
    return arrivals


def test_the_rhythm_of_the_day_is_learned() -> None:
    """More is expected before noon than early in the morning."""
    arrivals = office_hours(6)
    now_s = 42 * DAY_S
    horizons_s = [4 * HOUR_S, 8 * HOUR_S, 12 * HOUR_S, 24 * HOUR_S]
    _, night, morning, _ = np.diff(arrivals.expected(now_s, horizons_s).jobs, prepend=0.0)
    assert night < 0.4 * morning


def test_the_mean_of_the_samples_is_the_expected_number() -> None:
    """Closed form and samples are two ways to the same mean, in jobs and in sizes."""
    arrivals = office_hours(4)
    now_s = 28 * DAY_S + 9 * HOUR_S
    for second in range(30):
        arrivals.submitted(now_s + second, "bob", 8.0, 60.0)
    horizon_s = 600.0
    expected = arrivals.expected(now_s + 30.0, [horizon_s])
    found = arrivals.scenarios(now_s + 30.0, horizon_s, 2000, np.random.default_rng(1))
    assert found.counts().mean() == pytest.approx(expected.jobs[0], rel=0.05)
    assert found.sizes().mean() == pytest.approx(expected.size[0], rel=0.25)
    assert (np.diff(found.sample) >= 0).all()
    assert found.submit_s.min() >= now_s + 30.0
    assert found.submit_s.max() <= now_s + 30.0 + horizon_s


def test_a_session_makes_more_submissions_of_its_user_likely() -> None:
    """After a burst, more is expected, and by the user of the burst with the burst's requests."""
    rng = np.random.default_rng(2)
    arrivals = Arrivals()
    for session in range(200):
        user = ("ann", "bob")[session % 2]
        for job in range(10):
            arrivals.submitted(session * DAY_S / 2 + 60.0 * job, user, 4.0 + session, HOUR_S)
    now_s = 100 * DAY_S
    calm = arrivals.expected(now_s, [HOUR_S]).jobs[0]
    for job in range(5):
        arrivals.submitted(now_s + 60.0 * job, "ann", 32.0, HOUR_S)
    assert arrivals.expected(now_s + 240.0, [HOUR_S]).jobs[0] > 5 * calm
    found = arrivals.scenarios(now_s + 240.0, HOUR_S, 200, rng)
    assert np.mean([found.users[user] == "ann" for user in found.user]) > 0.8
    assert np.mean(found.size == 32.0) > 0.7


def test_the_same_generator_gives_the_same_samples() -> None:
    """Samples depend on nothing but the history and the generator."""
    arrivals = office_hours(1)
    one, two = (arrivals.scenarios(8 * DAY_S, DAY_S, 5, np.random.default_rng(3)) for _ in range(2))
    assert len(one.submit_s) > 0
    assert [np.asarray(each).tolist() for each in one] == [
        np.asarray(each).tolist() for each in two
    ]


def test_a_long_silence_costs_little_and_ends_the_activity() -> None:
    """Ten years without submissions leave little to expect."""
    arrivals = office_hours(2)
    assert 0.0 <= arrivals.expected(3650 * DAY_S, [DAY_S]).jobs[0] < 5.0


def test_times_may_be_negative_and_never_go_back() -> None:
    """The clock of the caller may begin anywhere; a late submission counts as one of now."""
    arrivals = Arrivals()
    for time_s in (-1e6, -500.0, -400.0, 1000.0, 900.0, 1e12):
        arrivals.submitted(time_s, f"user {time_s}", 1.0, 60.0)
    assert arrivals.now_s == 1e12
    assert np.isfinite(arrivals.expected(2e12, [DAY_S]).jobs).all()


def test_without_history_nothing_fails() -> None:
    """Empty models answer."""
    assert np.isfinite(Arrivals().expected(5.0, [HOUR_S]).jobs).all()
    assert len(Arrivals().scenarios(5.0, 0.0, 3, np.random.default_rng(0)).counts()) == 3
    drawn = Arrivals().scenarios(5.0, DAY_S, 10, np.random.default_rng(0))
    assert set(drawn.size.tolist()) == {1.0}
    assert Releases().expected(0.0, np.array([1.0])).tolist() == [0.0]
    assert (
        RunTimes().distribution("ann", "", 600.0, 1.0).quantiles([0.1, 0.9]).tolist() == [600.0] * 2
    )
    assert math.isfinite(RunTimes().distribution("", "", math.inf, 1.0).mean_s())


def test_users_differ_in_how_they_are_predicted() -> None:
    """One user repeats run times, another takes shares of what is requested: each is found."""
    times, rng = RunTimes(), np.random.default_rng(4)
    for _ in range(200):
        requested_s = float(rng.choice([600.0, 1200.0, 7200.0]))
        times.ended("ann", "", requested_s, 1.0, 0.5 * requested_s)
        times.ended("bob", "", requested_s, 1.0, 300.0)
    assert times.distribution("ann", "", 36_000.0, 1.0).quantiles([0.5])[0] == 18_000.0
    assert times.distribution("bob", "", 36_000.0, 1.0).quantiles([0.5])[0] == 300.0


def test_a_running_job_has_only_times_that_have_not_passed() -> None:
    """Conditioned on the elapsed time, the longer past run times remain."""
    given = TimeDistribution(np.array([60.0, 600.0, 6000.0]), np.array([0.5, 0.9, 1.0]))
    assert given.after(60.0).values_s.tolist() == [600.0, 6000.0]
    assert given.after(60.0).upto.tolist() == pytest.approx([0.8, 1.0])
    assert (given.after(9000.0).values_s > 9000.0).all()


def test_releases_are_the_ends_of_jobs_that_run() -> None:
    """Expected and drawn releases agree, and jobs that ended or restarted count once."""
    releases = Releases()
    half = TimeDistribution(np.array([100.0, 1000.0]), np.array([0.5, 1.0]))
    for job in range(40):
        releases.started(job, 0.0, 2.0, half)
    for job in range(0, 40, 2):
        releases.ended(job)
    releases.started(1, 50.0, 2.0, half)
    at_s = np.array([100.0, 150.0, 1100.0])
    expected = releases.expected(60.0, at_s)
    assert expected.tolist() == pytest.approx([19.0, 20.0, 40.0])
    drawn = releases.drawn_released(60.0, at_s, 2000, np.random.default_rng(5))
    assert drawn.mean(0).tolist() == pytest.approx(expected.tolist(), rel=0.05)
    assert releases.expected(500.0, np.array([2000.0])).tolist() == [40.0]


def test_a_job_that_exceeds_all_past_times_still_ends() -> None:
    """The time left is of the order of the time that has passed."""
    releases = Releases()
    releases.started(1, 0.0, 1.0, TimeDistribution(np.array([10.0]), np.array([1.0])))
    assert releases.expected(1000.0, np.array([1100.0, 1300.0, 6000.0])).tolist() == pytest.approx(
        [0.0, 1 / 3, 1.0]
    )


def test_a_policy_feeds_the_forecast_from_its_view() -> None:
    """Submissions, ends and running jobs of a simulation arrive in the models."""
    platform = Platform((NodeGroup(16, (Processor(1, 1.0, 100.0, 0.0, 1.0),)),))
    jobs = poisson(
        np.random.default_rng(6),
        jobs=200,
        mean_interarrival_s=300.0,
        cores=(1, 8),
        run_s=(60.0, 1200.0),
        overestimate=2.0,
    )
    simulation, forecast, decide = Simulation(platform, jobs), ViewForecast(), make_policy("easy")
    seen = []

    def policy(view: View) -> None:
        decide(view)
        view.wake_on = None  # of all submissions, starts and ends
        forecast.update(view)
        seen.append((len(forecast.releases), len(view.running)))

    play(
        policy,
        platform,
        lambda decisions, wake_on, elapsed_s: simulation.advance(
            decisions, wake_on=wake_on, elapsed_s=elapsed_s
        ),
    )
    assert all(one == other for one, other in seen)
    assert max(one for one, _ in seen) > 1
    median_s = forecast.run_times.distribution("", "", 2000.0, 4.0).quantiles([0.5])[0]
    shares = np.quantile(jobs.run_s / jobs.requested_s, [0.3, 0.7])
    assert 2000.0 * shares[0] < median_s < 2000.0 * shares[1]
    in_hour = forecast.arrivals.expected(forecast.arrivals.now_s, [HOUR_S]).jobs[0]
    assert 6.0 < in_hour < 24.0
