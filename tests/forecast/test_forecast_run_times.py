"""Run times drawn from a history."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_forecast.run_times import UNLIMITED_S, EndedJob, RunTimes

TIMES_S = st.floats(0.0, 1e6)
HISTORIES = st.lists(
    st.builds(
        EndedJob,
        st.sampled_from(["ann", "bob"]),
        st.sampled_from([60.0, 3600.0, UNLIMITED_S]),
        st.none() | TIMES_S,
    ),
    max_size=20,
)


@given(HISTORIES, st.integers(0, 99), st.sampled_from([0.0, 60.0, 7200.0, UNLIMITED_S]), TIMES_S)
def test_a_draw_is_longer_than_the_time_that_has_passed(
    history: list[EndedJob], seed: int, requested_s: float, elapsed_s: float
) -> None:
    """A job that runs is never drawn to have ended already."""
    generator = np.random.default_rng(seed)
    times = RunTimes(history).resampled(generator)
    assert times.draw(generator, "ann", requested_s, elapsed_s) > elapsed_s


def drawn(times: RunTimes, user: str, requested_s: float, elapsed_s: float = 0.0) -> list[float]:
    """Return 2000 draws."""
    generator = np.random.default_rng(1)
    return [times.draw(generator, user, requested_s, elapsed_s) for _ in range(2000)]


def test_without_history_a_job_runs_until_its_limit() -> None:
    """Nothing is known: the site ends the job."""
    assert set(drawn(RunTimes(()), "ann", 60.0)) == {math.inf}


def test_run_times_are_shares_of_the_requested_time() -> None:
    """Jobs that took half of their time are half of another requested time."""
    times = RunTimes([EndedJob("ann", 100.0, 50.0)] * 999)
    found = drawn(times, "ann", 3600.0)
    assert found.count(1800.0) > 1980


def test_a_job_ended_at_its_limit_says_that_the_next_one_is() -> None:
    """A history of jobs that reached their limits draws the limit, whenever they were ended."""
    times = RunTimes([EndedJob("ann", 100.0, None), EndedJob("ann", 100.0, 131.0)])
    assert set(drawn(times, "ann", 60.0)) == {math.inf}


def test_a_short_history_is_mixed_with_that_of_all_users() -> None:
    """With n own jobs, the weight of the others is 1 / (n + 1)."""
    others = [EndedJob("bob", 100.0, 90.0)] * 10_000
    times = RunTimes([EndedJob("ann", 100.0, 10.0)] * 3 + others)
    found = drawn(times, "ann", 100.0)
    assert 0.70 < found.count(10.0) / len(found) < 0.80
    assert found.count(90.0) > 0.99 * drawn(times, "new", 100.0).count(90.0) * 0.2


def test_only_times_come_into_question_by_which_a_job_still_runs() -> None:
    """Of a job that has run for half its time, shorter jobs of the history say nothing."""
    times = RunTimes([EndedJob("ann", 100.0, share) for share in (10.0, 20.0, 80.0)] * 100)
    assert set(drawn(times, "ann", 100.0, 50.0)) <= {80.0, math.inf}


def test_jobs_without_limits_have_a_history_of_their_own() -> None:
    """Shares of a year say nothing of jobs with limits, and the other way round."""
    times = RunTimes(
        [EndedJob("ann", UNLIMITED_S, 600.0)] * 500 + [EndedJob("ann", 100.0, 50.0)] * 500
    )
    assert set(drawn(times, "ann", UNLIMITED_S)) <= {600.0, math.inf}
    assert set(drawn(times, "ann", 100.0)) <= {50.0, math.inf}


def test_a_resampled_history_has_as_many_jobs_of_the_same_kinds() -> None:
    """The bootstrap draws with replacement."""
    history = [EndedJob("ann", 100.0, float(run_s)) for run_s in range(20)]
    again = RunTimes(history).resampled(np.random.default_rng(3))
    kinds = RunTimes(history)._shares
    assert {kind: len(each) for kind, each in again._shares.items()} == {
        kind: len(each) for kind, each in kinds.items()
    }
    assert all(set(each) <= set(kinds[kind]) for kind, each in again._shares.items())
    assert again._shares != kinds
