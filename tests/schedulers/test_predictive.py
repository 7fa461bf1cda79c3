"""The power manager that plans spare nodes by forecasts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_protocol import PowerStates
from hpcosim_schedulers.catalogue.power import with_power
from hpcosim_schedulers.power.settings import Predictive
from hpcosim_schedulers.predictive.futures import Futures
from hpcosim_schedulers.predictive.manager import Spares, costs_j, need_of
from support import predictive_oracle as oracle
from support.power_manager_runs import nodes_of, switched_off
from support.simulating import jobs_of, simulate, starts

BOOTS = PowerStates(sleep_w=5, switch_on_s=100, switch_on_w=80, switch_off_s=10, switch_off_w=20)


@st.composite
def futures(draw: st.DrawFn) -> Futures:
    """Return small futures; no two changes of a sample happen at one instant."""
    samples = draw(st.integers(1, 3))
    sizes = st.sampled_from([0.5, 1.0, 2.0, 3.0])
    counts = [draw(st.integers(0, 5)) for _ in range(samples)]
    jobs, total = draw(st.integers(0, 2)), sum(counts)
    instants = draw(st.permutations(range(1, 41)))[: total + samples * jobs]
    submit_s = np.array(instants[:total], dtype=float) * 10.0
    sample = np.repeat(np.arange(samples), counts)
    runs_s = [draw(st.integers(1, 400)) + 0.5 for _ in range(total)]
    ends_s = np.array(instants[total:], dtype=float).reshape(samples, jobs) * 10.0 + 3.0
    return Futures(
        samples,
        sample,
        submit_s[np.lexsort((submit_s, sample))],
        np.array([draw(sizes) for _ in range(total)]),
        np.array(runs_s),
        ends_s,
        np.array([draw(sizes) for _ in range(jobs)]),
    )


@given(futures(), st.integers(0, 6), st.sampled_from([0.0, 0.75]))
def test_the_need_of_a_future_is_that_of_each_submission_in_turn(
    future: Futures, most: int, slack: float
) -> None:
    """Also the submission for which its nodes are switched on."""
    need = need_of(future, most, slack)
    expected = [row for run in oracle.submissions(future, most, slack) for row in run]
    assert need.nodes.tolist() == [row.nodes for row in expected]
    called_s = [row.called_s for row in expected]
    assert [
        each for each, nodes in zip(need.after_s[need.caller], need.nodes, strict=True) if nodes
    ] == [each for each, row in zip(called_s, expected, strict=True) if row.nodes]


@given(futures(), st.lists(st.integers(0, 2), min_size=3, max_size=3))
def test_the_costs_are_those_of_each_node_and_submission(
    future: Futures, counts: list[int]
) -> None:
    """For every number of spare nodes."""
    generator = np.random.default_rng(sum(counts) + len(future.nodes))
    idle, booting, asleep = counts
    count = idle + booting + asleep
    spares = Spares(
        idle,
        booting,
        generator.uniform(50.0, 150.0, count),
        generator.uniform(1e3, 1e4, count),
        np.full(count, 100.0),
    )
    holds_s = np.array([30.0, 120.0, 350.0])
    found = costs_j(need_of(future, count), spares, 200.0, holds_s, 20.0)
    expected = oracle.costs_j(future, spares, 200.0, holds_s, 20.0)
    assert found.tolist() == pytest.approx(expected, rel=1e-9, abs=1e-6)


def steady(jobs: int, gap_s: float = 60.0) -> list[tuple[float, float, int]]:
    """Return jobs of one node that run for half of the time between submissions."""
    return [(gap_s * number, gap_s / 2.0, 1) for number in range(jobs)]


def test_a_node_stays_on_while_jobs_keep_coming() -> None:
    """Its boot would take longer than the time between jobs, so each job would wait."""
    policy = with_power("easy", Predictive(1000.0), "planned")
    simulation = simulate(nodes_of(1, BOOTS), jobs_of(*steady(60)), policy)
    late = [start for job, start in starts(simulation).items() if start > 60.0 * (job - 1)]
    assert not late
    assert not switched_off(simulation)


def test_nodes_are_switched_off_once_nothing_comes() -> None:
    """The last job is far away: what went on has ended."""
    jobs = jobs_of(*steady(60), (100_000.0, 1.0, 1))
    policy = with_power("easy", Predictive(1000.0), "planned")
    simulation = simulate(nodes_of(1, BOOTS), jobs, policy)
    assert [node for at_s, node in switched_off(simulation) if at_s < 50_000.0][-1:] == [0]


def test_nodes_beyond_the_need_are_switched_off() -> None:
    """One job at a time needs one of four nodes."""
    policy = with_power("easy", Predictive(1000.0), "planned")
    simulation = simulate(nodes_of(4, BOOTS), jobs_of(*steady(60)), policy)
    assert {node for _, node in switched_off(simulation)} >= {1, 2, 3}


def test_all_nodes_stay_on_at_first() -> None:
    """Nothing is known of the demand when the first job comes."""
    policy = with_power("easy", Predictive(1000.0), "planned")
    jobs = jobs_of(*[(float(number), 300.0, 1) for number in range(20)])
    simulation = simulate(nodes_of(20, BOOTS), jobs, policy)
    assert list(starts(simulation).values()) == [float(at) for at in range(20)]


def test_a_low_price_lets_jobs_wait() -> None:
    """With rare jobs no idle node is worth its power."""
    jobs = jobs_of(*steady(30, 2000.0))
    cheap = simulate(nodes_of(1, BOOTS), jobs, with_power("easy", Predictive(1e-6), "planned"))
    dear = simulate(nodes_of(1, BOOTS), jobs, with_power("easy", Predictive(1e6), "planned"))
    waits = [
        sum(start - 2000.0 * (job - 1) for job, start in starts(run).items())
        for run in (cheap, dear)
    ]
    assert waits[0] > 2.0 * waits[1]


def test_the_same_seed_gives_the_same_switches() -> None:
    """All samples come from the generator of the policy."""
    jobs = jobs_of(*[(370.0 * number, 90.0, 1 + number % 3) for number in range(30)])
    first, second = (
        simulate(nodes_of(4, BOOTS), jobs, with_power("easy", Predictive(500.0), "planned"))
        for _ in range(2)
    )
    assert switched_off(first) == switched_off(second)
    assert switched_off(first)


def test_nodes_without_power_states_are_not_switched() -> None:
    """There is nothing to decide."""
    policy = with_power("easy", Predictive(500.0), "planned")
    simulation = simulate(nodes_of(2, None), jobs_of(*steady(5)), policy)
    assert not switched_off(simulation)


def test_nodes_that_switch_at_once_are_switched_off_when_idle() -> None:
    """Without time and energy for a switch, none is worth its idle power."""
    at_once = PowerStates(sleep_w=5, switch_on_s=0, switch_on_w=80, switch_off_s=0, switch_off_w=20)
    policy = with_power("easy", Predictive(500.0), "planned")
    simulation = simulate(nodes_of(1, at_once), jobs_of(*steady(20, 600.0)), policy)
    assert list(starts(simulation).values()) == [600.0 * at for at in range(20)]
    assert switched_off(simulation)
