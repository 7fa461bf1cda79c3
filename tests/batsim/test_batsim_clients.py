"""Unmodified third-party schedulers that speak Batsim's protocol, each in its own process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from hpcosim_batsim.inputs.external_events import parse_intervals
from support.batsim_inputs import delays, write_platform, write_workload
from support.batsim_recording import rows_of
from support.paths import ROOT
from support.processes import SOON_S

HOSTS = 8
JOBS = 40
# Making the environment takes a while, the first time.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@contextmanager
def started(
    said: Path, *command: str | Path, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program with its output in a file, and kill it at the end of the block."""
    with said.open("wb") as file:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=said.parent,  # some of them write files of their own
            env={**os.environ, **environment},
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def run_pybatsim(
    batsim_programs: Path, scheduler: str, folder: Path, *options: str
) -> list[dict[str, str]]:
    """Run a scheduler of pybatsim on delay jobs and return the rows of the jobs."""
    platform = write_platform(folder, HOSTS)
    workload = write_workload(folder, *delays(JOBS, HOSTS, np.random.default_rng(1)))
    return run_on(platform, workload, batsim_programs, scheduler, folder, *options)


def run_on(
    platform: Path,
    workload: Path,
    batsim_programs: Path,
    scheduler: str,
    folder: Path,
    *options: str,
) -> list[dict[str, str]]:
    """Run a scheduler of pybatsim, check both exit statuses, and return the rows of the jobs."""
    address = f"ipc://{folder}/s"
    ours = (sys.executable, "-m", "hpcosim.cli", "batsim", "-p", platform, "-w", workload)
    theirs = (batsim_programs / "pybatsim", scheduler, "-s", address, "-t", "60000", "-v", "error")
    said, trouble = folder / "said", folder / "trouble"
    with (
        started(said, *theirs) as client,
        started(trouble, *ours, "-s", address, "-e", folder / "o", "-q", *options) as server,
    ):
        assert (server.wait(SOON_S), trouble.read_text()) == (0, "")
        assert client.wait(SOON_S) == 0, said.read_text()
    return rows_of(folder / "o_jobs.csv")


@pytest.mark.parametrize("scheduler", ["fillerSched", "easyBackfill", "schedFcfs", "schedFiller"])
def test_scheduler_of_pybatsim_runs_all_jobs(
    batsim_programs: Path, scheduler: str, tmp_path: Path
) -> None:
    """Every job runs for its duration on its number of hosts, one job per host."""
    rows = run_pybatsim(batsim_programs, scheduler, tmp_path)
    assert len(rows) == JOBS
    busy_until_s = [0.0] * HOSTS
    for row in sorted(rows, key=lambda row: float(row["starting_time"])):
        assert row["final_state"] == "COMPLETED_SUCCESSFULLY"
        assert float(row["execution_time"]) == pytest.approx(float(row["profile"][1:]), abs=1e-6)
        hosts = parse_intervals(row["allocated_resources"], HOSTS)
        assert len(hosts) == int(row["requested_number_of_resources"])
        for host in hosts:
            assert busy_until_s[host] <= float(row["starting_time"])
            busy_until_s[host] = float(row["finish_time"])


@pytest.mark.parametrize("scheduler", ["easyBackfill", "schedFcfs", "schedFiller"])
def test_scheduler_of_pybatsim_runs_the_workload_of_the_tutorial(
    batsim_programs: Path, scheduler: str, tmp_path: Path
) -> None:
    """The sample of the tutorial runs with schedulers that cannot start jobs at 0."""
    page = (ROOT / "docs" / "tutorials" / "batsim.md").read_text(encoding="utf-8")
    for name in ("platform.xml", "jobs.json"):
        block = re.search(rf'```\w+ title="{name}"\n(.*?)```', page, re.DOTALL)
        assert block is not None
        (tmp_path / name).write_text(block[1], encoding="utf-8")
    files = (tmp_path / "platform.xml", tmp_path / "jobs.json")
    rows = run_on(*files, batsim_programs, scheduler, tmp_path)
    assert {row["final_state"] for row in rows} == {"COMPLETED_SUCCESSFULLY"}
    if scheduler == "easyBackfill":
        columns = ("job_id", "starting_time", "finish_time", "waiting_time", "allocated_resources")
        assert "\n".join(",".join(row[name] for name in columns) for row in rows) in page


