"""The heuristics JOB-NODE: the next job and its node."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import PolicyError
from hpcosim_client.view import View
from hpcosim_protocol import (
    JobSubmitted,
    NodeGroup,
    Platform,
    Processor,
    SimulationBegan,
    energy_estimate_j,
)
from hpcosim_schedulers import GROUPS, expand, make_policy
from hpcosim_schedulers.heuristics.job_node import (
    JOB_ORDERS,
    NODE_KEYS,
    energy_estimates_j,
    job_node_names,
    parse_job_node,
)
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_workloads.table import JobTable, job_table
from support.simulating import cluster_of, jobs_of, simulate, starts

UNLIKE = Platform(
    (
        NodeGroup(2, (Processor(4, 2.0, 30.0, 5.0),), memory_mb=100.0),  # 50 W at most
        NodeGroup(1, (Processor(8, 1.0, 10.0, 2.0),), memory_mb=900.0),  # 26 W
        NodeGroup(1, (Processor(2, 1.0, 5.0, 20.0, flops_per_cycle=4.0),), memory_mb=500.0),  # 45 W
    )
)


def one_node_jobs(*jobs: tuple[float, int], **columns: Any) -> JobTable:
    """Return jobs of (run_s, cores), submitted at one instant, each for one node."""
    return job_table(
        job_id=range(1, len(jobs) + 1),
        run_s=[job[0] for job in jobs],
        requested_s=columns.pop("requested_s", [job[0] for job in jobs]),
        cores=[job[1] for job in jobs],
        placement=1,
        **columns,
    )


def nodes_of(simulation: Simulation) -> list[list[int]]:
    """Return the nodes each job was given."""
    return [simulation.recording.nodes_of(row) for row in range(len(simulation.recording))]


@pytest.mark.parametrize(
    ("order", "node"),
    [
        ("high-gflops", 3),  # 1 GHz, but four operations a cycle
        ("high-cores", 2),
        ("high-mem", 2),
        ("high-mem-used", 0),  # no node has used memory
        ("high-mem-bw", 0),  # no node has used bandwidth
        ("low-power", 2),  # 10 + 8 * 2 W
        ("none", 0),
    ],
)
def test_node_order_on_idle_nodes(order: str, node: int) -> None:
    """On an idle cluster a job starts on the first node of the order."""
    simulation = simulate(UNLIKE, one_node_jobs((10.0, 2)), f"first-{order}")
    assert nodes_of(simulation) == [[node]]


@pytest.mark.parametrize(
    ("order", "nodes"),
    [
        ("high-cores", [[2], [0], [1]]),  # 8 free, then 4 on each of three: the lower number
        ("high-mem", [[2], [2], [0]]),  # 900 MB, then 860 MB; then node 2 is full
        ("high-mem-used", [[0], [1], [2]]),  # what is in use is on full nodes
        ("high-mem-bw", [[0], [1], [2]]),  # always one of which nothing is asked yet
        ("high-gflops", [[0], [1], [2]]),  # node 3 is too small
    ],
)
def test_node_order_beside_others(order: str, nodes: list[list[int]]) -> None:
    """Jobs placed at the same instant count."""
    jobs = one_node_jobs((10.0, 4), (10.0, 4), (10.0, 4), memory_mb=10.0, memory_volume_mb=100.0)
    assert nodes_of(simulate(UNLIKE, jobs, f"first-{order}")) == nodes


def test_most_memory_in_use_goes_first_under_its_own_name() -> None:
    """`high-mem-used` fills up the node in use, where `high-mem` takes the freest."""
    jobs = one_node_jobs((10.0, 4), (10.0, 2), (10.0, 2), memory_mb=[1.0, 10.0, 10.0])
    used = Platform((NodeGroup(3, (Processor(6),), memory_mb=100.0),))
    assert nodes_of(simulate(used, jobs, "first-high-mem-used")) == [[0], [0], [1]]
    assert nodes_of(simulate(used, jobs, "first-high-mem")) == [[0], [1], [2]]


def test_bandwidth_grows_with_the_speed_of_the_node() -> None:
    """The same job asks for twice the bandwidth on cores twice as fast."""
    fast_and_slow = Platform(
        (NodeGroup(1, (Processor(4, 2.0),)), NodeGroup(1, (Processor(4, 1.0),)))
    )
    jobs = one_node_jobs((10.0, 1), (10.0, 1), (10.0, 1), memory_volume_mb=100.0)
    # Node 0 has 20 MB/s after the first, node 1 10 MB/s after the second: so the third joins it.
    assert nodes_of(simulate(fast_and_slow, jobs, "first-high-mem-bw")) == [[0], [1], [1]]


@pytest.mark.parametrize(
    ("order", "sequence"),
    [
        ("first", [1, 2, 3]),
        ("none", [1, 2, 3]),
        ("shortest", [2, 3, 1]),
        ("smallest", [3, 1, 2]),
        ("low-mem", [2, 1, 3]),
        ("low-mem-ops", [3, 2, 1]),
    ],
)
def test_job_order(order: str, sequence: list[int]) -> None:
    """One at a time, jobs start in the order of the job key."""
    jobs = one_node_jobs(
        (30.0, 3), (10.0, 4), (20.0, 2), memory_mb=[2, 1, 3], memory_volume_mb=[9, 5, 1]
    )
    began_s = starts(simulate(cluster_of(1, 4), jobs, f"{order}-none"))
    assert sorted(began_s, key=lambda job: began_s[job]) == sequence


def test_head_that_fits_nowhere_blocks_the_rest() -> None:
    """A later job that would fit does not pass the head: there is no backfilling."""
    jobs = one_node_jobs((10.0, 3), (10.0, 2), (1.0, 1))
    assert starts(simulate(cluster_of(1, 4), jobs, "first-high-cores")) == {
        1: 0.0,
        2: 10.0,
        3: 10.0,
    }


def test_job_wider_than_a_node_takes_several_in_the_node_order() -> None:
    """A job over any cores, too wide for one node, takes the first nodes by the order together."""
    jobs = jobs_of((0.0, 10.0, 11))
    assert nodes_of(simulate(UNLIKE, jobs, "first-low-power")) == [[2, 3, 0]]


def test_random_follows_the_seed() -> None:
    """Random choices differ with the seed and are the same for the same one."""
    jobs = one_node_jobs(*[(10.0, 1)] * 40)
    runs = []
    for seed in (1, 1, 2):
        simulation = Simulation(UNLIKE, jobs)
        view, decide = View(UNLIKE, seed), make_policy("random-random")
        batch = simulation.advance()
        while not batch.ended:
            view.apply(batch.now_s, batch.events)
            decide(view)
            batch = simulation.advance(view.decisions, wake_on=view.wake_on)
        runs.append((nodes_of(simulation), starts(simulation)))
    assert runs[0] == runs[1] != runs[2]


def test_random_chooses_every_node_and_every_job_first() -> None:
    """No node and no job is left out by chance alone."""
    first_jobs, first_nodes = set(), set()
    for seed in range(60):
        view = View(UNLIKE, seed)
        jobs = [JobSubmitted(0.0, n, 1, 10.0, "one_node") for n in range(3)]
        view.apply(0.0, [SimulationBegan(0.0), *jobs])
        make_policy("random-random")(view)
        first_jobs.add(view.decisions[0].job_id)  # type: ignore[union-attr]
        first_nodes.add(view.decisions[0].nodes[0])  # type: ignore[union-attr]
    assert first_jobs == {0, 1, 2}
    assert first_nodes == {0, 1, 2, 3}


def test_job_is_not_put_where_it_costs_too_much() -> None:
    """A node on which the estimate is above `max_energy_j` is passed over."""
    # Requested 10 s at 1 GHz: on node 0 5 s * (30 + 5) W = 175 J, on node 2 10 * (10 + 2) = 120 J.
    jobs = one_node_jobs((10.0, 1), max_energy_j=130.0)
    assert nodes_of(simulate(UNLIKE, jobs, "first-none")) == [[2]]


def test_job_that_is_cheaper_beside_others_joins_them() -> None:
    """Where static power is shared the estimate is less: equation 1 with j = 1."""
    jobs = one_node_jobs((10.0, 1), (10.0, 1), max_energy_j=[math.inf, 110.0])
    # Alone on node 0 it is 175 J; beside job 1 there, 5 s * (30 / 2 + 5) W = 100 J.
    assert nodes_of(simulate(UNLIKE, jobs, "first-none")) == [[0], [0]]


@pytest.mark.parametrize("policy", ["first-none", "first-high-gflops", "minmin"])
def test_max_energy_never_starves_a_job(policy: str) -> None:
    """A job that is affordable alone on a node is waited for until it can be."""
    jobs = one_node_jobs((10.0, 6), (10.0, 2), (5.0, 2), max_energy_j=[math.inf, 140.0, math.inf])
    simulation = simulate(UNLIKE, jobs, policy)
    assert all(end_s > 0 for end_s in simulation.recording.end_s)


HEURISTICS = ("all-heuristics", "reference-heuristics")
ONE_PER_EVENT = ("one-per-event", "reference-one-per-event")


@given(st.integers(0, 2**32), st.sampled_from(expand([*HEURISTICS, *ONE_PER_EVENT])))
def test_every_heuristic_ends_every_job(seed: int, name: str) -> None:
    """Every job completes under every pair of orders."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 30))
    jobs = job_table(
        job_id=range(count),
        submit_s=np.sort(rng.integers(0, 50, count)),
        run_s=rng.integers(1, 40, count),
        requested_s=rng.integers(1, 40, count),
        cores=rng.integers(1, 9, count),
        placement=rng.integers(0, 2, count),
        memory_mb=rng.integers(0, 50, count),
        memory_volume_mb=rng.integers(0, 50, count),
    )
    simulation = simulate(UNLIKE, jobs, name)
    assert simulation.recording.over == count


