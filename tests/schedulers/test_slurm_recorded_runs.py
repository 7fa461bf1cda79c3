"""The scheduler `slurm` does what a real Slurm did with the same jobs."""

from __future__ import annotations

import statistics

import pytest

from support.golden_scenes import read_scene
from support.golden_slurm import GOLDEN_SLURM, run_of_events, simulated
from support.scene_runs import differences, play_scene

pytestmark = pytest.mark.skipif(
    not GOLDEN_SLURM.is_dir(), reason="the recorded runs of Slurm are not on this machine"
)

DIFFERENT = {
    # chain2 lasted 0.09 s longer than the median, so that a pass came before its node was free.
    "deps": {"notok_b", "any_b", "chain3", "any_cancel", "any_pendcancel"},
    "arrays": set(),
    "begin_hold": set(),
    "limits": set(),
    "resv": set(),
    # Daemons killed by hand (k_next, k_any) are no event here. Of two jobs requeued 0.03 s apart,
    # the node of the second was free first.
    "node_fail": {"wait_n", "k_next", "k_any"},
    "preempt_qos": set(),
    # Jobs that started in the second in which all jobs were cancelled.
    "shapes": {"g1c", "ncpu2", "mem0"},
}
"""Jobs of the scenes that differ, by name."""


@pytest.mark.parametrize("dtstart", [58, 59, 68, 79])
def test_small_workload_repeats_job_by_job(dtstart: int) -> None:
    """The 20 jobs start within 5 s of the real ones on the same nodes at each phase."""
    run, jobs = run_of_events(f"small/dtstart{dtstart}", "small")
    found, _ = simulated(run, jobs)
    late = {n: found[n].start_s for n in found if abs(found[n].start_s - run.jobs[n].start_s) > 5}
    assert late == {}
    assert {n: job.nodes for n, job in found.items()} == {
        n: tuple(sorted(job.nodes)) for n, job in run.jobs.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run1", "run2"])
def test_mean_wait_and_makespan_of_500_jobs(name: str) -> None:
    """Mean wait, makespan and timeouts of 500 jobs are within 3 % of the real ones."""
    run, jobs = run_of_events(name, "jobs500_shrinked")
    found, _ = simulated(run, jobs)
    waits = [
        statistics.fmean(job.start_s - job.submit_s for job in each.values())
        for each in (found, run.jobs)
    ]
    assert waits[0] == pytest.approx(waits[1], rel=0.03)
    ends = [max(job.end_s for job in each.values()) for each in (found, run.jobs)]
    assert ends[0] == pytest.approx(ends[1], rel=0.03)
    assert sum(job.end_by == "timelimit" for job in found.values()) == 63


@pytest.mark.parametrize("name", DIFFERENT)
def test_scene_repeats_job_by_job(name: str) -> None:
    """The jobs of a scene start within 5 s of the real ones, on the same nodes and end alike."""
    scene = read_scene(name)
    found, _ = play_scene(scene)
    wrong = differences(name, scene, found)
    assert {line.split(":")[0].split()[-1] for line in wrong} == DIFFERENT[name]
