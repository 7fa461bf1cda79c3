"""Preemption of the scheduler `slurm` that suspends jobs."""

from __future__ import annotations

from typing import Any

import pytest

from hpcosim_client import play
from hpcosim_protocol import JobRequest, NodeGroup, Partition, Platform, Processor
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.slurm.policy import slurm
from hpcosim_schedulers.slurm.settings import parse_site
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_workloads.table import JobSpec
from support.golden_slurm import job_table_of

SUSPEND = {"preemption": {"type": "partition_prio", "mode": "suspend"}}


def site(nodes: int = 1, **group: Any) -> Platform:
    """Return nodes of 16 cores with the partitions lo, mid and hi."""
    everywhere = ((0, nodes - 1),)
    tiers = {"lo": 1, "mid": 3, "hi": 5}
    return Platform(
        (NodeGroup(nodes, (Processor(16),), **group),),
        partitions=tuple(
            Partition(name=name, nodes=everywhere, default=name == "lo", priority_tier=tier)
            for name, tier in tiers.items()
        ),
        consumable=("cores", "memory") if "memory_mb" in group else ("cores",),
    )


def job(
    number: int, submit_s: float, run_s: float, partition: str, cores: int = 16, **request: Any
) -> JobSpec:
    """Return a job of a partition."""
    stated = JobRequest(**request) if request else None
    return JobSpec(
        number, submit_s, run_s, run_s, cores, "cores", partition=partition, request=stated
    )


def run(platform: Platform, *jobs: JobSpec, **scheduler: Any) -> dict[int, tuple[float, float]]:
    """Return start and end of each job."""
    simulation = Simulation(platform, job_table_of(list(jobs)))
    play(
        slurm(parse_site({**SUSPEND, "scheduler": scheduler})),
        platform,
        lambda decisions, wake_on, elapsed_s: simulation.advance(
            decisions, wake_on=wake_on, elapsed_s=elapsed_s
        ),
    )
    recording = simulation.recording
    pairs = zip(recording.start_s, recording.end_s, strict=True)
    return dict(zip(recording.job_id, pairs, strict=True))


def test_suspended_job_goes_on_when_its_preemptor_ends() -> None:
    """The victim loses exactly the time of the other job, which starts in the next pass."""
    found = run(site(), job(1, 0, 600, "lo"), job(2, 60, 100, "hi"))
    start_s, end_s = found[2]
    assert start_s - 60 < 5
    assert end_s - start_s == pytest.approx(100)
    assert found[1][1] - found[1][0] == pytest.approx(700)


@pytest.mark.parametrize("backfill", [True, False])
def test_each_of_two_jobs_of_a_tier_preempts(backfill: bool) -> None:
    """Two urgent jobs suspend a job each, without waiting for one another."""
    jobs = [job(n, 0, 600, "lo") for n in (1, 2)] + [job(n, 60, 100, "hi") for n in (3, 4)]
    found = run(site(2), *jobs, backfill=backfill)
    assert max(found[3][0], found[4][0]) < 60 + 35
    assert max(found[1][1], found[2][1]) == pytest.approx(704, abs=5)


def test_suspended_job_is_preempted_again() -> None:
    """A job goes on between two others and after them; a suspended job suspends others, too."""
    found = run(
        site(),
        job(1, 0, 600, "lo"),
        job(2, 60, 200, "mid"),
        job(3, 100, 50, "hi"),
        job(4, 400, 100, "hi"),
    )
    assert found[2][1] - found[2][0] == pytest.approx(250)
    assert found[1][1] - found[1][0] == pytest.approx(950)


def test_suspended_job_times_out_after_its_limit_without_suspension() -> None:
    """The time of suspension does not count, and the limit still holds."""
    late = JobSpec(1, 0.0, 900.0, 300.0, 16, "cores", partition="lo")
    found = run(site(), late, job(2, 60, 500, "hi"))
    assert 800 <= found[1][1] - found[1][0] < 835


def test_cores_of_a_suspended_job_are_not_for_jobs_like_it() -> None:
    """Small jobs of its tier do not start in its place beside a preemptor that needs few cores."""
    small = [job(n, 70 + 40 * n, 100, "lo", 4) for n in range(3, 9)]
    found = run(site(), job(1, 0, 300, "lo"), job(2, 60, 100, "hi", 4), *small)
    assert found[1][1] - found[1][0] == pytest.approx(400)
    assert min(found[each.job_id][0] for each in small) >= found[1][1]


def test_job_that_needs_the_memory_of_a_suspended_one_waits_for_its_end() -> None:
    """Suspension frees cores only, so a job is not suspended for one that needs its memory."""
    found = run(
        site(memory_mb=1000.0),
        job(1, 0, 300, "lo", memory_per_node_mb=800.0),
        job(2, 60, 100, "hi", memory_per_node_mb=800.0),
    )
    assert found[1][1] - found[1][0] == pytest.approx(300)
    assert found[2][0] >= found[1][1]


@pytest.mark.parametrize("late", [0.1, 0.5, 0.9])
def test_job_that_ends_with_its_limit_completes(late: float) -> None:
    """A limit with a fraction of a second, and a start in a second, are not rounded down."""
    limits = [300 + n + late for n in range(31)]
    jobs = [
        JobSpec(n + 1, 0.0, limit + 60, limit, 1, "cores", partition="lo")
        for n, limit in enumerate(limits)
    ]
    for (start_s, end_s), limit in zip(run(site(2), *jobs).values(), limits, strict=True):
        assert start_s + limit - 1e-6 <= end_s <= start_s + limit + 31


@pytest.mark.parametrize("gpus", [{"gpu:a100": 6.0}, {"gpu": 8.0}])
def test_job_gets_as_many_nodes_as_its_gpus_need(gpus: dict[str, float]) -> None:
    """A job whose cores fit on a node runs on the nodes that have its GPUs together."""
    gpu_site = Platform(
        (
            NodeGroup(1, (Processor(16),)),
            NodeGroup(2, (Processor(16),), gres={"gpu:a100": 4}),
        )
    )
    jobs = [
        JobSpec(1, 0.0, 60.0, 60.0, 4, "cores", request=JobRequest(gres_per_job=gpus)),
        JobSpec(2, 0.0, 60.0, 60.0, 4, "one_node", request=JobRequest(gres_per_job={"gpu": 3.0})),
    ]
    simulation = Simulation(gpu_site, job_table_of(jobs))
    play(
        make_policy("slurm"),
        gpu_site,
        lambda decisions, wake_on, elapsed_s: simulation.advance(
            decisions, wake_on=wake_on, elapsed_s=elapsed_s
        ),
    )
    assert simulation.recording.start_s[0] < 35
    assert simulation.recording.start_s[1] < 125
