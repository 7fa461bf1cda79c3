"""The parts that studies share: runs, rows, measures, and trainings."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from hpcosim_experiments.executors import IN_THIS_PROCESS, Local
from hpcosim_experiments.statistics.rows import Row, read_rows
from hpcosim_papers.studies.agents import in_parallel, keep_best, train_all
from hpcosim_papers.studies.study import (
    Request,
    Study,
    StudyError,
    carry_out,
    change,
    only,
    plan,
    simulate,
    simulate_again,
)
from hpcosim_scenarios.errors import RunError
from hpcosim_sim.record.run_record import RunRecord
from hpcosim_workloads.table import JobTable

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


EXPERIMENT = """
name: tiny
scenario: tiny.yaml
axes:
  nodes: {path: platform.nodes.0.count, values: [2, 3]}
  scheduler: [fcfs, easy]
"""


@pytest.fixture
def experiment(tiny: Path) -> Path:
    """Return an experiment of four runs."""
    path = tiny.with_name("tiny-experiment.yaml")
    path.write_text(EXPERIMENT)
    return path


def test_a_run_has_the_metrics_of_its_scenario(tiny: Path) -> None:
    """The wait of the second job equals a hand calculation, also with an override."""
    assert simulate(tiny).metrics["mean_wait_s"] == 250
    assert simulate(tiny, "easy", {"platform.nodes.0.count": 3}).metrics["mean_wait_s"] == 0


def test_a_job_left_incomplete_is_an_error(tiny: Path) -> None:
    """The message names the scenario and the number of completed jobs."""
    tiny.write_text(TINY.replace("run_s: 300", "run_s: 300, requested_s: 60"))
    with pytest.raises(RunError, match=r"tiny: only 1 of 2 jobs completed under fcfs"):
        simulate(tiny, overrides={"kill_at_walltime": True})


def test_a_run_of_an_experiment_can_be_simulated_again(experiment: Path) -> None:
    """It has the metrics of the stored result, and the schedule."""
    run = plan(Study(experiment, (), {}, {})).runs[0]
    again = simulate_again(run)
    assert again.metrics["mean_wait_s"] == 250
    assert list(again.simulation.recording.end_s) == [600, 900]


def test_a_study_writes_its_files(experiment: Path, tmp_path: Path) -> None:
    """Known rows precede those of runs in the results table, summary and figures."""
    study = Study(
        experiment,
        ("name", "nodes", "mean_wait_s", "twice"),
        {"summary.md": lambda rows: ",".join(row["name"] for row in rows)},
        {"figure.png": lambda path, rows: path.touch()},
        described=lambda run: {"name": str(run.labels["scheduler"]).upper()},
        arranged=lambda rows: rows[::-1],
        changed=only(lambda labels: labels["scheduler"] == "fcfs"),
        measures=twice,
    )
    out = tmp_path / "out"
    known = {"name": "known", "nodes": 3, "mean_wait_s": 1 / 3, "twice": None}
    carry_out(study, Request("tiny", out, executor=IN_THIS_PROCESS), [known])
    assert (out / "results.csv").read_text().splitlines() == [
        "name,nodes,mean_wait_s,twice",
        "known,3,0.3333333333,",
        "FCFS,3,0,4",
        "FCFS,2,250,4",
    ]
    assert (out / "summary.md").read_text() == "known,FCFS,FCFS"
    assert (out / "figure.png").exists()


def twice(record: RunRecord, jobs: JobTable) -> dict[str, float]:
    """Return a metric of a run: twice the number of its jobs."""
    return {"twice": len(record.recording) + len(jobs)}


def test_stored_runs_are_not_repeated(experiment: Path, tmp_path: Path) -> None:
    """A second start takes the stored results, unless it is forced."""
    said: list[str] = []
    request = Request("tiny", tmp_path / "out", executor=IN_THIS_PROCESS, say=said.append)
    study = Study(experiment, (), {}, {})
    rows = carry_out(study, request)
    assert carry_out(study, request) == rows
    assert carry_out(study, request._replace(force=True)) == rows
    assert ["4 stored results are used" in each for each in said] == [False, True, False]


def test_a_run_that_leaves_jobs_is_an_error(experiment: Path, tiny: Path, tmp_path: Path) -> None:
    """The message names the run and the number of completed jobs."""
    tiny.write_text(TINY.replace("run_s: 300", "run_s: 300, requested_s: 60"))
    study = Study(experiment, (), {}, {}, overrides={"kill_at_walltime": True})
    with pytest.raises(RunError, match="2, fcfs: only 1 of 2 jobs completed"):
        carry_out(study, Request("tiny", tmp_path / "out", executor=IN_THIS_PROCESS))


def test_a_failed_run_is_an_error(experiment: Path, tmp_path: Path) -> None:
    """The message has the number of failed runs, the first one and its error."""
    experiment.with_name("broken.py").write_text("def decide(view): raise ValueError('lost')")
    experiment.write_text(EXPERIMENT.replace("easy", "broken.py:decide"))
    study = Study(experiment, (), {}, {})
    with pytest.raises(RunError, match=r"2 runs failed, .* 2, broken.py:decide: .*lost"):
        carry_out(study, Request("tiny", tmp_path / "out", executor=IN_THIS_PROCESS))


@pytest.mark.slow
def test_processes_do_not_change_results(experiment: Path, tmp_path: Path) -> None:
    """This process and two others give the same rows in the same order."""
    study = Study(experiment, (), {}, {})
    here = carry_out(study, Request("tiny", tmp_path / "a", executor=IN_THIS_PROCESS))
    assert carry_out(study, Request("tiny", tmp_path / "b", executor=Local(workers=2))) == here


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
