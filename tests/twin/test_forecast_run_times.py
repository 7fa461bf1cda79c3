"""Run times drawn from a history."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_twin.cluster.observation import UNLIMITED_S, DrawnRunTimes, EndedJob, learned
from hpcosim_workloads.table import JobSpec

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


def job(user: str, requested_s: float) -> JobSpec:
    """Return a job."""
    return JobSpec(1, 0.0, math.nan, requested_s, 1, "cores", user=user)


@given(HISTORIES, st.integers(0, 99), st.sampled_from([0.0, 60.0, 7200.0, UNLIMITED_S]), TIMES_S)
def test_a_draw_is_longer_than_the_time_that_has_passed(
    history: list[EndedJob], seed: int, requested_s: float, elapsed_s: float
) -> None:
    """A job that runs is never drawn to have ended already."""
    times = DrawnRunTimes(learned(history), np.random.default_rng(seed))
    assert times.of([(job("ann", requested_s), elapsed_s)])[0] > elapsed_s


def drawn(
    history: list[EndedJob], user: str, requested_s: float, elapsed_s: float = 0.0
) -> list[float]:
    """Return draws of 500 simulations."""
    model = learned(history)
    return [
        DrawnRunTimes(model, np.random.default_rng(seed)).of([(job(user, requested_s), elapsed_s)])[
            0
        ]
        for seed in range(500)
    ]


def test_without_history_a_run_time_is_a_wide_guess() -> None:
    """Nothing is known, from 1 % of the limit to all of it; a forecast must not look certain."""
    found = drawn([], "ann", 3600.0)
    assert min(found) < 60.0
    assert 10 < sum(run_s == math.inf for run_s in found) < 100
    assert 200.0 < np.median(found) < 700.0


def test_run_times_are_shares_of_the_requested_time() -> None:
    """Jobs that took half of their time are half of another requested time."""
    history = [EndedJob("ann", limit_s, limit_s / 2) for limit_s in (100.0, 900.0, 5000.0)] * 50
    found = drawn(history, "ann", 3600.0)
    assert sum(1300.0 <= run_s <= 2500.0 for run_s in found) > 450


def test_a_job_ended_at_its_limit_says_that_the_next_one_is() -> None:
    """A history of jobs that reached their limits draws the limit, whenever they were ended."""
    history = [EndedJob("ann", 60.0, None), EndedJob("ann", 60.0, 91.0)]
    assert set(drawn(history, "ann", 60.0)) == {math.inf}


def test_only_times_come_into_question_by_which_a_job_still_runs() -> None:
    """Of a job that has run for half its time, shorter jobs of the history say nothing."""
    history = [EndedJob("ann", 100.0, share) for share in (10.0, 20.0, 80.0)] * 100
    found = drawn(history, "ann", 100.0, 50.0)
    assert all(80.0 / 1.5 < run_s <= 100.0 or run_s == math.inf for run_s in found)


def test_a_short_history_leaves_more_open_than_a_long_one() -> None:
    """Medians of simulations differ more after three jobs than after many."""

    def spread(copies: int) -> float:
        model = learned([EndedJob("ann", 100.0, run_s) for run_s in (10.0, 40.0, 80.0)] * copies)
        medians = []
        for seed in range(40):
            times = DrawnRunTimes(model, np.random.default_rng(seed))
            draws = np.minimum(times.of([(job("ann", 100.0), 0.0)] * 40), 100.0)
            medians.append(float(np.mean(draws)))
        return float(np.std(medians))

    assert spread(1) > 1.5 * spread(60)


def test_jobs_with_as_many_cores_and_of_the_same_account_count() -> None:
    """The number of cores tells run times apart; without any in the history, none counts."""
    history = [EndedJob("", 3600.0, 60.0 * cores, "", cores) for cores in (1.0, 30.0)] * 40
    model = learned(history)
    one, many = (model.key("", "", 3600.0, cores) for cores in (1, 30))
    assert model.distribution(*one).quantiles([0.5]) < 120.0
    assert model.distribution(*many).quantiles([0.5]) > 1200.0
    by_account = learned([EndedJob("ann", 3600.0, 60.0, "physics")] * 40)
    assert by_account.key("bob", "physics", 3600.0, 8) == ("bob", "physics", 3600.0, 0.0)
    assert learned([EndedJob("ann", 3600.0, 60.0)]).key("bob", "physics", 9.0, 8)[1:] == (
        "",
        9.0,
        0.0,
    )
