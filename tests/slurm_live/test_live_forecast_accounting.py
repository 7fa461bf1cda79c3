"""Forecasts with the accounting of a real slurmdbd and MariaDB on this host."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcosim_twin.cluster.observation import Observation, read_observation
from support.live_forecasts import forecast
from support.processes import eventually
from support.slurm_cluster import SOON_S, SlurmCluster, skip_without_slurmdbd, slurm_cluster

ACCOUNTS = """
add account physics Cluster=hpcosim Fairshare=3
add account optics parent=physics Cluster=hpcosim Fairshare=2
add user daemon account=physics Fairshare=4
add user bin account=optics,physics
add qos high Priority=100 MaxJobsPerUser=1
modify user where name=daemon set qos+=high
"""
PLAN = (
    "PriorityType=priority/multifactor",
    "PriorityWeightFairshare=10000",
    "PriorityWeightQOS=1000",
)


def submit(cluster: SlurmCluster, user: str, account: str, *options: str, sleep_s: float) -> int:
    """Submit a job of a user."""
    owner = (f"--uid={user}", f"--gid={user}", f"--account={account}")
    return cluster.submit(*owner, "--time=5", *options, sleep_s=sleep_s)


def observed(cluster: SlurmCluster, folder: Path) -> Observation:
    """Return what a forecast reads of a cluster."""
    path = folder / "queue.json"
    forecast(cluster, "--futures", "2", "--save", str(path))
    return read_observation(path)


def is_accounted(cluster: SlurmCluster, jobs: list[int]) -> bool:
    """Return whether slurmdbd knows the ends of jobs."""
    numbers = ",".join(map(str, jobs))
    command = ("sacct", "-X", "-n", "-P", "-a", "-j", numbers, "--format=JobIDRaw,State")
    rows = cluster.run(*command).split()
    return sorted(rows) == sorted(f"{job}|COMPLETED" for job in jobs)


@pytest.mark.slow
def test_history_shares_and_usage_are_those_of_the_accounting(tmp_path: Path) -> None:
    """Of several users and accounts, with a QOS that one of them has in addition."""
    skip_without_slurmdbd()
    lines = [option for line in PLAN for option in ("--add", line)]
    options = ("--nodes", "2", "--cpus", "2", "--scheduler", "backfill")
    with slurm_cluster("--accounting", *options, *lines) as cluster:
        for line in ACCOUNTS.strip().splitlines():
            cluster.run("sacctmgr", "--immediate", *line.split())
        ended = [
            submit(cluster, "daemon", "physics", sleep_s=2),
            submit(cluster, "bin", "optics", "--ntasks=2", sleep_s=1),
        ]
        eventually(lambda: is_accounted(cluster, ended), within_s=SOON_S)
        running = submit(cluster, "bin", "physics", "--nodes=2", "--exclusive", sleep_s=600)
        cluster.wait_for(running, "RUNNING")
        first = submit(cluster, "daemon", "physics", "--qos=high", "--ntasks=2", sleep_s=1)
        second = submit(cluster, "bin", "optics", "--nodes=2", "--exclusive", sleep_s=1)
        seen = observed(cluster, tmp_path)
        starts = {each["job_id"]: each["median_s"] for each in forecast(cluster)["jobs"]}
    past = {number: job for number, job in seen.state.jobs.items() if job.state == "over"}
    assert set(past) == set(ended)
    assert {job.account for job in past.values()} == {"physics", "optics"}
    history = {job.user: job for job in seen.history}
    assert set(history) == {"daemon", "bin"}
    for job in history.values():
        assert job.requested_s == 300.0
        assert job.run_s is not None
        assert 1.0 <= job.run_s <= 10.0
    assert {"daemon", "bin"} <= set(seen.usage_s["physics"])
    assert seen.usage_s["physics"]["daemon"] > 0.0
    accounts = seen.settings["accounts"]
    assert accounts["optics"]["parent"] == "physics"
    assert accounts["physics"]["users"]["daemon"] == {
        "shares": 4,
        "qos": ["normal", "high"],
        "default": True,
    }
    assert seen.settings["qos"]["high"] == {
        "priority": 100,
        "grace_time_s": 0.0,
        "usage_factor": 1.0,
        "max_jobs_per_user": 1,
    }
    assert None not in starts.values()
    assert starts[first] < starts[second]
    assert not cluster.folder.exists()
