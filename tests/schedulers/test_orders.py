"""The orders of the queue against values worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client.job import Job
from hpcosim_schedulers.heuristics import list_scheduling
from support.examples import examples
from support.simulating import cluster_of, jobs_of, simulate, starts


def job(submit_s: float, cores: int, requested_s: float) -> Job:
    """Return a job that waits."""
    return Job(1, submit_s, cores, requested_s)


@pytest.mark.parametrize(
    ("order", "submit_s", "requested_s", "expected"),
    [
        (list_scheduling.sjf, 1000, 100, 100),
        (list_scheduling.ljf, 1000, 100, -100),
        (list_scheduling.smallest, 1000, 100, 4),
        (list_scheduling.f1, 1000, 100, 2 * 4 + 870 * 3),  # log10(100) 4 + 870 log10(1000)
        (list_scheduling.f2, 1000, 100, 10 * 4 + 25_600 * 3),  # sqrt(100) 4 + 25600 log10(1000)
        (list_scheduling.f3, 1000, 100, 400 + 6_860_000 * 3),  # 100 * 4 + 6860000 log10(1000)
        (list_scheduling.f4, 1000, 100, 100 * 2 + 530_000 * 3),  # 100 sqrt(4) + 530000 log10(1000)
        # A submission at 0 s counts as at 0.1 s, whose logarithm is -1.
        (list_scheduling.f1, 0, 100, 2 * 4 - 870),
        (list_scheduling.f2, 0, 100, 10 * 4 - 25_600),
        (list_scheduling.f3, 0, 100, 400 - 6_860_000),
        (list_scheduling.f4, 0, 100, 100 * 2 - 530_000),
        # So does a requested time of 0 s.
        (list_scheduling.f1, 1000, 0, -4 + 2610),
        (list_scheduling.f2, 1000, 0, math.sqrt(0.1) * 4 + 76_800),
        (list_scheduling.f3, 1000, 0, 0.4 + 20_580_000),
        (list_scheduling.f4, 1000, 0, 0.2 + 1_590_000),
    ],
)
def test_fixed_orders(
    order: list_scheduling.Key, submit_s: float, requested_s: float, expected: float
) -> None:
    """A job of 4 cores has the key worked out by hand."""
    assert order(job(submit_s, 4, requested_s)) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("requested_s", "cores", "wait_s", "expected"),
    [(100.0, 4, 200.0, -32.0), (50.0, 3, 0.0, 0.0), (10.0, 1, 30.0, -27.0), (8.0, 16, 4.0, -2.0)],
)
def test_wfp3(requested_s: float, cores: int, wait_s: float, expected: float) -> None:
    """The key is -(w / r)^3 n, w the time since submission."""
    assert list_scheduling.wfp3(job(7.0, cores, requested_s), 7.0 + wait_s) == pytest.approx(
        expected
    )


@pytest.mark.parametrize(
    ("requested_s", "cores", "wait_s", "expected"),
    [(100.0, 4, 200.0, -1.0), (50.0, 2, 0.0, 0.0), (10.0, 8, 30.0, -1.0), (8.0, 2, 4.0, -0.5)],
)
def test_unicep(requested_s: float, cores: int, wait_s: float, expected: float) -> None:
    """The key is -w / (log2(n) r), w the time since submission."""
    assert list_scheduling.unicep(job(7.0, cores, requested_s), 7.0 + wait_s) == pytest.approx(
        expected
    )


def test_unicep_of_one_core() -> None:
    """A job of one core that has waited comes before any other, one that has not is not split."""
    assert list_scheduling.unicep(job(7.0, 1, 100.0), 8.0) == -math.inf
    assert list_scheduling.unicep(job(7.0, 1, 100.0), 7.0) == 0.0


@pytest.mark.parametrize("order", ["wfp3", "unicep"])
@given(
    requested_s=st.floats(1, 1e6),
    cores=st.integers(2, 1000),
    waits=st.tuples(*[st.floats(1, 1e6)] * 2),
)
def test_waiting_moves_a_job_forward(
    order: str, requested_s: float, cores: int, waits: tuple[float, float]
) -> None:
    """The longer a job has waited the smaller its key: the sign of the wait is right."""
    key = list_scheduling.CHANGING[order]
    short_s, long_s = sorted(waits)
    one = job(0.0, cores, requested_s)
    assert key(one, long_s) <= key(one, short_s) < 0


ALL = ["fcfs", *list_scheduling.FIXED, *list_scheduling.CHANGING]


@pytest.mark.parametrize("policy", ALL)
def test_ties_go_by_submission(policy: str) -> None:
    """Equal jobs start in the order in which they were submitted."""
    jobs = jobs_of((0.0, 5.0, 2), *[(1.0, 10.0, 2)] * 6)
    start_s = list(starts(simulate(cluster_of(2), jobs, policy)).values())
    assert start_s == [0.0, 5.0, 15.0, 25.0, 35.0, 45.0, 55.0]


def order_of(policy: str, *jobs: tuple[float, float, int]) -> list[int]:
    """Return the numbers of the jobs, from 1, as they start behind one that holds all to 1000 s."""
    table = jobs_of((0.0, 1000.0, 8), *jobs)
    start_s = starts(simulate(cluster_of(8), table, policy))
    return [number - 1 for number in sorted(start_s, key=lambda n: (start_s[n], n)) if number > 1]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("fcfs", [1, 2, 3, 4]),
        ("sjf", [3, 1, 4, 2]),
        ("ljf", [2, 4, 1, 3]),
        ("smallest", [2, 4, 3, 1]),
        ("f1", [1, 2, 3, 4]),  # the submission time outweighs all
        ("f2", [1, 2, 3, 4]),
        ("f3", [1, 2, 3, 4]),
        ("f4", [1, 2, 3, 4]),
    ],
)
def test_order_of_starts(policy: str, expected: list[int]) -> None:
    """Jobs too wide to run beside each other start in the order's sequence."""
    jobs = ((100.0, 40.0, 8), (200.0, 90.0, 5), (300.0, 30.0, 7), (400.0, 60.0, 6))
    assert order_of(policy, *jobs) == expected


