"""The check of a results folder before a run, and the files that a new run replaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcosim_batsim.csv_files import files_of
from hpcosim_batsim.results import outcome_of
from hpcosim_sim.errors import ResultsError, ResultsFolderError
from hpcosim_sim.record.folder import OWN_FILES, prepare
from hpcosim_sim.record.results import Run, write_results
from hpcosim_sim.record.run_record import RunRecord
from support.simulating import cluster_of, jobs_of, simulate

RUN = Run(hpcosim="0", scenario="small", scheduler="fcfs", seed=0)


def record() -> RunRecord:
    """Return the record of a run of one job."""
    return simulate(cluster_of(1), jobs_of((0.0, 5.0, 1))).record()


@pytest.mark.parametrize("where", ["new", "a/b/new", "empty"])
def test_a_folder_that_is_missing_or_empty_is_accepted(tmp_path: Path, where: str) -> None:
    """The check leaves no trace."""
    (tmp_path / "empty").mkdir()
    prepare(tmp_path / where)
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
    assert not list((tmp_path / "empty").iterdir())


def test_a_folder_with_files_is_refused_unless_forced(tmp_path: Path) -> None:
    """The error names the options, and `force` deletes nothing before new results exist."""
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ResultsFolderError, match=r"is not empty.*--out.*--force"):
        prepare(tmp_path)
    prepare(tmp_path, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("where", ["file", "file/out", "file/a/out"])
def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path, where: str) -> None:
    """A file is refused with and without `force`."""
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ResultsFolderError, match=r"expected a results folder; .*file is a file"):
        prepare(tmp_path / where, force=True)


@pytest.mark.parametrize("where", ["/proc/hpcosim/out", "nul\0", "x" * 300])
def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, where: str) -> None:
    """The error has the reason of the operating system."""
    with pytest.raises(ResultsFolderError, match=r"cannot be written here: .+"):
        prepare(tmp_path / where / "out")


def test_new_results_remove_stale_pictures_and_no_other_files(tmp_path: Path) -> None:
    """Files with names that hpcosim gives are of the earlier run; others belong to the user."""
    for name in ("schedule.png", "schedule.svg", "plan.json", "out_jobs.csv", "notes.txt"):
        (tmp_path / name).write_text("old")
    write_results(tmp_path, record(), RUN)
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {
        "jobs.csv",
        "metrics.json",
        "nodes.csv",
        "notes.txt",
        "run.json",
        "schedule.csv",
    }


def test_every_file_of_batsim_s_format_is_known_as_ours() -> None:
    """Files of Batsim's format are known, so a run without that format removes them."""
    assert files_of(outcome_of(record())).keys() <= OWN_FILES


def test_an_error_at_the_end_of_a_run_has_the_metrics(tmp_path: Path) -> None:
    """The error has the metrics, so that a command can print them."""
    (tmp_path / "run.json").mkdir()
    with pytest.raises(ResultsError) as caught:
        write_results(tmp_path, record(), RUN)
    assert caught.value.metrics is not None
    assert caught.value.metrics["jobs_completed"] == 1
