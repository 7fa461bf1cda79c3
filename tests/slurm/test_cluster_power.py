"""A power manager switches nodes of a real cluster off and on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.processes import eventually
from support.slurm_bridges import HPCOSIM, bridge
from support.slurm_cluster import SlurmCluster

pytestmark = pytest.mark.slow


def test_a_timeout_manager_switches_idle_nodes(placed: SlurmCluster, tmp_path: Path) -> None:
    """Idle nodes are off after a while; a job that is placed on one of them boots it."""
    place = ("--mode", "place", "--partition", "main", "--waiting-partition", "queue")
    power = '{"name": "timeout", "timeout_s": 2}'
    try:
        with bridge(placed, tmp_path, *place) as address:
            command = [*HPCOSIM, "schedule", "fcfs", "--power", power, "--connect", address]
            with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
                eventually(lambda: nodes_off(placed) >= 7)
                job = placed.submit("--ntasks=3", "--time=1", sleep_s=0.2)
                placed.wait_for(job, "COMPLETED")
                process.kill()
        log = (tmp_path / "log").read_text()
        assert log.count("State=POWER_DOWN") >= 7
        assert '"event": "refused"' not in log
    finally:
        placed.run("scontrol", "update", "NodeName=ALL", "State=POWER_UP")
        eventually(lambda: nodes_off(placed) == 0)


def nodes_off(cluster: SlurmCluster) -> int:
    """Return the number of nodes that are off or being switched."""
    states = cluster.run("sinfo", "-h", "-N", "-p", "main", "-o", "%T").split()
    return sum(state[-1] in "~%#!" for state in states)
