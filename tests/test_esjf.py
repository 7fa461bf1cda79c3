"""Energy-aware shortest job first, on machines in steps of a second."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import jobs_of
from hpcosim_client import PolicyError, make_policy, play
from hpcosim_client.heuristics.esjf import esjf
from hpcosim_client.view import Policy
from hpcosim_protocol import NodeGroup, Platform, Processor
from hpcosim_server.simulation import Rules, Simulation
from hpcosim_server.workload.table import JobTable
from step_oracle import StepJob, reference_esjf

Schedule = dict[int, tuple[float, int]]
CLOCKS_GHZ = (2.0, 1.0)
CORES = 4


class Drawn(NamedTuple):
    """A job; run times in steps on the faster machine."""

    submit_s: int
    expected: int
    actual: int
    cores: int


def machines(cores: int = CORES) -> Platform:
    """Return two machines, the second half as fast and a tenth as hungry."""
    groups = (
        NodeGroup(1, (Processor(cores, clock_ghz, 0.0, dynamic_w, 0.0),))
        for clock_ghz, dynamic_w in zip(CLOCKS_GHZ, (10.0, 1.0), strict=True)
    )
    return Platform(tuple(groups))


def table(drawn: list[Drawn]) -> JobTable:
    """Return a workload whose times hold on the slower machine."""
    return jobs_of(*((job.submit_s, 2 * job.actual, job.cores, 2 * job.expected) for job in drawn))


def simulated(policy: Policy, jobs: JobTable, cores: int = CORES) -> Simulation:
    """Return the simulation of a workload, which is over."""
    simulation = Simulation(machines(cores), jobs, Rules(reference_ghz=1.0))

    def ask(decisions, wake_on, elapsed_s):  # type: ignore[no-untyped-def]
        return simulation.advance(decisions, wake_on=wake_on, elapsed_s=elapsed_s)

    play(policy, machines(cores), ask)
    return simulation


def schedule(policy: Policy, jobs: JobTable, cores: int = CORES) -> Schedule:
    """Return when and where each job started."""
    recording = simulated(policy, jobs, cores).recording
    return {
        recording.job_id[row]: (recording.start_s[row], recording.nodes_of(row)[0])
        for row in range(len(recording))
    }


workloads = st.lists(
    st.builds(
        Drawn,
        submit_s=st.integers(0, 12),
        expected=st.integers(1, 6),
        actual=st.integers(1, 8),
        cores=st.integers(1, CORES),
    ),
    min_size=1,
    max_size=14,
).map(lambda jobs: sorted(jobs, key=lambda job: job.submit_s))


@pytest.mark.parametrize("now_only", [False, True])
@settings(max_examples=150, deadline=None)
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
    with pytest.raises(PolicyError, match=r"job 1 asks for 5 cores.* of at most 4"):
        schedule(make_policy("esjf"), table([Drawn(0, 1, 1, 5)]))


def test_a_horizon_too_short_for_a_job_is_refused() -> None:
    """A job that is longer than the horizon on every machine would wait for ever."""
    with pytest.raises(PolicyError, match="job 1 takes 31 steps at the least; a horizon of 30"):
        schedule(make_policy("esjf"), table([Drawn(0, 31, 31, 1)]))
