"""The parts that studies share: runs, rows, measures, and trainings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from hpcosim_experiments.statistics.rows import Row, read_rows
from hpcosim_scenarios.errors import RunError, ScenarioError
from hpcosim_studies.agents import keep_best, train_all
from hpcosim_studies.errors import StudyError
from hpcosim_studies.measures import change
from hpcosim_studies.pool import in_parallel
from hpcosim_studies.runs import StudyRun, metrics_of, run_all
from hpcosim_studies.study import Study, carry_out

TINY = """
name: tiny
platform:
  nodes:
    - count: 2
      processors: [{cores: 1, static_w: 100, dynamic_w: 0}]
workload:
  inline:
    - {job_id: 1, submit_s: 0, run_s: 600, cores: 2}
    - {job_id: 2, submit_s: 100, run_s: 300, cores: 1}
scheduler: {name: fcfs}
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Return a scenario with two jobs on two nodes."""
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return path


def test_a_run_has_the_metrics_of_its_scenario(tiny: Path) -> None:
    """The wait of the second job equals a hand calculation."""
    assert metrics_of(StudyRun(tiny, {}))["mean_wait_s"] == 250


def test_overrides_reach_into_lists(tiny: Path) -> None:
    """An override of the node count removes the wait."""
    run = StudyRun(tiny, {}, overrides={"platform.nodes.0.count": 3})
    assert metrics_of(run)["mean_wait_s"] == 0


@pytest.mark.parametrize("field", ["platform.nodes.1.count", "platform.nodes.first.count"])
def test_an_override_of_no_place_is_an_error(tiny: Path, field: str) -> None:
    """An override of a missing list element or field is an error."""
    with pytest.raises(ScenarioError, match=rf"{field}.*expected a position"):
        metrics_of(StudyRun(tiny, {}, overrides={field: 1}))


def test_a_job_left_incomplete_is_an_error(tiny: Path) -> None:
    """The message names the scenario and the number of completed jobs."""
    tiny.write_text(TINY.replace("run_s: 300", "run_s: 300, requested_s: 60"))
    run = StudyRun(tiny, {}, overrides={"kill_at_walltime": True})
    with pytest.raises(RunError, match=r"tiny.yaml: only 1 of 2 jobs completed under fcfs"):
        metrics_of(run)


def test_equal_runs_are_simulated_once(tiny: Path) -> None:
    """Runs that differ only in labels share their metrics."""
    done = []

    def measured(run: StudyRun) -> Mapping[str, float]:
        done.append(run)
        return {"value": float(len(done))}

    runs = [
        StudyRun(tiny, {"name": "a"}, overrides={"seed": 1, "name": "x"}),
        StudyRun(tiny, {"name": "b"}, overrides={"name": "x", "seed": 1}),
        StudyRun(tiny, {"name": "c"}, scheduler="easy"),
    ]
    assert run_all(runs, 1, measured=measured) == [
        {"name": "a", "value": 1.0},
        {"name": "b", "value": 1.0},
        {"name": "c", "value": 2.0},
    ]


@pytest.mark.slow
def test_processes_do_not_change_results(tiny: Path) -> None:
    """One process and two give the same rows in the same order."""
    runs = [
        StudyRun(tiny, {"count": n}, overrides={"platform.nodes.0.count": n}) for n in (2, 3, 4)
    ]
    assert run_all(runs, 2) == run_all(runs, 1)


@pytest.mark.slow
def test_a_process_has_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes use one thread for linear algebra; this process is unchanged."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert in_parallel(environment, ["OMP_NUM_THREADS"] * 2, workers=2) == ["1", "1"]
    assert environment("OMP_NUM_THREADS") is None


def environment(name: str) -> str | None:
    """Return an environment variable of the current process."""
    return os.environ.get(name)


@pytest.mark.slow
def test_a_killed_process_is_an_error() -> None:
    """The message names the study and its progress."""
    with pytest.raises(
        StudyError, match=r"tiny: after 0 of 2 tasks: task . of 2 .* ended with exit"
    ):
        in_parallel(killed, [1, 1], workers=2, title="tiny")


def killed(status: int) -> None:
    """End the current process."""
    os._exit(status)


def test_a_study_writes_its_files(tiny: Path, tmp_path: Path) -> None:
    """Known rows precede those of runs in the results table, summary and figures."""
    study = Study(
        "tiny",
        [StudyRun(tiny, {"name": "run", "seed": None})],
        ("name", "seed", "mean_wait_s"),
        {"summary.md": lambda rows: ",".join(row["name"] for row in rows)},
        {"figure.png": lambda path, rows: path.touch()},
    )
    carry_out(study, tmp_path, 1, [{"name": "known", "seed": 3, "mean_wait_s": 1 / 3}])
    assert (tmp_path / "results.csv").read_text().splitlines() == [
        "name,seed,mean_wait_s",
        "known,3,0.3333333333",
        "run,,250",
    ]
    assert (tmp_path / "summary.md").read_text() == "known,run"
    assert (tmp_path / "figure.png").exists()


def test_change_is_relative_to_a_base() -> None:
    """A change is in percent, and has no value for a base of 0."""
    assert change(50.0, 100.0) == -50.0
    assert change(1.0, 0.0) != change(1.0, 0.0)


class Task(NamedTuple):
    """A training of nothing."""

    name: str


def train(task: Task, folder: Path, score: float) -> list[Row]:
    """Write the files of an empty training."""
    folder.mkdir(exist_ok=True)
    (folder / "weights").write_text(task.name)
    return [{"name": task.name, "score": score}]


def test_a_training_that_is_complete_is_not_repeated(tmp_path: Path) -> None:
    """A completed training keeps its row; an incomplete one starts again."""
    tasks = [Task("a-0"), Task("a-1")]
    columns = ("name", "score")
    train_all(tasks[:1], tmp_path, partial(train, score=1.0), columns, workers=1)
    rows = train_all(tasks, tmp_path, partial(train, score=2.0), columns, workers=1)
    assert rows == [{"name": "a-0", "score": 1}, {"name": "a-1", "score": 2}]
    assert read_rows(tmp_path / "agents.csv") == rows
    (tmp_path / "a-0" / "agents.csv").unlink()
    again = train_all(tasks, tmp_path, partial(train, score=3.0), columns, workers=1)
    assert [row["score"] for row in again] == [3, 2]


def test_the_best_training_is_kept(tmp_path: Path) -> None:
    """The training with the lowest score is kept."""
    folders = [tmp_path / "a-0", tmp_path / "a-1"]
    for folder in folders:
        train(Task(folder.name), folder, 0.0)
    scores = {"a-0": 2.0, "a-1": 1.0}
    keep_best(folders, "weights", tmp_path / "a", lambda folder: scores[folder.name])
    assert (tmp_path / "a").read_text() == "a-1"
