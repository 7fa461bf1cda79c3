"""What a bridge does when processes die, and what schedulers are told of a real cluster."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from hpcosim_protocol import (
    AllocateJob,
    Decision,
    DecisionRejected,
    JobCompleted,
    JobRequeued,
    JobStarted,
    JobSubmitted,
    KillJob,
    NodeDrained,
    NodeFailed,
    NodeRepaired,
    SubmitJob,
)
from support.live_bridges import (
    PLACE,
    LiveBridge,
    TestScheduler,
    running,
    schedule,
    shown,
    wait_for_all,
)
from support.processes import eventually
from support.slurm_cluster import SOON_S, SlurmCluster

pytestmark = pytest.mark.slow
MID_RUN = 4
"""Number of placements after which a process is killed."""


def submit(cluster: SlurmCluster, number: int = 12) -> list[int]:
    """Submit jobs of 2 nodes and 1 s, of which 4 run at the same time; return their numbers."""
    return [cluster.submit("--ntasks=2", "--time=1", sleep_s=1.0) for _ in range(number)]


def test_a_bridge_that_is_killed_in_mid_run_loses_nothing(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    """The next bridge with the journal continues the session of the scheduler that waits."""
    with LiveBridge(cluster, tmp_path, *PLACE, "--start-timeout-s", "5") as bridge:
        with running(*schedule("fcfs", bridge)) as scheduler:
            bridge.wait_for("session_opened")
            jobs = submit(cluster)
            bridge.wait_for("carried_out", MID_RUN)
            bridge.kill()
            bridge.start()
            wait_for_all(cluster, jobs, 25.0)
            assert scheduler.poll() is None
        placed = [job for job, _ in bridge.placements()]
        assert sorted(placed) == jobs
        assert len(bridge.entries("session_opened")) == 1


def test_a_scheduler_that_is_killed_in_mid_run_is_replaced(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    """Another scheduler adopts the jobs that run, and places the others."""
    with LiveBridge(cluster, tmp_path, *PLACE) as bridge:
        with running(*schedule("fcfs", bridge)):
            bridge.wait_for("session_opened")
            jobs = submit(cluster)
            bridge.wait_for("carried_out", MID_RUN)
        with running(*schedule("easy", bridge)):
            wait_for_all(cluster, jobs, 25.0)
        assert sorted(job for job, _ in bridge.placements()) == jobs
        assert not bridge.entries("fell_back_to_shadow")


def test_a_controller_that_is_killed_in_mid_run_loses_nothing(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    """While slurmctld is gone nothing is decided; then the jobs go on.

    slurmctld saves its state at most 5 s after a change. What it has not saved yet is lost.
    """
    saved = cluster.folder / "state" / "job_state"
    with LiveBridge(cluster, tmp_path, *PLACE) as bridge:
        with running(*schedule("fcfs", bridge)):
            bridge.wait_for("session_opened")
            jobs = [cluster.submit("--ntasks=4", "--time=1", sleep_s=6.0) for _ in range(2)]
            jobs += submit(cluster, 4)
            cluster.wait_for(jobs[1], "RUNNING")
            before_s = time.time()
            eventually(lambda: saved.stat().st_mtime > before_s, within_s=SOON_S)
            cluster.end("slurmctld", signal.SIGKILL)
            bridge.wait_for("slurm_unreachable")
            cluster.start("slurmctld")
            bridge.wait_for("slurm_reachable")
            wait_for_all(cluster, jobs, 25.0)
        assert sorted(job for job, _ in bridge.placements()) == jobs
        assert not bridge.entries("fell_back_to_shadow")


def test_cancels_drains_and_failures_are_told(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Each is an event: of a waiting job, of a job that runs, and of nodes that return."""
    with LiveBridge(cluster, tmp_path, *PLACE) as bridge, TestScheduler(bridge) as told:
        first, second, third = (cluster.submit("--time=1", sleep_s=60.0) for _ in range(3))
        told.until(JobSubmitted, job_id=third)
        told.until(JobStarted, AllocateJob(first, [0]), AllocateJob(second, [1]), job_id=second)
        cluster.run("scancel", str(third))
        assert told.until(JobCompleted).state == "cancelled"
        cluster.run("scancel", str(first))
        assert told.until(JobCompleted).state == "cancelled"
        cluster.run("scontrol", "update", "NodeName=node2", "State=DRAIN", "Reason=test")
        assert told.until(NodeDrained).node == 2
        cluster.run("scontrol", "update", "NodeName=node3", "State=DOWN", "Reason=test")
        assert told.until(NodeFailed).node == 3
        cluster.run("scontrol", "update", "NodeName=node1", "State=DOWN", "Reason=test")
        assert told.until(JobCompleted) == JobCompleted(told.now_s, second, "node_failed")
        cluster.run("scontrol", "update", "NodeName=node2", "State=RESUME")
        told.until(NodeRepaired, node=2)


