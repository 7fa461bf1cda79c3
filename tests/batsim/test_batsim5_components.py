"""Components of Batsim 5 as shared libraries and processes: `hpcosim batsim5`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support.batsim4_fcfs import Fcfs
from support.batsim5 import FCFS_PY, compile_fcfs, rewrite_for_batsim5
from support.batsim_inputs import delays, write_platform, write_workload
from support.batsim_recording import rows_of
from support.commands import invoke

pytestmark = pytest.mark.slow  # they start processes


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """FCFS as a shared library."""
    return compile_fcfs(tmp_path_factory.mktemp("fcfs"))


@pytest.fixture(scope="session")
def older_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """FCFS as a shared library with the interface before Batsim 5.0."""
    return compile_fcfs(tmp_path_factory.mktemp("fcfs"), flags=True)


@pytest.fixture
def scene(tmp_path: Path) -> list[str]:
    """Return the options of a platform and a workload of Batsim 5; that of Batsim 4 is `4.json`."""
    jobs, profiles = delays(30, 4, np.random.default_rng(5))
    workload = write_workload(tmp_path, jobs, profiles, "4.json")
    rewrite_for_batsim5(workload, tmp_path / "5.json")
    platform = write_platform(tmp_path, 4)
    return ["-p", str(platform), "-w", str(tmp_path / "5.json"), "-e", f"{tmp_path}/out/"]


def columns(path: Path, *names: str) -> list[tuple[str, ...]]:
    """Return columns of the jobs of a run."""
    return [tuple(row[name] for name in names) for row in rows_of(path)]


def fcfs_in_process(folder: Path) -> list[tuple[str, ...]]:
    """Return names, starts, ends and hosts of FCFS on the workload of Batsim 4, by its bridge."""
    from hpcosim_batsim.bridge.bridge import Bridge
    from hpcosim_batsim.bridge.run import BatsimOptions
    from hpcosim_batsim.inputs.platform_xml import read_platform
    from hpcosim_batsim.inputs.workload_json import read_workload
    from hpcosim_batsim.results import results_of

    platform = read_platform(folder / "platform.xml", energy=False)
    bridge = Bridge([read_workload(folder / "4.json", "w0")], platform, BatsimOptions())
    scheduler, message = Fcfs(), json.loads(bridge.first_message())
    while not bridge.ended:
        reply = json.dumps(scheduler.reply(message)).encode()
        message = json.loads(bridge.next_message(reply))
    return [(job.name, f"{job.start_s:f}", f"{job.end_s:f}") for job in results_of(bridge.run).jobs]


def test_a_library_decides_as_the_same_policy_of_batsim_4(
    library: Path, scene: list[str], tmp_path: Path
) -> None:
    """FCFS starts and ends each job as FCFS that speaks the protocol of Batsim 4."""
    done = invoke("batsim5", *scene, "-l", str(library), "", "-q")
    assert (done.status, done.err) == (0, "")
    jobs = tmp_path / "out" / "jobs.csv"
    assert columns(jobs, "job_id", "starting_time", "finish_time") == fcfs_in_process(tmp_path)
    assert columns(jobs, "profile")[0][0].startswith("w0!d")
    summary = json.loads((tmp_path / "out" / "schedule.json").read_text())
    times = [
        float(value) for row in columns(jobs, "submission_time", "finish_time") for value in row
    ]
    assert summary["makespan"] == pytest.approx(max(times) - min(times))
    assert (summary["nb_jobs"], summary["nb_jobs_success"]) == (30, 30)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "jobs.csv",
        "schedule.json",
    ]


def test_a_library_with_the_older_interface(
    library: Path, older_library: Path, scene: list[str], tmp_path: Path
) -> None:
    """The interface is found out, and the results are the same."""
    for made in (library, older_library):
        out = f"{tmp_path}/{made.stem}-"
        done = invoke("batsim5", *scene[:4], "-e", out, "-l", str(made), "", "-q")
        assert (done.status, done.err) == (0, "")
    new, old = (tmp_path / f"{made.stem}-jobs.csv" for made in (library, older_library))
    assert new.read_text() == old.read_text()


@pytest.mark.parametrize("interface", ["hello", "flags"])
def test_a_process_decides(interface: str, scene: list[str], tmp_path: Path) -> None:
    """A process gets its initialization data, and decides as the library."""
    (tmp_path / "init").write_text("init")
    (tmp_path / "fcfs.py").write_text(FCFS_PY)
    address = f"ipc://{tmp_path}/s"
    arguments = [sys.executable, str(tmp_path / "fcfs.py"), address]
    component = subprocess.Popen(arguments + ["flags"] * (interface == "flags"))
    try:
        options = ["-S", address, f"{tmp_path}/init", "--edc-interface", interface]
        done = invoke("batsim5", *scene, *options, "-q")
        assert (done.status, done.err) == (0, "")
        assert component.wait(20) == 0
    finally:
        component.kill()
        component.wait()
    jobs = tmp_path / "out" / "jobs.csv"
    assert columns(jobs, "job_id", "starting_time", "finish_time") == fcfs_in_process(tmp_path)


def test_two_libraries_decide_together(library: Path, scene: list[str], tmp_path: Path) -> None:
    """Both get all events; the second one, which decides the same, starts a job twice."""
    done = invoke("batsim5", *scene, "-l", library, "", "-l", library, "", "-q")
    assert done.status == 1
    assert "ExecuteJobEvent: job w0!0 runs" in done.err
    assert (tmp_path / "out" / "cut_short.txt").exists()


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("crashes", "the library crashed: SIGABRT"),
        ("exits", "the library ended its process with status 4"),
        ("fails", "batsim_edc_take_decisions returned 5; expected 0"),
        ("refuses", "batsim_edc_init returned 3; expected 0"),
        ("no hello", "expected an EDCHelloEvent, got no event"),
        ("garbage", "($): JSON is malformed"),
    ],
)
def test_a_library_that_fails_is_an_error_of_its_run(
    fault: str, error: str, library: Path, scene: list[str]
) -> None:
    """The error has one line; the command goes on."""
    done = invoke("batsim5", *scene, "-l", str(library), fault, "-q")
    assert done.status == 1
    assert error in done.err
    assert done.err.count("\n") == 1


def test_a_configuration_file_has_options(library: Path, scene: list[str], tmp_path: Path) -> None:
    """The command line has precedence over the file."""
    file = tmp_path / "batsim.toml"
    file.write_text(
        f'platform = "{scene[1]}"\nworkload = ["{scene[3]}"]\nquiet = true\n'
        f'edc-library-str = ["{library}", ""]\nexport = "{tmp_path}/wrong/"\nmmax = 4\n'
    )
    done = invoke("batsim5", "-c", str(file), "-e", f"{tmp_path}/x-")
    assert (done.status, done.err) == (0, "")
    assert (tmp_path / "x-jobs.csv").exists()
    assert not (tmp_path / "wrong").exists()


@pytest.mark.parametrize("name", ["batsim-version", "simgrid-version"])
def test_a_configuration_file_has_no_options_that_only_print(name: str, tmp_path: Path) -> None:
    """They are options of the command line."""
    file = tmp_path / "batsim.toml"
    file.write_text(f"{name} = true\n")
    done = invoke("batsim5", "-c", str(file))
    assert done.status == 2
    assert f"there is no option '{name}' for a file" in done.error


def test_traces_are_written_on_request(library: Path, scene: list[str], tmp_path: Path) -> None:
    """Files of machine states, pstates and wall-clock times have options."""
    options = ("--trace-machine-state", "--trace-pstate-changes", "--wall-times")
    done = invoke("batsim5", *scene, "-l", str(library), "", "-q", *options)
    assert (done.status, done.err) == (0, "")
    out = tmp_path / "out"
    assert (out / "pstate_changes.csv").read_text() == "time,machine_id,new_pstate\n0,0-3,0\n"
    assert (out / "machine_states.csv").read_text().endswith(",4,0\n")
    assert json.loads((out / "real_exec_info.json").read_text())["time_in_edc_seconds"] > 0


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ([], "no platform; name a SimGrid platform file with --platform (-p)"),
        (["-p", "x.xml"], "no component; name a library with -l or -L, or an address"),
        (["-E"], "-E is an option of Batsim that is not supported: hpcosim does not simulate"),
        (["--nothing"], "there is no option --nothing; --help lists all options"),
        (["-l", "x.so"], "-l"),
        (["-c", "none.toml"], "--config: none.toml cannot be read: No such file or directory"),
        (["-L", "x.so", "none"], "initialization data: none cannot be read: No such file"),
    ],
)
def test_wrong_usage_is_an_error(options: list[str], error: str) -> None:
    """The error says what to change."""
    done = invoke("batsim5", *options)
    assert done.status == 2
    assert error in done.err
    assert done.err.count("\n") == 1


def test_a_missing_library_is_an_error(scene: list[str]) -> None:
    """It is an error of usage."""
    done = invoke("batsim5", *scene, "-l", "none.so", "", "-q")
    assert done.status == 2
    assert "none.so: no such file; expected a shared library" in done.err


def test_a_file_that_is_no_library_is_an_error(scene: list[str], tmp_path: Path) -> None:
    """The error names the functions that are expected."""
    (tmp_path / "x.so").write_text("x")
    done = invoke("batsim5", *scene, "-l", str(tmp_path / "x.so"), "", "-q")
    assert done.status == 1
    assert "expected a shared library with the functions of batsim_edc.h" in done.err
