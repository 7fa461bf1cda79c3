"""The script that starts a cluster of this host."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes import eventually
from support.slurm_cluster import CLUSTER, SOON_S, SlurmCluster, skip_without_slurm_and_root

pytestmark = pytest.mark.slow
SCRIPT = (sys.executable, str(CLUSTER), "--nodes", "2")


@pytest.fixture(autouse=True)
def needs_slurm() -> None:
    """Skip the tests where no cluster can be started."""
    skip_without_slurm_and_root()


def users_of(folder: Path) -> list[str]:
    """Return the processes that know a cluster by their arguments or their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            known = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) in known:
            found.append((process / "comm").read_text().strip())
    return found


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    """Daemons, jobs, nodes that were switched on again and the folder are gone."""
    ready = tmp_path / "folder"
    busy = (
        "scontrol update NodeName=node1 State=POWER_DOWN;"
        "until sinfo -h -n node1 -p main -o %T | grep -q 'idle~'; do sleep 0.1; done;"
        "sbatch -o /dev/null --wrap 'trap : TERM; while :; do sleep 1; done';"
        "scontrol update JobId=1 Partition=main ReqNodeList=node1;"
        "until squeue -h -t R -o %i | grep -q 1; do sleep 0.1; done;"
        f"echo $SLURM_CONF > {ready}; sleep 60"
    )
    process = subprocess.Popen(
        [*SCRIPT, "--for", "place", "sh", "-c", busy],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    eventually(lambda: ready.exists() and ready.read_text(), within_s=SOON_S)
    folder = Path(ready.read_text().strip()).parent
    assert "slurmstepd" in str(users_of(folder))
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(SOON_S) == 130
    assert users_of(folder) == []
    assert not folder.exists()


def test_a_test_run_that_is_killed_leaves_nothing() -> None:
    """The cluster ends with its standard input, or with SIGTERM to the script alone."""
    for end in ("close", "terminate"):
        with subprocess.Popen(
            SCRIPT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            folder = Path(process.stdout.readline().strip().partition("=")[2]).parent
            assert "slurmctld" in users_of(folder)
            getattr(process.stdin if end == "close" else process, end)()
            assert process.wait(SOON_S) == (0 if end == "close" else 143)
        assert users_of(folder) == []
        assert not folder.exists()


def test_a_cancelled_job_ends_soon_on_a_cluster_without_a_command(tmp_path: Path) -> None:
    """The processes of the job are reaped; otherwise Slurm waits a minute for their end."""
    process = subprocess.Popen(SCRIPT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    begun = tmp_path / "begun"
    assert process.stdout is not None
    configuration = process.stdout.readline().strip().partition("=")[2]
    environment = {**os.environ, "SLURM_CONF": configuration}

    def run(*words: str) -> str:
        return subprocess.run(
            words, env=environment, capture_output=True, text=True, check=True, timeout=SOON_S
        ).stdout

    try:
        run("sbatch", "-o", "/dev/null", "--wrap", f"(sleep 60 &); : > {begun}; sleep 60")
        eventually(begun.exists, within_s=SOON_S)
        run("scancel", "1")
        eventually(lambda: not run("squeue", "-h"), within_s=20.0)
    finally:
        process.communicate(timeout=SOON_S)


def test_the_exit_status_is_that_of_the_command() -> None:
    """The command gets the cluster by SLURM_CONF; a hyphen is not taken for an option."""
    options = ("--cpus=2", "--gpus=1", "--add=PartitionName=more Nodes=node1")
    done = subprocess.run(
        [*SCRIPT, *options, "--", "sh", "-c", "sinfo -h -o '%P %D %c %G'; exit 7"],
        capture_output=True,
        text=True,
        timeout=SOON_S,
    )
    assert (done.returncode, done.stdout.split()) == (
        7,
        ["main*", "2", "2", "gpu:1", "more", "1", "2", "gpu:1"],
    ), done.stderr


def test_a_cluster_that_cannot_start_says_why(tmp_path: Path) -> None:
    """The error has the last lines of the logs, and nothing is left."""
    done = subprocess.run(
        [*SCRIPT, "--add", "Nonsense=3", "true"],
        capture_output=True,
        text=True,
        timeout=SOON_S,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 2
    assert "cluster.py: slurmctld -D -i ended during the start" in done.stderr
    assert "Parsing error at unrecognized key: Nonsense" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_missing_database_is_one_line() -> None:
    """Accounting needs packages that Slurm's others do not install."""
    if shutil.which("slurmdbd", path=os.environ["PATH"] + ":/usr/sbin"):
        pytest.skip("slurmdbd is installed")
    done = subprocess.run(
        [*SCRIPT, "--accounting", "true"], capture_output=True, text=True, timeout=SOON_S
    )
    assert done.returncode == 2
    assert done.stderr.startswith("cluster.py: --accounting: slurmdbd, mariadbd, ")
    assert done.stderr.count("\n") == 1


def test_clusters_side_by_side_know_only_their_own(
    ordinary: SlurmCluster, placed: SlurmCluster
) -> None:
    """A job of one cluster is none of the other."""
    job = ordinary.submit(sleep_s=60)
    ordinary.wait_for(job, "RUNNING")
    assert placed.run("squeue", "-h") == ""
    assert "queue*" in placed.run("sinfo")
    assert "queue*" not in ordinary.run("sinfo")


def test_users_cannot_start_jobs_past_the_bridge(placed: SlurmCluster) -> None:
    """A job waits in `queue` although its user names `main`, then and later."""
    user = ("setpriv", "--reuid", "nobody", "--clear-groups")
    script = "#!/bin/sh\n"
    options = ("--parsable", "--partition=main", "--output=/dev/null", "--chdir=/")
    job = placed.run(*user, "sbatch", *options, text=script).strip()
    moved = subprocess.run(
        [*user, "scontrol", "update", f"JobId={job}", "Partition=main"], env=placed.environment
    )
    assert moved.returncode != 0
    assert placed.run("squeue", "-h", "-j", job, "-o", "%P %u").split() == ["queue", "nobody"]
    placed.run("scancel", job)
