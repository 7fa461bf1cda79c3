"""Schedulers place jobs beside reservations, licences and other partitions, and in two of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from hpcosim_protocol import AllocateJob, DecisionRejected, JobStarted, JobSubmitted
from hpcosim_protocol.hosts import expand
from support.live_bridges import (
    PLACE,
    LiveBridge,
    TestScheduler,
    jobs_of,
    running,
    schedule,
    wait_for_all,
)
from support.processes import eventually
from support.slurm_cluster import SOON_S, SlurmCluster

pytestmark = pytest.mark.slow


@contextmanager
def having(cluster: SlurmCluster, *parts: Sequence[str]) -> Iterator[None]:
    """Give a cluster partitions and reservations: the words after `scontrol create` of each."""
    for part in parts:
        cluster.run("scontrol", "create", *part)
    try:
        yield
    finally:
        cluster.run("scancel", "--user", "root")
        eventually(lambda: not cluster.run("squeue", "-h"), within_s=SOON_S)
        for part in reversed(parts):
            cluster.run("scontrol", "delete", next(word for word in part if "Name=" in word))


def test_jobs_of_two_partitions_start_each_in_its_own(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    """`job_submit.lua` chooses where a job waits; the scheduler sees where it may start."""
    both = (*PLACE, "--partition", "gpu", "--waiting-partition", "queue-gpu")
    gpu_nodes = ("PartitionName=gpu", "Nodes=node[6-7]", "State=UP")
    waiting = ("PartitionName=queue-gpu", "Nodes=ALL", "State=DOWN")
    with having(cluster, gpu_nodes, waiting):
        main, gpu = cluster.submit(sleep_s=60.0), cluster.submit("-p", "gpu", sleep_s=60.0)
        with LiveBridge(cluster, tmp_path, *both) as bridge, TestScheduler(bridge) as told:
            told.until(JobSubmitted, job_id=gpu)
            submitted = [event for event in told.events if isinstance(event, JobSubmitted)]
            shown = {event.job_id: list(event.partitions) for event in submitted}
            assert (shown[main], shown[gpu]) == (["main"], ["gpu"])
            assert told.until(DecisionRejected, AllocateJob(gpu, [5])).code == "constraint_violated"
            told.until(JobStarted, AllocateJob(main, [6]), job_id=main)
            told.until(JobStarted, AllocateJob(gpu, [7]), job_id=gpu)
            ran = cluster.run("squeue", "-h", "-t", "R", "-S", "i", "-o", "%i %P %N").splitlines()
            assert ran == [f"{main} main node6", f"{gpu} gpu node7"]


def test_a_policy_places_jobs_where_slurm_starts_them(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    """No decision is refused or late: nodes that others have, and licences in use, are known."""
    shared = ("PartitionName=other", "Nodes=node0", "State=UP")
    reserved = ("reservation", "ReservationName=r", "Users=daemon", "Nodes=node[1-2]")
    hour = ("StartTime=now", "Duration=60")
    with (
        having(cluster, shared, (*reserved, *hour)),
        LiveBridge(cluster, tmp_path, *PLACE) as bridge,
    ):
        other = cluster.submit("--time=1", sleep_s=60.0)
        cluster.run("scontrol", "update", f"JobId={other}", "Partition=other")
        cluster.wait_for(other, "RUNNING")
        jobs = [
            *(cluster.submit("--licenses=matlab:1", "--time=1", sleep_s=0.5) for _ in range(3)),
            *(cluster.submit("--ntasks=5", "--time=1", sleep_s=0.5) for _ in range(2)),
            cluster.submit("--array=0-2%2", "--time=1", sleep_s=0.5),
        ]
        with running(*schedule("easy", bridge)):
            wait_for_all(cluster, jobs[:-1])
            eventually(lambda: not cluster.run("squeue", "-h", "-p", "queue,main"), within_s=SOON_S)
        commands = [entry["command"] for entry in bridge.entries("carried_out")]
        assert sum("ReqNodeList" in command for command in commands) == len(jobs) - 1 + 3
        ran = jobs_of(cluster, jobs[:-1])
        used = {node for _, _, nodes in ran.values() for node in expand(nodes)}
        assert used <= {f"node{number}" for number in range(3, 8)}
        for trouble in ("refused", "fell_back_to_shadow"):
            assert not bridge.entries(trouble)
        assert "decision_rejected" not in bridge.journal.read_text()