def test_one_job_starts_at_each_event() -> None:
    """A submission or a completion starts one job, though more would fit and some wait."""
    jobs = jobs_of((0.0, 10.0, 1), (0.0, 10.0, 1), (0.0, 10.0, 1), (3.0, 10.0, 1), (4.0, 1.0, 1))
    assert starts(simulate(cluster_of(1, 4), jobs, "first-none-one")) == {
        1: 0.0,  # the three submitted now are one event
        2: 3.0,  # job 4 came
        3: 4.0,  # job 5 came
        4: 10.0,  # job 1 ended, and two cores are free
        5: 13.0,  # job 2 ended
    }
    assert starts(simulate(cluster_of(1, 4), jobs, "first-none")) == {
        1: 0.0,
        2: 0.0,
        3: 0.0,
        4: 3.0,
        5: 10.0,
    }


def test_completions_of_one_instant_are_one_event() -> None:
    """Two jobs that end together make room for two, and one starts."""
    jobs = jobs_of((0.0, 10.0, 1), (2.0, 8.0, 1), (3.0, 1.0, 1), (3.0, 1.0, 1))
    assert starts(simulate(cluster_of(1, 2), jobs, "first-none-one")) == {
        1: 0.0,
        2: 2.0,
        3: 10.0,
        4: 11.0,
    }


