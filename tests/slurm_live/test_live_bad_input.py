"""Mistakes that end `hpcosim slurm` at once: one line, status 2, and the cluster as it was."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.live_bridges import PLACE, LiveBridge, shown
from support.slurm_bridges import HPCOSIM
from support.slurm_cluster import SOON_S, SlurmCluster

pytestmark = pytest.mark.slow
OLD = "SLURM_VERSION = 20.11.9\nClusterName = c\nSlurmctldPort = 6817\nSlurmUser = slurm(64030)\n"
FIELDS = (
    "AccountingStorageType = accounting_storage/none\nSelectTypeParameters = CR_CPU\n"
    "PrivateData = none\nSchedulerType = sched/builtin\nSuspendProgram = (null)\n"
    "ResumeProgram = (null)\nPrologSlurmctld = (null)\nJobCompType = jobcomp/none\n"
    "JobCompLoc = (null)\nMinJobAge = 300 sec\n"
)

# Users may not read the checkout of root: a first error loads all modules.
AS_NOBODY = """
import contextlib, io, os, sys
from hpcosim.cli.main import main
arguments, sys.argv = sys.argv, ["hpcosim", "slurm", "--mode", "place"]
with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):
    main()
sys.argv = arguments
os.setuid(65534)
main()
"""


def error_of(folder: Path, environment: Mapping[str, str], *options: str) -> str:
    """Return the one line of a bridge that ends at once with status 2 and writes no journal."""
    journal = folder / "journal-of-an-error"
    done = subprocess.run(
        [*HPCOSIM, "slurm", "--journal", str(journal), *options],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SOON_S,
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("error: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert not journal.exists()
    return done.stderr


def fake_slurm(folder: Path, scontrol: str) -> dict[str, str]:
    """Return the environment of a machine whose commands are shell scripts.

    Args:
        folder: folder of the scripts.
        scontrol: commands of `scontrol`; the others do nothing.
    """
    for name in ("squeue", "scancel", "sinfo", "scontrol"):
        path = folder / name
        path.write_text(f"#!/bin/sh\n{scontrol if name == 'scontrol' else ''}\n")
        path.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def test_no_slurm(tmp_path: Path) -> None:
    """A machine without Slurm's commands."""
    said = error_of(tmp_path, {"PATH": str(tmp_path)}, *PLACE)
    assert "no Slurm: squeue not found on PATH" in said


def test_an_unsupported_version(tmp_path: Path) -> None:
    """Slurm 20.11: its output has not been tried."""
    said = error_of(tmp_path, fake_slurm(tmp_path, f"cat <<'END'\n{OLD}{FIELDS}END"))
    assert "Slurm 20.11.9: expected a version from 21.08 to 24.11" in said


def test_an_unreachable_controller(tmp_path: Path) -> None:
    """The words are Slurm's."""
    words = "slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)"
    said = error_of(tmp_path, fake_slurm(tmp_path, f"echo '{words}' >&2; exit 1"))
    assert words in said


def test_an_unknown_partition(cluster: SlurmCluster, tmp_path: Path) -> None:
    """The line names the partitions that there are; nothing is changed."""
    cluster.submit("--time=1")
    before = shown(cluster)
    options = ("--mode", "hold", "--partition", "nowhere", "--waiting-partition", "queue")
    said = error_of(tmp_path, cluster.environment, *options)
    assert "unknown partition nowhere; the partitions are: queue, main" in said
    assert shown(cluster) == before


def test_a_second_bridge(cluster: SlurmCluster, tmp_path: Path) -> None:
    """It ends, and the first one and the waiting jobs are left alone."""
    cluster.submit("--time=1")
    with LiveBridge(cluster, tmp_path, *PLACE) as bridge:
        before = shown(cluster)
        said = error_of(tmp_path, cluster.environment, *PLACE)
        assert "another bridge acts on partition main of cluster hpcosim" in said
        assert shown(cluster) == before
        assert not bridge.entries("fell_back_to_shadow")


def test_no_rights(cluster: SlurmCluster, tmp_path: Path) -> None:
    """A user without rights cannot place the jobs of others, and learns what is missing."""
    before = shown(cluster)
    done = subprocess.run(
        [HPCOSIM[0], "-c", AS_NOBODY, "slurm", *PLACE],
        env=cluster.environment,
        capture_output=True,
        text=True,
        timeout=SOON_S,
        cwd="/",
    )
    assert done.returncode == 2, done.stderr
    assert "may not change the jobs of others, which mode place needs" in done.stderr
    assert done.stderr.count("\n") == 1
    assert shown(cluster) == before
