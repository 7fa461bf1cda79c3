"""The controller SNF-ICON: screen, predictions, spare nodes, gate and fallback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client.job import Job
from hpcosim_schedulers.catalogue.power import with_power
from hpcosim_schedulers.ipm.icon import (
    ArrivalAverages,
    RecentSamples,
    RunTimeRatios,
    expected_waits_s,
    expected_wastes_j,
    looks_exponential,
    mean_excess,
    number_to_wake,
    outlook,
    spare_nodes,
)
from hpcosim_schedulers.ipm.plan import Planner
from hpcosim_schedulers.power.settings import Icon
from papers.power.snf_icon.comparison import AOBA, AUTHORS, POLICIES, log, run
from support import ipm_oracle
from support.examples import examples
from support.ipm_oracle import SlowNode
from support.ipm_views import NOW_S, slow_nodes, view_of
from support.paths import SHARED
from support.power_manager_runs import nodes_of, switched
from support.simulating import jobs_of, simulate, starts

SIZES = st.dictionaries(st.integers(1, 9), st.floats(0.1, 1.0), min_size=1, max_size=3)


@given(slow_nodes(), SIZES, st.floats(0.01, 1.0), st.floats(1.0, 30.0))
@examples(60)
def test_expected_costs_are_those_of_the_reference(
    nodes: list[SlowNode], weights: dict[int, float], hazard: float, most_s: float
) -> None:
    """For each number of woken nodes, integrated numerically."""
    view, planner = view_of(nodes), Planner()
    planner.transitions.update(view)
    watts, left_s = planner.watts(view), planner.transitions.left_s
    spares = spare_nodes(view.nodes, left_s, np.zeros(len(nodes), np.bool_), watts, 1.0)
    sizes = {size: weight / sum(weights.values()) for size, weight in weights.items()}
    ahead = outlook(2.0 / hazard, hazard / 2.0, most_s)
    assert ahead.hazard == pytest.approx(hazard)
    at = (np.array(list(sizes)), np.array(list(sizes.values())))
    waits_s = expected_waits_s(view.nodes, spares, at, ahead)
    wastes_j = expected_wastes_j(view.nodes, watts, spares, ahead.horizon_s)
    for woken in range(len(waits_s)):
        wait_s = 0.5 * ipm_oracle.expected_wait_s(nodes, NOW_S, woken, sizes, hazard)
        assert waits_s[woken] == pytest.approx(wait_s, rel=1e-6, abs=1e-6)
        wasted_j = ipm_oracle.wasted_j(nodes, NOW_S, woken, ahead.horizon_s)
        assert wastes_j[woken] == pytest.approx(wasted_j, rel=1e-3)


def test_the_horizon_is_the_mean_time_to_an_event_or_its_bound() -> None:
    """E[min(T, most)] for exponential T."""
    sampled_s = np.random.default_rng(1).exponential(20.0, 400_000).clip(max=15.0)
    assert outlook(40.0, 0.025, 15.0).horizon_s == pytest.approx(sampled_s.mean(), rel=5e-3)


def test_waking_costs_energy_and_saves_waits() -> None:
    """The price decides; one node is always warm if there is one."""
    nodes = [SlowNode(at, "sleeping", 0.0) for at in range(4)]
    view, planner = view_of(nodes), Planner()
    planner.transitions.update(view)
    watts, ahead = planner.watts(view), outlook(10.0, 0.0, 1e5)
    none = np.zeros(4, np.bool_)
    spares = spare_nodes(view.nodes, planner.transitions.left_s, none, watts, 1.0)
    waits_s = expected_waits_s(view.nodes, spares, (np.array([3]), np.array([1.0])), ahead)
    wastes_j = expected_wastes_j(view.nodes, watts, spares, ahead.horizon_s)
    numbers = [number_to_wake(spares, waits_s, wastes_j, price_w) for price_w in (1.0, 1e4)]
    assert numbers == [1, 3]


@pytest.mark.parametrize("threshold", [0.0, 1.0, 20.0, 200.0])
def test_the_mean_excess_is_that_of_the_reference(threshold: float) -> None:
    """Of a lognormal run time, also far behind its median."""
    expected = ipm_oracle.mean_excess(2.0, 0.5, threshold)
    assert mean_excess(2.0, 0.5, threshold) == pytest.approx(expected, rel=1e-3)


def test_the_mean_excess_far_in_the_tail_is_smooth() -> None:
    """Where the survival function changes its formula."""
    excess = [mean_excess(0.0, 0.25, float(np.exp(0.25 * z))) for z in (29.9, 29.99, 30.01, 30.1)]
    assert np.diff(excess) == pytest.approx(np.diff(excess).mean(), rel=2.0)
    assert (np.diff(excess) > 0.0).all()


def test_run_times_follow_the_ratio_to_the_request() -> None:
    """A job that uses half of its request: mu = ln 0.5, and the least spread."""
    run_times, job = RunTimeRatios(), Job(1, 0.0, 1, 100.0, start_s=0.0)
    assert run_times.of_waiting(job) == 100.0
    assert run_times.left_s(job, 30.0) == 70.0
    assert run_times.left_s(job, 130.0) == 100.0
    for _ in range(3):
        run_times.observe(50.0, 100.0)
    assert run_times.of_waiting(job) == pytest.approx(50.0)
    assert run_times.left_s(job, 0.0) == pytest.approx(50.0 * np.exp(0.25**2 / 2))


def test_sizes_and_gaps_are_moving_averages() -> None:
    """The first size has all of the weight."""
    arrivals = ArrivalAverages()
    assert [each.tolist() for each in arrivals.sizes()] == [[1], [1.0]]
    for gap_s, nodes in ((np.inf, 4), (600.0, 2)):
        arrivals.observe(gap_s, nodes)
    assert arrivals.gap_s == pytest.approx(0.2 * 600.0 + 0.8 * 3600.0)
    assert [each.tolist() for each in arrivals.sizes()] == [[4, 2], [0.9, 0.1]]


@pytest.mark.parametrize(
    ("values", "passes"),
    [
        ([1.0, 3.0], False),  # too few
        ([2.0, 2.0, 2.0, 2.0], False),  # no variation
        ([0.0, 0.0, 0.0], False),  # no mean
        (list(np.arange(1.0, 20.0) ** 2), False),  # successive samples are alike
        ([1.0] * 30 + [1000.0], False),  # too much variation
        (np.random.default_rng(1).exponential(5.0, 200).tolist(), True),
    ],
)
def test_the_screen_passes_what_looks_exponential(values: list[float], passes: bool) -> None:
    """Coefficient of variation, correlation of successive samples, and their number."""
    assert looks_exponential(np.array(values)) is passes


def test_the_screen_compares_distributions() -> None:
    """Two values with the right variation, and many samples, fail the Kolmogorov-Smirnov test."""
    rng = np.random.default_rng(1)
    values = np.where(rng.random(900) < 0.5, 0.01, 2.0)
    assert abs(values.std() / values.mean() - 1.0) < 0.1
    assert not looks_exponential(values)
    assert looks_exponential(values[:30])


def test_samples_leave_the_window() -> None:
    """Those older than it."""
    samples = RecentSamples(10.0)
    for at_s in (0.0, 5.0, 9.0):
        samples.add(at_s, at_s)
    assert samples.values(15.0).tolist() == [5.0, 9.0]


# Runs. Nodes boot in 10 s and switch off in 4 s.


def icon(*jobs: Any, nodes: int = 3, **settings: Any) -> Any:
    """Return the simulation of (submit_s, run_s, nodes[, requested_s])."""
    policy = with_power("snf", Icon(**settings), "ipm")
    return simulate(nodes_of(nodes), jobs_of(*jobs), policy)


def test_spare_nodes_are_woken_for_the_next_job() -> None:
    """At the end of job 2, as most jobs need 3 nodes, if waiting is dear; SNF + IPM wakes none."""
    jobs = ((0.0, 5.0, 3), (10.0, 50.0, 1), (70.0, 5.0, 3))
    dear = icon(*jobs, timeout_s=20.0, fallback=False, wait_price_w=1e9)
    woken = [row for row in switched(dear) if row[2] == "switching_on"]
    assert [at_s for at_s, _, _ in woken] == [60.0, 60.0]
    assert starts(dear)[3] == 70.0
    cheap = icon(*jobs, timeout_s=20.0, fallback=False, wait_price_w=1e-9)
    rejected = icon(*jobs, timeout_s=20.0, wait_price_w=1e9)
    assert starts(cheap)[3] == starts(rejected)[3] == 80.0


def test_nodes_are_switched_off_at_once_behind_the_gate() -> None:
    """A job that ends long after the last submission leaves its node off; without a gate not."""
    jobs = ((0.0, 100.0, 1), (1000.0, 5.0, 1))
    gated = icon(*jobs, timeout_s=500.0, gate_s=50.0, fallback=False)
    assert (100.0, 0, "switching_off") in switched(gated)
    open_gate = icon(*jobs, timeout_s=500.0, gate_s=None, fallback=False)
    assert (100.0, 0, "switching_off") not in switched(open_gate)


def test_no_node_is_switched_off_while_jobs_wait() -> None:
    """In an accepted call; SNF + IPM does it after the timeout."""
    jobs = ((0.0, 100.0, 3), (0.0, 50.0, 1), (1.0, 5.0, 4))
    for fallback, expected in ((False, False), (True, True)):
        simulation = icon(*jobs, nodes=5, timeout_s=20.0, fallback=fallback)
        switches = [row for row in switched(simulation) if row[0] < 50.0]
        assert bool(switches) is expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "policy"), [("Markovian", "SNF-ICON"), ("FS2", "EASY + IPM, 2 h")]
)
def test_the_authors_figures(workload: str, policy: str) -> None:
    """With the seed and the draws of their program, within 1 %."""
    folder: Path = SHARED / "golden" / "snf_icon"
    if not folder.is_dir():
        pytest.skip(f"the authors' workloads are not on this machine: no {folder}")
    outcome = run(POLICIES[policy], log(folder, workload), AOBA, 42)
    assert outcome[:4] == pytest.approx(AUTHORS[workload, policy], rel=0.01)
