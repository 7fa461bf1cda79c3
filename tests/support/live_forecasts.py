"""Forecasts on a real Slurm of this host, and what happened."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from hpcosim_twin.answers.calibration import Forecasted
from support.processes import eventually
from support.slurm_cluster import SlurmCluster, slurm_cluster

JOBS = (
    *((1, 2), (2, 1), (1, 3), (4, 1), (1, 2), (2, 2)),
    *((4, 2), (1, 3), (2, 1), (1, 2), (4, 1), (1, 1)),
)
"""Nodes and seconds of each job; each has a limit of five minutes."""
PARAMETERS = "batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1"


def planning_cluster() -> AbstractContextManager[SlurmCluster]:
    """Return a cluster of 4 nodes that plans the starts of waiting jobs each second."""
    options = ("--nodes", "4", "--scheduler", "backfill")
    return slurm_cluster(*options, "--add", f"SchedulerParameters={PARAMETERS}")


def submit_jobs(cluster: SlurmCluster) -> list[int]:
    """Submit `JOBS`, and return their numbers."""
    return [
        cluster.submit(f"--nodes={nodes}", "--ntasks-per-node=1", "--time=5", sleep_s=sleep_s)
        for nodes, sleep_s in JOBS
    ]


def wait_for_ends(cluster: SlurmCluster, jobs: list[int], count: int) -> None:
    """Wait until a number of jobs has ended."""
    numbers = ",".join(map(str, jobs))

    def are_over() -> bool:
        ended = cluster.run("squeue", "-h", "-t", "CD", "-j", numbers, "-o", "%i").split()
        return len(ended) >= count

    eventually(are_over, within_s=90.0)


def forecast(cluster: SlurmCluster, *options: str) -> dict[str, Any]:
    """Return what the command says of the cluster, with more options."""
    command = [
        sys.executable,
        "-m",
        "hpcosim.cli",
        "ask",
        "queue",
        "--json",
        "--seed",
        "1",
        *options,
    ]
    done = subprocess.run(
        command, env=cluster.environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def forecasted(cluster: SlurmCluster, forecasts: Mapping[str, Any]) -> Iterator[Forecasted]:
    """Yield forecasts of jobs that have ended beside their starts, Unix times, s."""
    done = subprocess.run(
        ["squeue", "-h", "-t", "CD", "-o", "%i %S"],
        env={**cluster.environment, "SLURM_TIME_FORMAT": "%s"},
        capture_output=True,
        text=True,
        check=True,
    )
    rows = done.stdout.split()
    starts = dict(zip(map(int, rows[::2]), map(float, rows[1::2]), strict=True))
    for each in forecasts["jobs"]:
        times = (each["median_s"], each["low_s"], each["high_s"])
        yield Forecasted(starts[each["job_id"]], *times, each["squeue_s"])
