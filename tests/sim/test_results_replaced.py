"""Results folders when the writer is killed, fails or is not alone, and when files change later."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hpcosim_batsim.csv_files import files_of
from hpcosim_batsim.results import outcome_of
from hpcosim_sim.errors import ResultsError
from hpcosim_sim.record.folder import LAST, Written, mismatch, write_together
from support.simulating import cluster_of, jobs_of, simulate

STEPS = ("open", "fsync", "rename", "replace", "unlink", "mkdir", "rmdir")
"""Functions of `os` that change the disk; each call is an instant at which a process may die."""

OLD = {"a.csv": "old a", "b.csv": "old b", "gone.csv": "old", LAST: "old seal"}
NEW = {"a.csv": "new a", "b.csv": "new b", "c.csv": "new c", LAST: "new seal"}
NAMES = ("a.csv", "b.csv", "c.csv", "gone.csv", LAST)


class KilledError(BaseException):
    """The process is dead: no later step has an effect."""


class Disk:
    """Counts the steps on the disk; from a given step on, the process is dead or the step fails.

    Args:
        monkeypatch: replaces the functions.
        at: number of the step.
        error: raised by the step `at` alone; None: the process is killed before the step.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, at: int, error: OSError | None = None
    ) -> None:
        self.steps = 0
        self._at, self._error = at, error
        for name in STEPS:
            monkeypatch.setattr(os, name, self._counting(getattr(os, name)))
        monkeypatch.setattr(shutil, "rmtree", self._counting(shutil.rmtree))

    def _counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **named: Any) -> Any:
            self.steps += 1
            if self._error is not None and self.steps == self._at + 1:
                raise self._error
            if self._error is None and self.steps > self._at:
                raise KilledError
            return function(*arguments, **named)

        return step


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files; `gone.csv` is stale."""
    texts = {name: [text] for name, text in files.items()}
    write_together(folder, texts, ("gone.csv", LAST))


def contents(folder: Path) -> dict[str, str]:
    """Return the files of a folder that a reader sees."""
    return {name: (folder / name).read_text() for name in NAMES if (folder / name).exists()}


def outcomes(
    tmp_path: Path, error: Callable[[], OSError] | None, before: dict[str, str]
) -> Iterator[dict[str, str]]:
    """Yield what is left if the writer is interrupted at each step in turn."""
    for at in range(1000):
        folder = tmp_path / str(at) / "out"
        folder.parent.mkdir()
        if before:
            write(folder, before)
        with pytest.MonkeyPatch.context() as patch:
            disk = Disk(patch, at, None if error is None else error())
            with suppress(KilledError, ResultsError):
                write(folder, NEW)
            done = disk.steps <= at
        yield contents(folder)
        if done:
            return
    raise AssertionError("the writer does not end")


def test_a_killed_writer_leaves_old_results_no_seal_or_new_results(tmp_path: Path) -> None:
    """Killed at any step, the folder has no `run.json` beside files of another run."""
    found = list(outcomes(tmp_path, None, OLD))
    assert found[0] == OLD
    assert found[-1] == NEW
    assert all(each in (OLD, NEW) or LAST not in each for each in found)
    assert any(LAST not in each for each in found)


def test_a_killed_writer_of_a_new_folder_leaves_nothing_or_all(tmp_path: Path) -> None:
    """A new folder appears with all files."""
    found = list(outcomes(tmp_path, None, {}))
    assert found[0] == {}
    assert found[-1] == NEW
    assert all(each in ({}, NEW) for each in found)


def test_after_an_error_at_any_step_the_results_are_the_old_or_the_new(tmp_path: Path) -> None:
    """If one step fails, the old files are put back."""
    found = list(outcomes(tmp_path, lambda: OSError(errno.ENOSPC, "No space left"), OLD))
    assert all(each in (OLD, NEW) for each in found)
    assert found.count(OLD) > 5


def test_the_writer_after_a_killed_one_removes_its_draft(tmp_path: Path) -> None:
    """Nothing hidden is left in the folder."""
    folder = tmp_path / "out"
    write(folder, OLD)
    with pytest.MonkeyPatch.context() as patch:
        Disk(patch, 12)
        with pytest.raises(KilledError):
            write(folder, NEW)
    assert any(path.name.startswith(".") for path in folder.iterdir())
    write(folder, NEW)
    assert sorted(path.name for path in folder.iterdir()) == sorted(NEW)


def test_a_second_writer_gets_an_error_and_changes_nothing(tmp_path: Path) -> None:
    """While one process writes into a folder, another one fails with the reason."""
    write(tmp_path / "out", OLD)

    def text() -> Iterator[str]:
        with pytest.raises(ResultsError, match="another process is writing results"):
            write(tmp_path / "out", {"a.csv": "mixed", LAST: "mixed"})
        yield "new a"

    write_together(tmp_path / "out", {"a.csv": text(), LAST: ["new"]}, ("b.csv", "gone.csv"))
    assert contents(tmp_path / "out") == {"a.csv": "new a", LAST: "new"}


def test_a_folder_that_appears_meanwhile_is_an_error(tmp_path: Path) -> None:
    """Of two writers of one new folder the second fails; the results of the first stay."""

    def text() -> Iterator[str]:
        write(tmp_path / "out", OLD)
        yield "new a"

    with pytest.raises(ResultsError, match="another process has created this folder meanwhile"):
        write_together(tmp_path / "out", {"a.csv": text(), LAST: ["new"]})
    assert contents(tmp_path / "out") == OLD


def test_the_lock_file_of_a_dead_writer_is_no_lock(tmp_path: Path) -> None:
    """Only a lock that a process holds counts; writers with another seal are independent."""
    write(tmp_path / "out", OLD)
    (tmp_path / "out" / f".{LAST}.lock").touch()
    other = os.open(tmp_path / "out" / ".other.csv.lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX)
    write(tmp_path / "out", NEW)
    assert contents(tmp_path / "out") == NEW
    os.close(other)


def sealed_folder(folder: Path) -> Written:
    """Write two files and return the contents that the seal has."""
    found: list[Written] = []

    def sealed(written: Written) -> str:
        found.append(written)
        return "seal"

    write_together(folder, {"a.csv": ["1", "2"], "b.csv": ["é"] * 3000}, sealed=sealed)
    return found[0]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: None, ""),
        (lambda folder: (folder / "notes.txt").write_text("mine"), ""),
        (lambda folder: (folder / "a.csv").write_text("13"), "a.csv is not the file that run.json"),
        (lambda folder: (folder / "b.csv").write_text("é"), "expected 6000 bytes with SHA-256 "),
        (lambda folder: (folder / "a.csv").unlink(), "a.csv is missing; run.json lists it with 2"),
        (lambda folder: (folder / "runs.csv").touch(), "runs.csv is not of this run"),
    ],
)
def test_files_that_differ_from_their_checksums_are_named(
    tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    """The first difference is one line."""
    folder = tmp_path / "out"
    written = sealed_folder(folder)
    damage(folder)
    found = mismatch(folder, written, ("runs.csv",))
    assert message in found
    assert bool(found) == bool(message)
    assert "\n" not in found


def test_batsim_s_summary_is_only_there_for_a_complete_run() -> None:
    """A run cut short has no `_schedule.csv`, as a Batsim that was stopped leaves none."""
    simulation = simulate(cluster_of(1), jobs_of((0.0, 5.0, 1)))
    outcome = outcome_of(simulation.record())
    whole, cut = files_of(outcome), files_of(outcome, complete=False)
    assert set(whole) - set(cut) == {"out_schedule.csv"}