def test_a_node_that_fails_and_returns_at_once_is_told(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    """Slurm requeues its job, and the hook of the cluster says why."""
    options = (*PLACE, "--bell", str(cluster.folder / "bridge"))
    with LiveBridge(cluster, tmp_path, *options) as bridge, TestScheduler(bridge) as told:
        job = cluster.submit("--time=1", "--requeue", sleep_s=60.0)
        told.until(JobSubmitted, job_id=job)
        told.until(JobStarted, AllocateJob(job, [5]))
        cluster.run("scontrol", "update", "NodeName=node5", "State=DOWN", "Reason=test")
        assert told.until(JobRequeued).cause == "node_failed"
        assert NodeFailed(told.now_s, 5) in told.events


def test_bad_decisions_are_rejected(cluster: SlurmCluster, tmp_path: Path) -> None:
    """As in a simulation, and none of them reaches Slurm."""
    with LiveBridge(cluster, tmp_path, *PLACE) as bridge, TestScheduler(bridge) as told:
        job, other = (cluster.submit("--ntasks=2", "--time=1", sleep_s=60.0) for _ in range(2))
        told.until(JobSubmitted, job_id=other)
        told.until(JobStarted, AllocateJob(job, [3, 4]))
        expected: dict[str, Decision] = {
            "unknown_job": AllocateJob(other + 1000, [0]),
            "unknown_node": AllocateJob(other, [8, 9]),
            "node_busy": AllocateJob(other, [4, 5]),
            "bad_allocation": AllocateJob(other, [0, 1, 2]),
            "job_not_running": KillJob(other),
            "job_not_waiting": AllocateJob(job, [0, 1]),
            "not_allowed": SubmitJob(other + 1, 1, 60.0),
        }
        for code, decision in expected.items():
            assert told.until(DecisionRejected, decision).code == code, decision
        assert len(bridge.entries("carried_out")) == 1
        assert not bridge.entries("refused")


def test_what_slurm_refuses_is_told_in_its_words(cluster: SlurmCluster, tmp_path: Path) -> None:
    """The user cancels a job while the scheduler thinks; the bridge has not seen it yet."""
    job = cluster.submit("--time=1")
    options = (*PLACE, "--poll-s", "3600")
    with LiveBridge(cluster, tmp_path, *options) as bridge, TestScheduler(bridge) as told:
        told.until(JobSubmitted, job_id=job)
        cluster.run("scancel", str(job))
        rejected = told.until(DecisionRejected, AllocateJob(job, [0]))
        assert rejected.job_id == job
        assert rejected.reason == f"Slurm: {bridge.entries('refused')[0]['words']}"


def test_a_reservation_that_the_scheduler_does_not_know_ends_the_acting(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    """An operator reserves all nodes for later, in mid-session: Slurm starts nothing in time.

    The bridge gives up, and the waiting jobs start when the reservation is gone.
    """
    limits = ("--start-timeout-s", "1", "--max-rejected", "2")
    with LiveBridge(cluster, tmp_path, *PLACE, *limits) as bridge:
        with running(*schedule("fcfs", bridge)):
            bridge.wait_for("session_opened")
            reserve = ("scontrol", "create", "reservation", "ReservationName=later", "Nodes=ALL")
            cluster.run(*reserve, "StartTime=now+10minutes", "Duration=60", "Users=daemon")
            try:
                jobs = [cluster.submit("--ntasks=2", "--time=60", sleep_s=1.0) for _ in range(4)]
                bridge.wait_for("fell_back_to_shadow")
            finally:
                cluster.run("scontrol", "delete", "ReservationName=later")
        wait_for_all(cluster, jobs, 25.0)
    reason = bridge.entries("fell_back_to_shadow")[0]["reason"]
    assert "decisions in a row were rejected" in reason


def test_a_shadow_leaves_jobs_nodes_and_partitions_untouched(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    """Jobs run and wait; a scheduler places in the shadow; `scontrol show` says the same."""
    busy = cluster.submit("--ntasks=4", "--time=1", sleep_s=600.0)
    cluster.run("scontrol", "update", f"JobId={busy}", "Partition=main", "ReqNodeList=node[0-3]")
    cluster.wait_for(busy, "RUNNING")
    jobs = submit(cluster, 3)
    before = shown(cluster)
    with LiveBridge(cluster, tmp_path) as bridge, running(*schedule("easy", bridge)):
        bridge.wait_for_decision("allocate_job")
        assert shown(cluster) == before
    assert shown(cluster) == before
    assert {cluster.state(job) for job in jobs} == {"PENDING"}
