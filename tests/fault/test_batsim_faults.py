"""The bridge to Batsim's schedulers, with schedulers in which something goes wrong."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from hpcosim_batsim.bridge import requester
from hpcosim_batsim.bridge.requester import BatsimTimeouts
from hpcosim_batsim.bridge.run import BatsimOptions
from hpcosim_batsim.errors import RunFailedError
from hpcosim_batsim.run import Inputs, Outputs, run_batsim
from support.batsim_inputs import write_platform, write_workload
from support.fault.batsim import FaultyBatsimScheduler
from support.fault.summary import RUN

HOSTS = 4
SCENES = 5
Run = Callable[[FaultyBatsimScheduler, int], tuple[dict[str, str], str]]


@cache
def jobs_of(scene: int) -> list[dict[str, object]]:
    """Return the jobs of a workload: 3 to 12, some of them submitted together."""
    chance = random.Random(scene)
    return [
        {
            "id": number,
            "subtime": chance.choice((0, 1.5, 10.25, 33.125)) * chance.randint(0, 3),
            "res": chance.randint(1, HOSTS),
            "profile": f"d{chance.randint(1, 3)}",
        }
        for number in range(chance.randint(3, 12))
    ]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a scheduler; returns the files and the error, if any."""
    profiles = {f"d{number}": {"type": "delay", "delay": 7.5 * number} for number in (1, 2, 3)}
    platform = write_platform(tmp_path, HOSTS)

    def run_with(scheduler: FaultyBatsimScheduler, scene: int) -> tuple[dict[str, str], str]:
        monkeypatch.setattr(requester, "Requester", scheduler)
        workload = write_workload(tmp_path, jobs_of(scene), profiles, f"w{scene}.json")
        for path in tmp_path.glob("o_*"):
            path.unlink()
        inputs = Inputs(
            platform=platform,
            workloads=[workload],
            events=None,
            master="master_host",
            roles={},
            mmax=0,
            mmax_workload=False,
        )
        outputs = Outputs(prefix=tmp_path / "o", machine_states=True, wall_times=False)
        error = ""
        try:
            address, timeouts = "tcp://127.0.0.1:9", BatsimTimeouts()
            run_batsim(inputs, BatsimOptions(), address, outputs, timeouts, lambda _: None)
        except RunFailedError as failed:
            error = str(failed)
        return {path.name: path.read_text() for path in tmp_path.glob("o_*")}, error

    return run_with


def undisturbed(run: Run, scene: int) -> dict[str, str]:
    """Return the files of a run in which nothing goes wrong."""
    scheduler = FaultyBatsimScheduler(0, len(jobs_of(scene)), HOSTS)
    scheduler.fault = scheduler.habit = ""
    files, error = run(scheduler, scene)
    assert not error
    return files


def check(
    scheduler: FaultyBatsimScheduler,
    files: dict[str, str],
    error: str,
    expected: dict[str, str],
    scene: int,
) -> None:
    """Check the outcome of a run."""
    rows = list(csv.DictReader(files.get("o_jobs.csv", "").splitlines()))
    ids = [row["job_id"] for row in rows]
    assert len(set(ids)) == len(ids)
    assert set(ids) <= {str(job["id"]) for job in jobs_of(scene)}
    if not scheduler.happened:
        assert (error, scheduler.ended, scheduler.error) == ("", True, None)
        if scheduler.habit != "thinks":
            assert files == expected
        assert len(ids) == len(jobs_of(scene))
    elif scheduler.fault != "sends garbage":  # garbage may happen to be valid
        assert error
    if error and scheduler.fault not in ("dies", "is slow", "sends frames"):
        assert scheduler.ended
        assert scheduler.error is not None
        assert scheduler.error in error
    if scheduler.happened and scheduler.fault in ("goes back", "is out of order"):
        assert "expected a time of at least" in error


@pytest.mark.slow
def test_any_fault_of_a_batsim_scheduler_is_an_error_with_results_so_far(
    run: Run,
    bridges: range,
    pytestconfig: pytest.Config,
    record_property: Callable[[str, object], None],
) -> None:
    """A faulty scheduler ends its run with an error that it is told; others end as usual."""
    expected = {scene: undisturbed(run, scene) for scene in range(SCENES)}
    for seed in bridges:
        scene = seed % SCENES
        scheduler = FaultyBatsimScheduler(seed, len(jobs_of(scene)), HOSTS)
        replay = f"replay: {RUN} tests/fault -k batsim --fault-seed={seed} -s"
        record_property("replay", f"seed {seed}: {replay}")
        files, error = run(scheduler, scene)
        record_property("fault", {"runs": 1, "faults": int(scheduler.happened)})
        what = f"seed {seed}: {scheduler.fault or 'no fault'}, {scheduler.habit or 'no habit'}"
        if pytestconfig.getoption("--fault-seed", default=None) is not None:
            print(what, error)  # noqa: T201 - what the option asks for
        try:
            check(scheduler, files, error, expected[scene], scene)
        except AssertionError as wrong:
            raise AssertionError(f"{what}: {error}\n{replay}\n{wrong}") from wrong
