"""The command `hpcosim slurm` on a real cluster of this host."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.processes import eventually
from support.slurm_bridges import HPCOSIM, bridge, report_of, scheduler
from support.slurm_cluster import SlurmCluster

pytestmark = pytest.mark.slow
JOBS = 20


def test_fcfs_runs_twenty_jobs_in_the_shadow_as_slurm_does(
    ordinary: SlurmCluster, tmp_path: Path
) -> None:
    """The scheduler starts all jobs that Slurm starts, and the report has both."""
    cluster = ordinary
    with bridge(cluster, tmp_path) as address, scheduler("fcfs", address):
        eventually(lambda: '"asked"' in (tmp_path / "journal").read_text())
        for at in range(JOBS):
            cluster.submit(f"--ntasks={1 + at % 3}", "--time=1", sleep_s=0.2 + 0.5 * (at % 3))
        eventually(
            lambda: cluster.run("squeue", "-h", "-t", "all", "-o", "%T").count("COMPLETED") >= JOBS,
            within_s=60.0,
        )
        eventually(lambda: report_of(tmp_path)["started_by_both"] == JOBS, within_s=20.0)


def test_an_address_of_the_network_needs_keys(ordinary: SlurmCluster, tmp_path: Path) -> None:
    """The mistake is one line on standard error, and leaves no journal."""
    command = [*HPCOSIM, "slurm", "--journal", str(tmp_path / "journal")]
    done = subprocess.run(
        [*command, "--bind", "tcp://0.0.0.0:1"],
        env=ordinary.environment,
        capture_output=True,
        text=True,
        timeout=20.0,
    )
    assert done.returncode in (1, 2)
    assert "without keys" in done.stderr
    assert done.stderr.count("error: ") == 1
    assert not (tmp_path / "journal").exists()


def test_options_of_acting_are_refused_in_mode_shadow() -> None:
    """There are no commands that `--dry-run` could print."""
    done = subprocess.run([*HPCOSIM, "slurm", "--dry-run"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: --dry-run: mode shadow runs no command that changes ")
    assert done.stderr.count("\n") == 1
