"""A twin that follows a real Slurm of this host."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from hpcosim_slurm.tools import Tools, environment
from hpcosim_twin.cluster.follow import Follower, FollowSettings, differences
from hpcosim_twin.cluster.read_only import is_read_only
from hpcosim_twin.cluster.sources import LiveSource
from support.live_forecasts import planning_cluster
from support.processes import eventually
from support.slurm_cluster import SlurmCluster

PROGRAMS = ("squeue", "scontrol", "sacct", "sshare", "sacctmgr", "scancel", "sbatch", "sinfo")
SETTINGS = FollowSettings(poll_s=0.2, check_s=0.5, learn_s=3600.0)


def logged_programs(folder: Path, log: Path) -> None:
    """Write programs that note their arguments and run those of Slurm."""
    for name in PROGRAMS:
        found = shutil.which(name)
        assert found is not None
        path = folder / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> {log}\nexec {found} "$@"\n')
        path.chmod(0o755)


def is_the_controllers(source: LiveSource, follower: Follower) -> bool:
    """Return whether the picture is that of the controller, between two of its changes."""
    follower.step()
    assert follower.snapshot is not None
    return not differences(follower.snapshot.observation.state, source.read())


def has_checked(follower: Follower, count: int) -> bool:
    """Return whether the picture has been compared with a number of full readings."""
    follower.step()
    return follower.counts.checks >= count


def change_something(
    cluster: SlurmCluster, generator: np.random.Generator, jobs: list[int]
) -> None:
    """Do what users and operators do."""
    action = int(generator.integers(6))
    if action == 0 and jobs:
        cluster.run("scancel", str(jobs[int(generator.integers(len(jobs)))]))
    elif action == 1:
        node = f"node{generator.integers(4)}"
        drained = "drain" in cluster.run("sinfo", "-h", "-n", node, "-o", "%T")
        state = "resume" if drained else "drain"
        cluster.run("scontrol", "update", f"nodename={node}", f"state={state}", "reason=test")
    else:
        options = (f"--nodes={generator.integers(1, 4)}", "--ntasks-per-node=1", "--time=5")
        jobs.append(cluster.submit(*options, sleep_s=float(generator.integers(1, 4))))


@pytest.mark.slow
def test_a_real_cluster_is_followed_over_restarts_of_the_controller_and_the_twin(
    tmp_path: Path,
) -> None:
    """The picture is the controller's after each change, and only reading commands are run."""
    log, programs, path = tmp_path / "log", tmp_path / "bin", tmp_path / "state.json"
    programs.mkdir()
    logged_programs(programs, log)
    generator, jobs = np.random.default_rng(1), list[int]()
    with planning_cluster() as cluster:
        variables = {**cluster.environment, "PATH": f"{programs}:{os.environ['PATH']}"}
        source = LiveSource(Tools(environment=environment(variables), timeout_s=5.0))
        follower = Follower(source, SETTINGS, path)
        for _ in range(15):
            change_something(cluster, generator, jobs)
            eventually(lambda: is_the_controllers(source, follower), within_s=20.0)
        eventually(lambda: has_checked(follower, 3), within_s=20.0)
        cluster.end("slurmctld", signal.SIGKILL)
        follower.step()
        assert follower.failure
        assert follower.snapshot is not None
        cluster.start("slurmctld")
        eventually(lambda: is_the_controllers(source, follower), within_s=30.0)
        follower.save()
        for _ in range(3):
            change_something(cluster, generator, jobs)
        again = Follower(source, SETTINGS, path)
        assert again.snapshot is not None
        for _ in range(5):
            eventually(lambda: is_the_controllers(source, again), within_s=20.0)
            change_something(cluster, generator, jobs)
        assert not follower.counts.differences + again.counts.differences
        assert len(again.snapshot.observation.history) > 0
    commands = {tuple(line.split()) for line in log.read_text().splitlines()}
    assert {each[0] for each in commands} >= {"squeue", "scontrol"}
    assert [each for each in commands if not is_read_only(each)] == []


@pytest.mark.slow
def test_a_follower_that_runs_ends_when_it_is_told() -> None:
    """It polls in a thread until it is over."""
    with planning_cluster() as cluster:
        source = LiveSource(Tools(environment=environment(cluster.environment)))
        follower, over = Follower(source, SETTINGS), threading.Event()
        thread = threading.Thread(target=follower.run, args=(over,))
        thread.start()
        job = cluster.submit("--nodes=1", sleep_s=60.0)
        eventually(
            lambda: follower.snapshot and job in follower.snapshot.observation.state.jobs,
            within_s=20.0,
        )
        over.set()
        thread.join(10.0)
        assert not thread.is_alive()
