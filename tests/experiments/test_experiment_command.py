"""The command `hpcosim experiment`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hpcosim_experiments.runs.task import RunTask, simulate
from support.commands import invoke
from support.experiments import EXPERIMENT, carry_out, write

pytest.importorskip("pyarrow", reason="needs pyarrow")

WRITING = "writing the tables and the report"


@pytest.fixture(autouse=True)
def in_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in a new folder that holds `study.yaml`."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path)


@pytest.mark.slow
def test_an_experiment_writes_tables_and_a_report() -> None:
    """The command prints the files; a second start uses the results."""
    done = invoke("experiment", "study.yaml", "-j", "1")
    assert done.status == 0
    assert done.err == f"study: 8 runs; 8 runs to simulate\n{WRITING}\n"
    files = ["results.parquet", "report.html", "report.md"]
    assert done.out.split() == [f"results/study/{name}" for name in files]
    assert all(Path(name).is_file() for name in done.out.split())
    again = invoke("experiment", "study.yaml")
    assert again.err == (
        f"study: 8 runs; 8 stored results are used; 0 runs to simulate\n{WRITING}\n"
    )


def test_a_dry_run_lists_the_runs_and_writes_nothing() -> None:
    """The table has a row per run; then come the number of runs, jobs, and the time."""
    before = sorted(os.listdir())
    done = invoke("experiment", "study.yaml", "--dry-run")
    assert done.status == 0
    assert done.out.count("to simulate │") == 8
    assert "study: 8 runs; 8 runs to simulate\njobs to simulate: 240\nestimated time: " in done.out
    assert done.out.endswith(
        "from the time per job of 8 samples, each simulated for at most 0.5 s\n"
    )
    assert sorted(os.listdir()) == before


def test_a_dry_run_uses_the_times_of_stored_runs() -> None:
    """The time of new runs comes from the stored runs, if there are some."""
    carry_out(Path("study.yaml"), Path("results/study"))
    write(Path(), EXPERIMENT.replace("[1, 2]", "[1, 2, 3]"))
    done = invoke("experiment", "study.yaml", "--dry-run")
    assert "study: 12 runs; 8 stored results are used; 4 runs to simulate\n" in done.out
    assert done.out.endswith("from the time per job of 8 stored runs\n")


def test_a_dry_run_simulates_samples_with_the_engine_of_the_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The engine depends on the number of jobs of all runs."""
    counts = set()

    def counted(task: RunTask, *more: Any) -> Any:
        counts.add(task.batch_jobs)
        return simulate(task, *more)

    monkeypatch.setattr("hpcosim_experiments.estimate.simulate", counted)
    assert invoke("experiment", "study.yaml", "--dry-run").status == 0
    assert counts == {240}


def test_a_value_of_the_command_line_applies_to_all_runs() -> None:
    """`--set` changes the scenario of every run."""
    done = invoke("experiment", "study.yaml", "--dry-run", "--set", "workload.jobs=[0, 7]")
    assert "jobs to simulate: 56\n" in done.out


@pytest.mark.slow
def test_failed_runs_are_listed_and_give_status_1() -> None:
    """The other results are written."""
    Path("mine.py").write_text("def fails(view):\n    1 / 0\n")
    write(Path(), EXPERIMENT.replace("[fcfs, easy]", "['mine.py:fails', easy]"))
    done = invoke("experiment", "study.yaml", "-j", "1")
    assert done.status == 1
    lines = done.err.splitlines()
    assert lines[:2] == ["study: 8 runs; 8 runs to simulate", WRITING]
    assert lines[2].startswith(
        "error: scheduler=mine.py:fails, load=0.5, seed=1 and 3 other runs: "
    )
    assert len(lines) == 4
    assert lines[2].endswith("mine.py:2: ZeroDivisionError: division by zero")
    assert lines[-1] == "error: 4 of 8 runs failed"
    assert "results/study/report.html" in done.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.yaml"], "nowhere.yaml: no such file or shipped experiment"),
        (["studdy.yaml"], "studdy.yaml: no such file or shipped experiment; did you mean study"),
        (["."], ". is not a regular file; expected an experiment file"),
        (["small.yaml"], "FILE: small.yaml is a scenario: `hpcosim run small.yaml` runs it"),
        (
            ["study.yaml", "--set", "lod=1"],
            "override lod: unknown path 'lod'; did you mean 'load'?",
        ),
        (
            ["study.yaml", "--set", "workload.load=1"],
            "override workload.load: the axis 'load' sets",
        ),
        (["study.yaml", "--set", "workload.cores=1"], "override workload.cores: unknown key"),
        (["study.yaml", "--address", "here:1"], "--address applies only to --executor ray"),
        (["study.yaml", "--format", "xlsx"], "--format"),
    ],
)
def test_bad_input_is_one_line_and_status_2(words: list[str], message: str) -> None:
    """The error is a line on standard error, and nothing is written."""
    done = invoke("experiment", *words)
    assert done.status == 2
    assert message in done.error
    assert sorted(os.listdir()) == ["small.yaml", "study.yaml"]


def test_a_dry_run_shows_the_first_error_of_its_samples() -> None:
    """The error has the labels of its run."""
    Path("mine.py").write_text("def fails(view):\n    1 / 0\n")
    write(Path(), EXPERIMENT.replace("[fcfs, easy]", "['mine.py:fails']"))
    done = invoke("experiment", "study.yaml", "--dry-run")
    assert "unknown; no sample succeeded; the first error: scheduler=mine.py:fails" in done.out
    assert "ZeroDivisionError" in done.out


@pytest.mark.parametrize("words", [[], ["--dry-run"]])
def test_a_folder_with_other_files_is_an_error(words: list[str]) -> None:
    """A dry run checks the output folder as the start does."""
    write(Path())
    Path("mine").mkdir()
    Path("mine/notes.txt").touch()
    done = invoke("experiment", "study.yaml", "--out", "mine", *words)
    assert done.status != 0
    assert "mine: the results folder is not empty; choose another folder with --out" in done.err
    assert invoke("experiment", "study.yaml", "--out", "mine", "--dry-run", "--force").status == 0
