"""The command `hpcosim slurm` on a real cluster of this host."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from support.processes import eventually
from support.slurm_bridges import HPCOSIM, bridge, report_of, scheduler
from support.slurm_cluster import SlurmCluster

pytestmark = pytest.mark.slow
JOBS = 20
SLURMS_OWN = ("Priority", "LastSchedEval", "AccrueTime", "StartTime", "EndTime", "Scheduler")
VOLATILE = re.compile(rf" (Reason|NumNodes|{'|'.join(SLURMS_OWN)})=\S+")


def test_a_shadow_leaves_the_controller_untouched(ordinary: SlurmCluster, tmp_path: Path) -> None:
    """A scheduler starts waiting jobs in the shadow; in Slurm they wait as before."""
    cluster = ordinary

    def state() -> str:
        return VOLATILE.sub("", cluster.run("scontrol", "show", "job", "--oneliner"))

    cluster.run("scontrol", "update", "PartitionName=main", "State=DOWN")
    try:
        for _ in range(3):
            cluster.submit("--ntasks=2", "--time=1")
        before = state()
        with bridge(cluster, tmp_path) as address, scheduler("fcfs", address):
            eventually(lambda: '"allocate_job"' in (tmp_path / "journal").read_text())
        assert state() == before
    finally:
        cluster.run("scontrol", "update", "PartitionName=main", "State=UP")


def test_fcfs_runs_twenty_jobs_in_the_shadow_as_slurm_does(
    ordinary: SlurmCluster, tmp_path: Path
) -> None:
    """The scheduler starts all jobs that Slurm starts, and the report has both."""
    cluster = ordinary
    with bridge(cluster, tmp_path) as address, scheduler("fcfs", address):
        eventually(lambda: '"asked"' in (tmp_path / "journal").read_text())
        for at in range(JOBS):
            cluster.submit(f"--ntasks={1 + at % 3}", "--time=1", sleep_s=0.3 + at % 3)
        eventually(
            lambda: cluster.run("squeue", "-h", "-t", "all", "-o", "%T").count("COMPLETED") >= JOBS,
            within_s=60.0,
        )
        eventually(lambda: report_of(tmp_path)["started_by_both"] == JOBS, within_s=20.0)


def test_a_killed_scheduler_is_replaced(ordinary: SlurmCluster, tmp_path: Path) -> None:
    """After a scheduler was killed, another one adopts what Slurm runs."""
    cluster = ordinary
    running = cluster.submit("--time=1", sleep_s=30.0)
    cluster.wait_for(running, "RUNNING")
    log = tmp_path / "log"
    with bridge(cluster, tmp_path) as address:
        with scheduler("fcfs", address):
            eventually(lambda: "session_opened" in log.read_text())
        eventually(lambda: "scheduler_disconnected" in log.read_text())
        with scheduler("easy", address):
            eventually(lambda: log.read_text().count("session_opened") == 2)
    assert report_of(tmp_path)["running_at_start"] == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--partition", "nowhere"], "unknown partition nowhere; the partitions are: main"),
        (["--bind", "tcp://0.0.0.0:1"], "without keys"),
    ],
    ids=["partition", "address"],
)
def test_bad_input_is_one_line(
    ordinary: SlurmCluster, tmp_path: Path, options: list[str], words: str
) -> None:
    """A mistake is one line on standard error, and leaves no journal."""
    command = [*HPCOSIM, "slurm", "--journal", str(tmp_path / "journal"), *options]
    done = subprocess.run(
        command, env=ordinary.environment, capture_output=True, text=True, timeout=20.0
    )
    assert done.returncode in (1, 2)
    assert words in done.stderr
    assert done.stderr.count("error: ") == 1
    assert not (tmp_path / "journal").exists()


def test_options_of_acting_are_refused_in_mode_shadow() -> None:
    """There are no commands that `--dry-run` could print."""
    done = subprocess.run([*HPCOSIM, "slurm", "--dry-run"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: --dry-run: mode shadow runs no command that changes ")
    assert done.stderr.count("\n") == 1


def test_without_slurm_the_error_says_so(tmp_path: Path) -> None:
    """On a machine without Slurm the command ends with status 2 and one line."""
    done = subprocess.run(
        [*HPCOSIM, "slurm"], env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "no Slurm: " in done.stderr
    assert done.stderr.count("\n") == 1