def test_submission_and_completion_of_one_instant_are_one_event() -> None:
    """A submission at the instant of a completion starts alone."""
    jobs = jobs_of((0.0, 10.0, 1), (0.0, 5.0, 1), (10.0, 5.0, 1))
    assert starts(simulate(cluster_of(1, 3), jobs, "first-none-one")) == {
        1: 0.0,
        2: 10.0,
        3: 15.0,
    }


def test_jobs_of_one_submission_run_one_after_the_other() -> None:
    """Where only completions come there is never more than one job running, and none is lost."""
    jobs = one_node_jobs((30.0, 1), (10.0, 1), (20.0, 1))
    began_s = {1: 30.0, 2: 0.0, 3: 10.0}
    assert starts(simulate(cluster_of(2, 4), jobs, "shortest-high-cores-one")) == began_s


def test_one_per_event_keeps_both_orders() -> None:
    """The first job by the job key starts on the first node by the node key."""
    jobs = one_node_jobs((10.0, 4), (10.0, 2), submit_s=[0.0, 1.0], memory_mb=10.0)
    assert nodes_of(simulate(UNLIKE, jobs, "smallest-high-cores-one")) == [[2], [0]]
    assert nodes_of(simulate(UNLIKE, jobs, "smallest-high-mem-used-one")) == [[0], [1]]