def test_wfp3_order_of_starts() -> None:
    """At 1000 s the keys are -(900/300)^3 5, -(500/100)^3 5 and -(200/100)^3 8."""
    # -135, -625, -64; at 1100 s, after the second, -(1000/300)^3 5 = -185, -(300/100)^3 8 = -216.
    jobs = ((100.0, 300.0, 5), (500.0, 100.0, 5), (800.0, 100.0, 8))
    assert order_of("wfp3", *jobs) == [2, 3, 1]


def test_unicep_order_of_starts() -> None:
    """The job of one core starts first, then the others by -w / (log2(n) r)."""
    # At 1000 s: -900/(3*300) = -1, -500/(3*100) = -1.67; the narrow one has waited the least.
    jobs = ((100.0, 300.0, 8), (500.0, 100.0, 8), (999.0, 100.0, 1))
    assert order_of("unicep", *jobs) == [3, 2, 1]


@examples(25)
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 9), st.integers(1, 3)), min_size=1, max_size=12
    ),
    st.sampled_from(sorted(list_scheduling.CHANGING)),
)
def test_changing_orders_are_looked_at_anew(drawn: list[tuple[int, int, int]], policy: str) -> None:
    """The job that starts has the smallest key at that second."""
    drawn.sort()
    table = jobs_of(*[(float(submit), float(run), 3) for submit, run, _ in drawn])
    simulation = simulate(cluster_of(3), table, policy)
    key = list_scheduling.CHANGING[policy]
    start_s = list(simulation.recording.start_s)
    waiting = set(range(len(drawn)))
    while waiting:
        now_s = min(start_s[row] for row in waiting)
        here = [row for row in waiting if drawn[row][0] <= now_s]
        seen = {row: job(float(drawn[row][0]), 3, float(drawn[row][1])) for row in here}
        best = min(here, key=lambda row: (key(seen[row], now_s), row))
        assert start_s[best] == now_s
        waiting.remove(best)
