"""Submissions that submissions and ends of jobs cause."""

from __future__ import annotations

import numpy as np
import pytest

from hpcosim_schedulers.forecast import Arrivals, RunningJobs
from hpcosim_schedulers.forecast.arrivals import Ends, LastOfUsers, simulated
from hpcosim_schedulers.forecast.excitation import OF_ENDS, Excitation
from support.hawkes_oracle import UserEvent, counts_by_steps, shares_by_sums

HOUR_S = 3600.0


def waiting_user(jobs: int, run_s: float) -> Arrivals:
    """Return the forecast after a user has submitted each job 30 s after the end of the last."""
    arrivals = Arrivals()
    for job in range(jobs):
        submit_s = job * (run_s + 30.0)
        arrivals.submitted(submit_s, "ann", 4.0, HOUR_S)
        arrivals.ended(submit_s + run_s, "ann", run_s)
    return arrivals


def test_causes_are_those_of_direct_sums() -> None:
    """The shares of the kernels are those of the model's definition, with all events summed."""
    rng = np.random.default_rng(1)
    times_s = [0.0, *np.sort(rng.uniform(0.0, HOUR_S, 60)).tolist()]
    users, ends = [0, *rng.integers(0, 3, 60).tolist()], [False, *(rng.random(60) < 0.4).tolist()]
    events = [UserEvent(*each) for each in zip(times_s, users, ends, strict=True)]
    process, found, number = Excitation(), [], dict[int, int]()
    for event in events:
        if event.user not in number:
            process.advance(event.time_s)
            number[event.user] = process.new_user()
        user = number[event.user]
        if event.is_end:
            process.ended(event.time_s, user)
        else:
            found.append(process.submitted(event.time_s, user))
    expected = shares_by_sums(events)
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-9, atol=1e-15)
    assert np.array(found)[:, OF_ENDS].sum() > 1.0


def test_samples_have_the_mean_of_a_simulation_in_small_steps() -> None:
    """Running jobs end, submissions follow, and their jobs end and cause others in turn."""
    process, runs_s = Excitation(), LastOfUsers((np.inf,))
    user = process.new_user()
    for job in range(20):
        process.submitted(150.0 * job, user)
        process.ended(150.0 * job + 120.0, user)
        runs_s.add(user, (120.0,))
    process.advance(3000.0)
    ends_s, samples, horizon_s = [100.0, 100.0, 400.0], 3000, 900.0
    steps = counts_by_steps(
        process,
        120.0,
        [(time_s, user) for time_s in ends_s],
        horizon_s,
        samples,
        np.random.default_rng(2),
    )
    ends = Ends(np.full(3, user), np.tile(ends_s, (samples, 1)))
    found = simulated(process, runs_s, ends, horizon_s, samples, np.random.default_rng(3))
    assert steps.mean() > 4.0
    assert len(found.sample) / samples == pytest.approx(steps.mean(), rel=0.05)


def test_who_waits_for_a_job_submits_after_its_end() -> None:
    """While the job of such a user runs, little is expected before its end, and more after it."""
    arrivals = waiting_user(100, 600.0)
    now_s = 100 * 630.0
    arrivals.submitted(now_s, "ann", 4.0, HOUR_S)
    soon, late = (
        arrivals.expected(now_s + 60.0, [300.0], RunningJobs(["ann"], np.array([[now_s + end_s]])))
        for end_s in (90.0, 7200.0)
    )
    assert soon.jobs[0] > 3 * late.jobs[0]


def test_the_mean_of_the_samples_is_the_expected_number_after_ends() -> None:
    """Closed form and samples agree where only jobs that run now end."""
    arrivals = waiting_user(50, 500_000.0)
    now_s = 50 * 500_030.0
    ends_s = now_s + np.random.default_rng(4).uniform(0.0, 1200.0, (4000, 6))
    running = RunningJobs(["ann"] * 6, ends_s)
    expected = arrivals.expected(now_s, [600.0], running)
    found = arrivals.scenarios(now_s, 600.0, 4000, np.random.default_rng(5), running)
    assert found.counts().mean() == pytest.approx(expected.jobs[0], rel=0.05)


def test_ends_of_unknown_users_have_no_effect() -> None:
    """A job that was submitted before the forecast began may run and end."""
    arrivals = Arrivals()
    arrivals.ended(0.0, "bob", 60.0)
    running = RunningJobs(["bob"], np.array([[10.0]]))
    assert arrivals.expected(0.0, [60.0], running).jobs[0] < 1.0
    assert arrivals.scenarios(0.0, 60.0, 1, np.random.default_rng(6), running).samples == 1


def test_the_count_of_missed_submissions_includes_those_after_ends() -> None:
    """What was expected since the last submission grows with each end of a job."""
    arrivals = waiting_user(100, 600.0)
    now_s = 100 * 630.0
    arrivals.submitted(now_s, "ann", 4.0, HOUR_S)
    before = arrivals.missed(now_s + 600.0)
    arrivals.ended(now_s + 600.0, "ann", 600.0)
    at_end = arrivals.missed(now_s + 600.0)
    assert at_end == pytest.approx(before)
    assert arrivals.missed(now_s + 900.0) > before + 0.3
