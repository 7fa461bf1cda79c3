"""Planned lanes of a node, beside the simulator."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import Policy, View
from hpcosim_papers.ineps.agent.site import Lanes, Load, NodeType, Work, run_lanes
from hpcosim_protocol import Contention, NodeGroup, Platform, Processor, bandwidth_mbps
from hpcosim_workloads.table import JobTable, job_table
from support.examples import examples
from support.simulating import simulate, starts

CONTENTION = Contention(21_000, -1.85e-5, 1.0, 169, 25_000, 100)


def some_jobs(random: Random, cores: int) -> JobTable:
    """Return up to seven jobs that compete for bandwidth; times are multiples of 2^-10 s."""
    rows = range(random.randint(1, 7))
    return job_table(
        job_id=rows,
        submit_s=sorted(random.choice([0.0, random.randint(1, 8192) / 1024]) for _ in rows),
        run_s=(run_s := [random.randint(512, 8192) / 1024 for _ in rows]),
        requested_s=run_s,
        ops=[each * 1e9 for each in run_s],
        cores=[random.randint(1, cores) for _ in rows],
        memory_volume_mb=[random.choice([0.0, random.uniform(0, 2e5)]) for _ in rows],
        placement=1,
    )


def some_lanes(random: Random, jobs: int) -> Lanes:
    """Return a random plan of jobs."""
    order = random.sample(range(jobs), jobs)
    lanes: list[list[int]] = [[] for _ in range(random.randint(1, jobs))]
    for job in order:
        random.choice(lanes).append(job)
    return tuple(tuple(lane) for lane in lanes if lane)


def in_lanes(lanes: Lanes) -> Policy:
    """Return a policy that runs jobs on the first node as planned."""
    done = [0] * len(lanes)

    def decide(view: View) -> None:
        for number, lane in enumerate(lanes):
            at = done[number]
            before_ended = not at or lane[at - 1] not in view.running
            if at < len(lane) and before_ended and lane[at] in view.queue:
                done[number] += view.start(view.queue[lane[at]], [0])

    return decide


@given(st.randoms(use_true_random=False))
@examples(60)
def test_lanes_run_as_in_the_simulator(random: Random) -> None:
    """Starts, the last end and the energy of a plan are those of the simulator."""
    cores = random.choice([1, 2, 4, 8])
    processor = Processor(cores, 1.0, 50.0, 7.0, 0.4, contention=CONTENTION)
    jobs = some_jobs(random, cores)
    lanes = some_lanes(random, len(jobs))
    simulation = simulate(Platform((NodeGroup(1, (processor,)),)), jobs, in_lanes(lanes))
    node = NodeType(cores, CONTENTION, 50.0 * 0.6, 7.0)
    works = [
        Work(Load(job.cores, bandwidth_mbps(job.memory_volume_mb, job.run_s)), job.run_s)
        for job in jobs.rows()
    ]
    first_s = float(jobs.submit_s[0])
    starts_s: dict[int, float] = {}
    run = run_lanes(node, first_s, (), lanes, works, jobs.submit_s.tolist(), starts_s)
    assert run.end_s == pytest.approx(simulation.now_s, rel=1e-9)
    assert starts_s == pytest.approx(starts(simulation), rel=1e-9)
    (meter,) = simulation.cluster.meters
    idle_j = 50.0 * 0.4 * (simulation.now_s - first_s)
    assert run.extra_j == pytest.approx(meter.energy_j - idle_j, rel=1e-9)


def test_a_job_larger_than_its_node_is_an_error() -> None:
    """Not a loop without end."""
    with pytest.raises(ValueError, match="more cores than its node"):
        run_lanes(
            NodeType(1, None, 1.0, 1.0), 0.0, (), ((0,),), [Work(Load(2, 0.0), 1.0)], [-math.inf]
        )
