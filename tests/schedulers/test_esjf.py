"""Energy-aware shortest job first, on machines in steps of a second."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import PolicyError
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.heuristics.esjf import esjf
from support.examples import examples
from support.step_machines import CORES, Drawn, schedule, table, workloads
from support.step_oracle import StepJob, reference_esjf


@pytest.mark.parametrize("now_only", [False, True])
@examples(150)
@given(drawn=workloads, horizon=st.integers(12, 30), queue=st.integers(1, 10))
def test_schedules_are_the_references(
    drawn: list[Drawn], horizon: int, queue: int, now_only: bool
) -> None:
    """Every job starts when and where a reference in exact fractions has it start."""
    jobs = [
        StepJob(
            number,
            job.submit_s,
            job.cores,
            (job.expected, 2 * job.expected),
            (job.actual, 2 * job.actual),
        )
        for number, job in enumerate(drawn, 1)
    ]
    watts = [Fraction(10), Fraction(1)]
    reference_esjf(jobs, [CORES] * 2, watts, horizon, queue, now_only)
    policy = esjf(horizon=horizon, queue=queue, now_only=now_only)
    expected = {job.number: (float(job.start), job.node) for job in jobs}
    assert schedule(policy, table(drawn)) == expected


def test_the_frugal_machine_is_bound_ahead() -> None:
    """Of three alike jobs the third is bound to the machine that is slower but costs a tenth.

    Each takes 2 s x 4 cores x 1 W there, 1 s x 4 cores x 10 W on the other; it ends 2, 4 and 6 s
    on, so it comes to (8 x 2, 8 x 4, 8 x 6) against 40 x 1 on the fast one: the third goes there.
    """
    drawn = [Drawn(0, 1, 1, 4)] * 3
    assert schedule(make_policy("esjf"), table(drawn)) == {1: (0.0, 1), 2: (2.0, 1), 3: (0.0, 0)}


def test_only_what_starts_now_is_bound() -> None:
    """`esjf-now` gives the second job the fast machine rather than let it wait for the other."""
    drawn = [Drawn(0, 1, 1, 4)] * 2
    assert schedule(make_policy("esjf-now"), table(drawn)) == {1: (0.0, 1), 2: (0.0, 0)}


@pytest.mark.parametrize(("actual", "start_s"), [(1, 2.0), (3, 6.0)])
def test_bound_jobs_follow_what_really_happens(actual: int, start_s: float) -> None:
    """Expected after 4 s, a bound job comes forward if that before it is early, or stands back."""
    drawn = [Drawn(0, 2, actual, 4), Drawn(0, 2, 2, 4)]
    starts = schedule(make_policy("esjf"), table(drawn))
    assert starts == {1: (0.0, 1), 2: (start_s, 1)}


def test_a_job_wider_than_a_machine_is_refused() -> None:
    """It says how wide machines are; on the whole cluster the job would find room."""
    with pytest.raises(PolicyError, match=r"job 1 requests 5 cores.* at most 4"):
        schedule(make_policy("esjf"), table([Drawn(0, 1, 1, 5)]))


def test_a_horizon_too_short_for_a_job_is_refused() -> None:
    """A job that is longer than the horizon on every machine would wait for ever."""
    with pytest.raises(PolicyError, match="job 1 needs at least 31 steps"):
        schedule(make_policy("esjf"), table([Drawn(0, 31, 31, 1)]))
