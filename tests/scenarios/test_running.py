"""Runs of a scenario: the results folder, and what a caller gets when writing fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcosim_protocol import Hello, encode
from hpcosim_scenarios.running import Transport
from hpcosim_scenarios.running.compare import compare_schedulers
from hpcosim_scenarios.running.library import Library
from hpcosim_scenarios.running.run import run_scenario
from hpcosim_scenarios.running.serving import serve_scenarios
from hpcosim_scenarios.running.status import StatusReader
from hpcosim_server.errors import BindError
from hpcosim_server.service import status
from hpcosim_server.service.service import Service
from hpcosim_server.service.socket_loop import ServeOptions
from hpcosim_server.service.status import Progress
from hpcosim_sim.errors import ResultsError, ResultsFolderError

TEXT = """name: small
platform: {nodes: [{count: 2, processors: [{cores: 4, static_w: 10, dynamic_w: 1}]}]}
workload: {synthetic: {model: poisson, jobs: 5, mean_interarrival_s: 300, cores: [1, 4]}}
scheduler: {name: easy}
"""
NOWHERE = ServeOptions("tcp://nowhere")
TRANSPORTS = ["inproc", pytest.param("ipc", marks=pytest.mark.slow)]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The file of a small scenario."""
    file = tmp_path / "small.yaml"
    file.write_text(TEXT)
    return file


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_results_are_replaced_only_by_force(
    small: Path, tmp_path: Path, transport: Transport
) -> None:
    """A second run into the same folder is refused before it starts."""
    out = tmp_path / "out"
    metrics, _ = run_scenario(small, transport=transport, out=out)
    (out / "schedule.png").write_text("old")
    with pytest.raises(ResultsFolderError):
        run_scenario(small, transport=transport, out=out)
    assert run_scenario(small, transport=transport, out=out, force=True) == (metrics, out)
    assert not (out / "schedule.png").exists()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_results_that_cannot_be_written_leave_the_metrics(
    small: Path, tmp_path: Path, transport: Transport
) -> None:
    """The error at the end of a run has its metrics."""
    (tmp_path / "out" / "run.json").mkdir(parents=True)
    with pytest.raises(ResultsError, match=r"run\.json is a folder") as caught:
        run_scenario(small, transport=transport, out=tmp_path / "out", force=True)
    assert caught.value.metrics is not None
    assert caught.value.metrics["jobs_completed"] == 5


@pytest.mark.slow
def test_lost_results_are_the_error_if_the_scheduler_is_seen_to_fail_first(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler fails by the reply that says so; the status of the server is read late."""
    read = StatusReader.read

    def late(self: StatusReader, wait_s: float) -> Progress | None:
        return None if wait_s else read(self, wait_s)

    monkeypatch.setattr(StatusReader, "read", late)
    (tmp_path / "out" / "run.json").mkdir(parents=True)
    with pytest.raises(ResultsError, match=r"run\.json is a folder"):
        run_scenario(small, transport="ipc", out=tmp_path / "out", force=True)


def test_a_comparison_checks_all_folders_before_the_first_run(small: Path, tmp_path: Path) -> None:
    """Nothing is written if one of them holds files."""
    (tmp_path / "out" / "easy").mkdir(parents=True)
    (tmp_path / "out" / "easy" / "notes.txt").write_text("mine")
    with pytest.raises(ResultsFolderError):
        compare_schedulers(small, ["fcfs", "easy"], out=tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["easy"]


def test_a_server_checks_its_folder_before_it_listens(small: Path, tmp_path: Path) -> None:
    """The server refuses a folder that holds files, if it would write results into it itself."""
    with pytest.raises(ResultsFolderError, match="not empty"):
        serve_scenarios([small], NOWHERE, out=tmp_path, folder_per_session=False)


def test_a_server_with_a_folder_per_session_accepts_any_folder(small: Path, tmp_path: Path) -> None:
    """The folders of sessions are new, so other files are not replaced."""
    with pytest.raises(BindError):
        serve_scenarios([small], NOWHERE, out=tmp_path)


def test_a_server_logs_the_warnings_of_a_session(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has the warnings that `run.json` records."""
    logged: list[str] = []
    monkeypatch.setattr(status, "log", RecordingLog(logged))
    library = Library([small], {"workload.load": 50.0})
    service = Service(library.open, out=tmp_path / "out")
    service.answer(encode(Hello(versions=[1], client="mine")))
    service.close("the test is over")
    (folder,) = (tmp_path / "out").iterdir()
    assert logged == json.loads((folder / "run.json").read_text())["warnings"] != []


class RecordingLog:
    """A log that keeps warnings of runs and ignores other entries."""

    def __init__(self, warnings: list[str]) -> None:
        self._warnings = warnings

    def warning(self, event: str, *, warning: str, **_: object) -> None:
        """Keep a warning."""
        assert event == "run_warning"
        self._warnings.append(warning)

    def info(self, event: str, **_: object) -> None:
        """Ignore an entry."""