def test_head_that_fits_nowhere_blocks_the_one() -> None:
    """An event at which the head finds no room starts nothing, though another job would fit."""
    jobs = jobs_of((0.0, 10.0, 3), (1.0, 10.0, 2), (2.0, 1.0, 1))
    assert starts(simulate(cluster_of(1, 4), jobs, "first-none-one")) == {1: 0.0, 2: 10.0, 3: 20.0}


def test_a_random_job_goes_alone() -> None:
    """The job is random; the number of starts is not."""
    jobs = one_node_jobs(*[(10.0, 1)] * 5)
    began_s = starts(simulate(cluster_of(2, 4), jobs, "random-random-one"))
    assert sorted(began_s.values()) == [0.0, 10.0, 20.0, 30.0, 40.0]


def test_energy_estimates_are_equation_1() -> None:
    """The estimates of all nodes equal those of the protocol for each node."""
    view = View(UNLIKE)
    view.apply(0.0, [JobSubmitted(0.0, 1, 1, 10.0, "one_node"), JobSubmitted(0.0, 2, 2, 8.0)])
    view.start(view.queue[1], [0])
    job = view.queue[2]
    expected = [
        energy_estimate_j(UNLIKE, group, 2, 8.0, running)
        for group, running in ((0, 1), (0, 0), (1, 0), (2, 0))
    ]
    estimates_j = energy_estimates_j(view, job.requested_s, job.cores, view.nodes.jobs)
    assert estimates_j.tolist() == expected
    assert expected[0] == 8.0 * 0.5 * (30.0 / 2 + 2 * 5.0)


def test_groups_are_the_36_heuristics() -> None:
    """Six orders of jobs by six of nodes, under the papers' names and as their program runs."""
    assert len(set(GROUPS["all-heuristics"])) == len(set(GROUPS["reference-heuristics"])) == 36
    assert "random-high-mem" in GROUPS["all-heuristics"]
    assert "none-high-mem-used" in GROUPS["reference-heuristics"]
    assert not any("random" in name for name in GROUPS["reference-heuristics"])


def test_groups_of_one_per_event_are_the_same_heuristics() -> None:
    """Each of the 36 has its like that places one job at each event, in the same order."""
    for group, one in zip(HEURISTICS, ONE_PER_EVENT, strict=True):
        assert GROUPS[one] == [f"{name}-one" for name in GROUPS[group]]


def test_expand_names_each_once() -> None:
    """A group is replaced by its members; a repeated name is run once."""
    names = expand(["easy", "all-heuristics", "first-high-cores", "easy"])
    assert len(names) == 37
    assert names[0] == "easy"


def test_names_of_all_pairs_of_orders_are_read() -> None:
    """Every pair of orders has two names, which are parsed to the pair."""
    parts = [parse_job_node(name) for name in job_node_names()]
    pairs = set(product(JOB_ORDERS, NODE_KEYS, (False, True)))
    assert len(parts) == len(pairs) == 112
    assert set(parts) == pairs


@pytest.mark.parametrize(
    "name", ["first", "first-", "-none", "first-none-two", "easy", "first-one"]
)
def test_other_names_are_not_read(name: str) -> None:
    """A name that is only similar is no pair of orders."""
    assert parse_job_node(name) is None


def test_unknown_heuristic_names_the_nearest() -> None:
    """A slip in one half of the name is met with the right name."""
    with pytest.raises(PolicyError, match="did you mean smallest-high-cores"):
        make_policy("smalest-high-cores")
