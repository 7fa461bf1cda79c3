"""The planner IPM: choice of nodes, plan, wake-ups and timeouts, under SNF and under EASY."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import PolicyError, View
from hpcosim_protocol import NodeDrained, NodeFailed, NodePowerChanged, Platform
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.catalogue.power import with_power
from hpcosim_schedulers.ipm.plan import Gaps, NodeReleases, Planner
from hpcosim_schedulers.power.settings import AlwaysOn, Icon, Timeout
from support import ipm_oracle
from support.examples import examples
from support.ipm_oracle import SlowNode
from support.ipm_views import NOW_S, STATES, slow_nodes, view_of
from support.power_manager_runs import nodes_of, switched
from support.simulating import cluster_of, jobs_of, simulate, starts


def releases_of(nodes: list[SlowNode]) -> NodeReleases:
    """Return the expected releases of the fast implementation."""
    view, planner = view_of(nodes), Planner()
    planner.transitions.update(view)
    return planner.releases(view)


@given(slow_nodes(), st.lists(st.tuples(st.integers(1, 7), st.integers(1, 40)), max_size=4))
@examples(100)
def test_nodes_are_those_of_the_reference(
    nodes: list[SlowNode], jobs: list[tuple[int, int]]
) -> None:
    """Job by job: the earliest start, then the nodes that waste the least, ties as documented."""
    releases, after_s = releases_of(nodes), NOW_S
    for count, lasts_s in jobs:
        expected = ipm_oracle.choose(nodes, NOW_S, count, after_s)
        found = releases.choose(count, after_s)
        if expected is None:
            assert found is None
            return
        assert found is not None
        assert (found[0], found[1].tolist()) == expected
        after_s = found[0]
        releases.occupy(found[1], after_s + lasts_s)
        for number in expected[1]:
            nodes[number].planned_s = after_s + lasts_s


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 15), st.integers(0, 30)), max_size=6),
)
@examples(100)
def test_gaps_are_those_of_the_reference(
    release_s: list[int], jobs: list[tuple[int, int, int]]
) -> None:
    """The earliest start, and nodes that are free for the whole duration."""
    releases = releases_of([SlowNode(at, "on", 0.0) for at in range(len(release_s))])
    releases.release_s = np.array(release_s, dtype=np.float64)
    gaps = Gaps(releases, 0.0)
    busy = [[(0, at_s)] for at_s in release_s]
    for count, lasts_s, after_s in jobs:
        expected = ipm_oracle.earliest_gap(busy, count, lasts_s, after_s, 200)
        found = gaps.choose(count, float(lasts_s), float(after_s), 200.0)
        if expected is None or found is None:
            assert expected is None
            assert found is None
            continue
        start_s, nodes = found
        assert start_s == expected[0]
        assert len(nodes) == count
        assert set(nodes.tolist()) <= expected[1]
        assert gaps.fits(nodes, start_s, lasts_s)
        gaps.occupy(nodes, start_s, start_s + lasts_s)
        for node in nodes.tolist():
            busy[node].append((expected[0], expected[0] + lasts_s))
            assert not gaps.fits(nodes, start_s, lasts_s)


def test_a_node_of_a_gap_counts_as_idle_from_its_last_job_on() -> None:
    """Of two free nodes the one that became free later wastes less."""
    releases = releases_of([SlowNode(at, "on", 0.0) for at in range(2)])
    gaps = Gaps(releases, NOW_S)
    gaps.occupy(np.array([1]), NOW_S, NOW_S + 20.0)
    found = gaps.choose(1, 5.0, NOW_S + 20.0)
    assert found is not None
    assert found[1].tolist() == [1]


def test_a_late_transition_is_expected_to_take_its_mean_time_again() -> None:
    """From the first call at which it is late."""
    planner, view = Planner(), View(nodes_of(1, STATES))
    for state in ("switching_off", "sleeping", "switching_on"):
        view.apply(0.0, [NodePowerChanged(0.0, 0, state)])
    for now_s, left_s in ((4.0, 6.0), (12.0, 10.0), (15.0, 7.0), (22.0, 10.0)):
        view.apply(now_s, [])
        planner.transitions.update(view)
        assert planner.transitions.left_s.tolist() == [left_s]


# Runs. Nodes boot in 10 s and switch off in 4 s.


def ipm(*jobs: Any, nodes: int = 2, scheduler: str = "snf", timeout_s: float = 15.0) -> Any:
    """Return the simulation of (submit_s, run_s, nodes[, requested_s]) with a timeout."""
    policy = with_power(scheduler, Timeout(timeout_s), "ipm")
    return simulate(nodes_of(nodes), jobs_of(*jobs), policy)


@pytest.mark.parametrize("scheduler", ["snf", "easy"])
def test_a_node_is_on_when_the_plan_needs_it(scheduler: str) -> None:
    """Node 1 sleeps until one boot time before the requested end of job 1."""
    simulation = ipm((0.0, 100.0, 1), (50.0, 5.0, 2), scheduler=scheduler)
    assert switched(simulation)[2:4] == [(90.0, 1, "switching_on"), (100.0, 1, "on")]
    assert starts(simulation) == {1: 0.0, 2: 100.0}


def test_a_node_of_the_plan_is_not_switched_off_in_vain() -> None:
    """Node 1 is idle for 15 s at 15, but job 2 is planned at 20."""
    simulation = ipm((0.0, 20.0, 1), (1.0, 5.0, 2))
    assert starts(simulation) == {1: 0.0, 2: 20.0}
    assert not switched(simulation)


def test_a_job_that_overruns_leaves_the_plan() -> None:
    """Job 2 was planned on the node of job 1; when job 1 overruns, the sleeping one is woken."""
    simulation = ipm((0.0, 100.0, 1, 40.0), (32.0, 5.0, 1, 5.0), (45.0, 5.0, 1, 9.0))
    assert (45.0, 1, "switching_on") in switched(simulation)
    assert starts(simulation) == {1: 0.0, 2: 55.0, 3: 60.0}


def test_smallest_need_first() -> None:
    """Fewest nodes, then the shortest request; no job overtakes."""
    jobs = jobs_of((0.0, 10.0, 2), (1.0, 5.0, 2), (2.0, 9.0, 1), (3.0, 8.0, 1), (4.0, 3.0, 2))
    assert starts(simulate(cluster_of(2), jobs, "snf")) == {1: 0, 4: 10, 3: 10, 5: 19, 2: 22}


def test_a_job_is_backfilled_if_it_does_not_delay_the_head() -> None:
    """Job 3 ends by the head's start, job 4 does not and the idle node is the head's."""
    simulation = ipm(
        (0.0, 50.0, 1),
        (1.0, 5.0, 2),
        (2.0, 20.0, 1),
        (3.0, 45.0, 1),
        scheduler="easy",
        timeout_s=1e3,
    )
    assert starts(simulation) == {1: 0.0, 2: 50.0, 3: 2.0, 4: 55.0}


def test_a_planned_job_moves_into_a_gap() -> None:
    """Job 3 is planned behind the head, and moved before it: a sleeping node is woken for it."""
    simulation = ipm(
        (0.0, 200.0, 2), (50.0, 5.0, 4), (60.0, 30.0, 2), nodes=4, scheduler="easy", timeout_s=5.0
    )
    assert starts(simulation) == {1: 0.0, 2: 200.0, 3: 70.0}


def test_whole_nodes_of_several_cores() -> None:
    """A job of 6 cores on nodes of 4 needs two of them."""
    jobs = jobs_of((0.0, 10.0, 6), (0.0, 5.0, 2), placement="whole_nodes")
    simulation = simulate(cluster_of(2, 4), jobs, make_policy("snf", "ipm"))
    assert starts(simulation) == {2: 0.0, 1: 5.0}


@pytest.mark.parametrize(
    ("platform", "error"),
    [
        (cluster_of(2, 4), "job 1 must hold whole nodes"),
        (
            Platform((*cluster_of(1, 2).nodes, *cluster_of(1).nodes)),
            "needs nodes with equal numbers of cores",
        ),
    ],
)
def test_jobs_and_nodes_that_cannot_be_planned(platform: Platform, error: str) -> None:
    """They are named."""
    with pytest.raises(PolicyError, match=error):
        simulate(platform, jobs_of((0.0, 1.0, 1)), make_policy("snf", "ipm"))


def test_combinations() -> None:
    """Only snf and easy plan so; icon is for snf; a price of waiting has no effect."""
    with pytest.raises(PolicyError, match="ipm is supported by easy and snf, not by fcfs"):
        make_policy("fcfs", "ipm")
    with pytest.raises(PolicyError, match=r"icon contains the scheduler snf .* got easy with ipm"):
        with_power("easy", Icon(), "ipm")
    with pytest.raises(PolicyError, match="no effect with power_awareness: ipm"):
        with_power("snf", Timeout(1.0, wait_price_w=5.0), "ipm")
    with_power("snf", AlwaysOn(), "ipm")


def test_failed_and_drained_nodes_are_not_planned() -> None:
    """They are never released, whatever runs on them."""
    view = view_of([SlowNode(at, "on", 0.0) for at in range(3)])
    view.apply(NOW_S, [NodeFailed(NOW_S, 0), NodeDrained(NOW_S, 2)])
    planner = Planner()
    planner.transitions.update(view)
    found = planner.releases(view).choose(1, NOW_S)
    assert found is not None
    assert found[1].tolist() == [1]
    assert planner.releases(view).choose(2, NOW_S) is None