def test_first_come_first_served_by_pybatsim_starts_jobs_in_order(
    batsim_programs: Path, tmp_path: Path
) -> None:
    """The scheduler schedFcfs starts jobs in order of submission."""
    rows = run_pybatsim(batsim_programs, "schedFcfs", tmp_path)
    rows.sort(key=lambda row: (float(row["submission_time"]), f"w0!{row['job_id']}"))
    starts_s = [float(row["starting_time"]) for row in rows]
    assert starts_s == sorted(starts_s)


@pytest.mark.parametrize("scheduler", ["schedFcfs", "schedFiller", "schedEasySjfBackfill"])
def test_decimals_of_submission_times_do_not_change_the_schedule(
    batsim_programs: Path, scheduler: str, tmp_path: Path
) -> None:
    """Submission times with all digits give the mean wait of those with six decimals.

    These schedulers compare the submission time of a job with the time of the message.
    """
    rng = np.random.default_rng(3)
    jobs, profiles = delays(JOBS, HOSTS, rng)
    exact_s = np.sort(1 + rng.uniform(0, 1000, JOBS))
    waits_s = []
    for name, submit_s in (("exact", exact_s), ("rounded", np.round(exact_s, 6))):
        folder = tmp_path / name
        folder.mkdir()
        arrivals = [{**job, "subtime": at} for job, at in zip(jobs, submit_s.tolist(), strict=True)]
        files = write_platform(folder, HOSTS), write_workload(folder, arrivals, profiles)
        rows = run_on(*files, batsim_programs, scheduler, folder)
        waits_s.append(np.mean([float(row["waiting_time"]) for row in rows]))
    assert waits_s[0] == pytest.approx(waits_s[1], abs=1e-6)


def test_backfilling_by_pybatsim_is_the_same_twice(batsim_programs: Path, tmp_path: Path) -> None:
    """The same workload and the same scheduler give the same bytes."""
    first, second = tmp_path / "1", tmp_path / "2"
    for folder in (first, second):
        folder.mkdir()
        run_pybatsim(batsim_programs, "easyBackfill", folder)
    names = sorted(path.name for path in first.glob("o_*.csv"))
    assert names == ["o_jobs.csv", "o_machine_states.csv", "o_schedule.csv"]
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_random_scheduler_of_pybatsim_shares_hosts(batsim_programs: Path, tmp_path: Path) -> None:
    """With compute sharing randomSched starts every job at once."""
    rows = run_pybatsim(batsim_programs, "randomSched", tmp_path, "--enable-compute-sharing")
    assert len(rows) == JOBS
    assert {row["final_state"] for row in rows} == {"COMPLETED_SUCCESSFULLY"}
    assert {float(row["waiting_time"]) for row in rows} == {0.0}


def test_simulator_of_batsim_py_switches_hosts_off(batsim_programs: Path, tmp_path: Path) -> None:
    """The simulator batsim-py starts our `batsim`, runs all jobs and switches idle hosts off."""
    platform = write_platform(tmp_path, HOSTS, energy=True)
    workload = write_workload(tmp_path, *delays(JOBS, HOSTS, np.random.default_rng(2)))
    ours = (sys.executable, "-m", "hpcosim.cli", "batsim", "--install", tmp_path / "bin")
    subprocess.run([str(part) for part in ours], check=True, capture_output=True)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    script = ROOT / "tests" / "support" / "batsim_py_switch_off.py"
    theirs = (batsim_programs / "python", script, platform, workload)
    said = tmp_path / "said"
    with started(said, *theirs, PATH=path, TMPDIR=str(tmp_path)) as client:
        assert client.wait(SOON_S) == 0, said.read_text()
    assert len(said.read_text().splitlines()[-1].split()) == JOBS, said.read_text()
    assert len(rows_of(tmp_path / "batsim_jobs.csv")) == JOBS
    (schedule,) = rows_of(tmp_path / "batsim_schedule.csv")
    assert float(schedule["time_sleeping"]) > 0
    assert float(schedule["time_switching_on"]) > 0
    pstates = {row["new_pstate"] for row in rows_of(tmp_path / "batsim_pstate_changes.csv")}
    assert pstates == {"0", "2", "-1", "-2"}
