"""Mode place on a real cluster of this host, with faults."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes import eventually
from support.slurm_bridges import HPCOSIM, bridge, scheduler
from support.slurm_cluster import SlurmCluster

pytestmark = pytest.mark.slow
PLACE = ("--mode", "place", "--partition", "main", "--waiting-partition", "queue")

DIVERGING = """
import sys
from hpcosim_client import View, run
from hpcosim_protocol import AllocateJob

def on_no_node(view: View) -> None:
    for job_id in list(view.queue):
        view.decisions.append(AllocateJob(job_id, [10_000]))

run(on_no_node, sys.argv[1])
"""


def events_in(folder: Path, event: str) -> list[dict[str, str]]:
    """Return the entries of one kind in the log of a bridge."""
    lines = (folder / "log").read_text().splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return [entry for entry in found if entry["event"] == event]


def over(cluster: SlurmCluster) -> int:
    """Return the number of jobs that have completed."""
    return cluster.run("squeue", "-h", "-t", "all", "-o", "%T").count("COMPLETED")


def test_mode_hold_leaves_the_nodes_to_slurm(placed: SlurmCluster, tmp_path: Path) -> None:
    """The scheduler decides when jobs start; its view has the nodes that Slurm chose."""
    before = over(placed)
    hold = ("--mode", "hold", *PLACE[2:])
    with bridge(placed, tmp_path, *hold) as address, scheduler("easy", address):
        eventually(lambda: events_in(tmp_path, "session_opened"))
        for at in range(10):
            placed.submit(f"--ntasks={1 + at % 3}", "--time=1", sleep_s=0.2)
        eventually(lambda: over(placed) >= before + 10, within_s=60.0)
    commands = [entry["command"] for entry in events_in(tmp_path, "carried_out")]
    assert len(commands) == 10
    assert not any("ReqNodeList=" in command for command in commands)


def test_mode_hold_releases_jobs_that_were_submitted_held(
    ordinary: SlurmCluster, tmp_path: Path
) -> None:
    """An ordinary cluster needs no waiting partition."""
    held = ordinary.submit("--hold", "--time=1", sleep_s=0.2)
    hold = ("--mode", "hold", "--partition", "main")
    with bridge(ordinary, tmp_path, *hold) as address, scheduler("fcfs", address):
        ordinary.wait_for(held, "COMPLETED")


def test_a_killed_scheduler_releases_the_jobs(placed: SlurmCluster, tmp_path: Path) -> None:
    """Slurm starts the waiting jobs by itself after a scheduler was killed."""
    options = (*PLACE, "--max-silent-s", "2")
    with bridge(placed, tmp_path, *options) as address:
        with scheduler("fcfs", address):
            eventually(lambda: events_in(tmp_path, "session_opened"))
        job = placed.submit("--time=1")
        eventually(lambda: events_in(tmp_path, "fell_back_to_shadow"))
        placed.wait_for(job, "COMPLETED")
        later = placed.submit("--time=1")
        placed.wait_for(later, "COMPLETED")


def test_a_diverging_scheduler_releases_the_jobs(placed: SlurmCluster, tmp_path: Path) -> None:
    """A scheduler that places jobs on nodes that are not there loses the cluster."""
    with bridge(placed, tmp_path, *PLACE, "--max-rejected", "3") as address:
        with subprocess.Popen([sys.executable, "-c", DIVERGING, address]) as planted:
            eventually(lambda: events_in(tmp_path, "session_opened"))
            job = placed.submit("--time=1")
            eventually(lambda: events_in(tmp_path, "fell_back_to_shadow"))
            planted.wait(10.0)
        placed.wait_for(job, "COMPLETED")
    (entry,) = events_in(tmp_path, "fell_back_to_shadow")
    assert "decisions in a row were rejected" in entry["reason"]


def test_a_dry_run_prints_and_does_nothing(placed: SlurmCluster, tmp_path: Path) -> None:
    """The commands are on standard output; the job waits."""
    command = [*HPCOSIM, "slurm", "--bind", f"ipc://{tmp_path}/b", *PLACE, "--dry-run"]
    command += ["--journal", str(tmp_path / "journal"), "--poll-s", "0.2"]
    with subprocess.Popen(command, env=placed.environment, stdout=subprocess.PIPE) as process:
        job = placed.submit("--time=1")
        with scheduler("fcfs", f"ipc://{tmp_path}/b"):
            assert process.stdout is not None
            line = process.stdout.readline().decode()
        process.terminate()
    assert f"scontrol update JobId={job} Partition=main ReqNodeList=node0" in line
    assert placed.state(job) == "PENDING"
