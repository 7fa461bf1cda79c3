"""Schedulers that were written for the simulator place jobs of a real cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from hpcosim_protocol.hosts import expand
from support.live_bridges import PLACE, LiveBridge, jobs_of, running, schedule, wait_for_all
from support.other_languages import client_in
from support.paths import ROOT, SCENARIOS
from support.processes import eventually
from support.slurm_cluster import SlurmCluster

pytestmark = pytest.mark.slow
JOBS, NODES = 20, 8
EXAMPLES = ROOT / "scheduler_client" / "examples"
MODEL = SCENARIOS / "papers" / "ineps" / "pairing-exp1" / "edp.safetensors"


def submit_twenty(cluster: SlurmCluster, nodes: int = 3) -> list[int]:
    """Submit 20 jobs that run for 0.1 to 0.5 s, and return their numbers.

    Args:
        cluster: the cluster.
        nodes: largest number of nodes of a job.
    """
    return [
        cluster.submit(f"--ntasks={1 + at % nodes}", "--time=1", sleep_s=0.1 + 0.2 * (at % 3))
        for at in range(JOBS)
    ]


def check_placed(cluster: SlurmCluster, bridge: LiveBridge, jobs: Sequence[int]) -> None:
    """Check that each job ran on the nodes of its one decision, and that nothing went wrong."""
    placed = bridge.placements()
    assert sorted(job for job, _ in placed) == sorted(jobs)
    ran = jobs_of(cluster, jobs)
    for job, nodes in placed:
        assert sorted(expand(ran[job][2])) == sorted(expand(nodes))
    for trouble in ("refused", "fell_back_to_shadow", "slurm_unreachable"):
        assert not bridge.entries(trouble)


@pytest.mark.parametrize(
    ("policy", "options", "nodes"),
    [("fcfs", (), 3), ("easy", (), 3), ("pairing", ("--model", MODEL), 1)],  # pairs: one node each
    ids=["fcfs", "easy", "pairing"],
)
def test_a_policy_places_twenty_jobs(
    cluster: SlurmCluster,
    tmp_path: Path,
    policy: str,
    options: tuple[str | Path, ...],
    nodes: int,
) -> None:
    """Every job runs on the nodes of its decision; fcfs starts jobs in order of submission."""
    with LiveBridge(cluster, tmp_path, *PLACE) as bridge:
        jobs = submit_twenty(cluster, nodes)
        with running(*schedule(policy, bridge, *options)):
            wait_for_all(cluster, jobs)
        check_placed(cluster, bridge, jobs)
        if policy == "fcfs":
            assert [job for job, _ in bridge.placements()] == jobs


def test_the_client_in_c_places_twenty_jobs(cluster: SlurmCluster, tmp_path: Path) -> None:
    """A scheduler without the SDK needs no change, either."""
    command = client_in("c", tmp_path)
    with LiveBridge(cluster, tmp_path, *PLACE) as bridge, running(*command, bridge.address):
        bridge.wait_for("session_opened")
        jobs = submit_twenty(cluster)
        wait_for_all(cluster, jobs)
        check_placed(cluster, bridge, jobs)


def test_a_scheduler_of_pybatsim_places_twenty_jobs(
    cluster: SlurmCluster, tmp_path: Path, batsim_programs: Path
) -> None:
    """It speaks Batsim's protocol to an example of the SDK, which speaks ours.

    By default it ends when it gets no message for 2 s, which a job needs to start.
    """
    batsim = f"ipc://{tmp_path}/batsim"
    pybatsim = (batsim_programs / "pybatsim", "easyBackfill", "-s", batsim, "-t", "0")
    with LiveBridge(cluster, tmp_path, *PLACE) as bridge:
        proxy = (sys.executable, EXAMPLES / "batsim_scheduler.py", bridge.address, batsim)
        with running(*pybatsim), running(*proxy):
            bridge.wait_for("session_opened")
            jobs = submit_twenty(cluster)
            wait_for_all(cluster, jobs, 40.0)
        check_placed(cluster, bridge, jobs)


def powers(cluster: SlurmCluster) -> list[str]:
    """Return the state of each node, such as `idle~`."""
    return cluster.run("sinfo", "-h", "-N", "-p", "main", "-o", "%T").split()


def test_a_power_manager_switches_nodes_off_and_on(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Nodes that are idle for 1 s are switched off; a job on all of them switches them on."""
    options = ("--power", '{"name": "timeout", "timeout_s": 1}', "--power-awareness", "aware")
    with LiveBridge(cluster, tmp_path, *PLACE) as bridge:
        with running(*schedule("easy", bridge, *options)):
            eventually(lambda: powers(cluster) == ["idle~"] * NODES, within_s=60.0)
            job = cluster.submit(f"--nodes={NODES}", "--time=1", sleep_s=0.5)
            wait_for_all(cluster, [job])
        assert len(expand(jobs_of(cluster, [job])[job][2])) == NODES
        commands = str([entry["command"] for entry in bridge.entries("carried_out")])
        assert "State=POWER_DOWN" in commands
        assert not bridge.entries("fell_back_to_shadow")
    cluster.run("scontrol", "update", "NodeName=ALL", "State=POWER_UP")
