"""Runs of a real cluster that the scheduler suspends, resumes, requeues and kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcosim_protocol import (
    AllocateJob,
    DecisionRejected,
    JobCompleted,
    JobRequeued,
    JobResumed,
    JobStarted,
    JobSubmitted,
    JobSuspended,
    KillJob,
    RequeueJob,
    ResumeJob,
    SuspendJob,
)
from support.live_bridges import PLACE, LiveBridge, TestScheduler
from support.processes import eventually
from support.slurm_cluster import SlurmCluster

pytestmark = pytest.mark.slow
CATCHES = "trap : TERM; while :; do sleep 0.1; done"


def test_runs_are_suspended_resumed_requeued_and_killed(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    """Each is an event when Slurm has done it, and a refusal has Slurm's words."""
    jobs = [
        cluster.submit("--time=1", "--requeue", sleep_s=60.0),
        cluster.submit("--time=1", "--no-requeue", sleep_s=60.0),
        cluster.submit("--time=1", command=CATCHES),
    ]
    first, second, third = jobs
    with LiveBridge(cluster, tmp_path, *PLACE) as bridge, TestScheduler(bridge) as told:
        told.until(JobSubmitted, job_id=third)
        told.until(
            JobStarted, *(AllocateJob(job, [at]) for at, job in enumerate(jobs)), job_id=third
        )
        told.until(JobSuspended, SuspendJob(first), job_id=first)
        assert cluster.state(first) == "SUSPENDED"
        told.until(JobResumed, ResumeJob(first), job_id=first)
        assert cluster.state(first) == "RUNNING"
        refused = told.until(DecisionRejected, RequeueJob(second))
        assert (refused.code, refused.job_id) == ("not_requeueable", second)
        assert "Slurm: Requested operation is presently disabled" in refused.reason
        assert told.until(JobRequeued, RequeueJob(first), job_id=first).cause == "decision"
        eventually(lambda: cluster.run("squeue", "-h", "-j", str(first), "-o", "%P") == "queue\n")
        for job, grace_s in ((second, 60.0), (third, 0.5)):  # SIGTERM ends the first of them
            ended = told.until(JobCompleted, KillJob(job, grace_s=grace_s))
            assert (ended.job_id, ended.state) == (job, "killed")
        assert not bridge.entries("fell_back_to_shadow")


def test_in_mode_hold_a_requeued_job_waits_for_its_next_release(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    """It is back in the waiting partition, where Slurm does not start it."""
    job = cluster.submit("--time=1", "--requeue", sleep_s=60.0)
    hold = ("--mode", "hold", *PLACE[2:])
    with LiveBridge(cluster, tmp_path, *hold) as bridge, TestScheduler(bridge) as told:
        told.until(JobSubmitted, job_id=job)
        told.until(JobStarted, AllocateJob(job, [0]), job_id=job)
        assert told.until(JobRequeued, RequeueJob(job), job_id=job).cause == "decision"
        eventually(lambda: cluster.run("squeue", "-h", "-j", str(job), "-o", "%P") == "queue\n")
        assert cluster.state(job) == "PENDING"
        assert not bridge.entries("fell_back_to_shadow")
