"""Experiments that are killed, stopped, or run twice at a time."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hpcosim_experiments.executors import Local
from support.commands import HPCOSIM
from support.experiments import carry_out, write
from support.full_disk import files_up_to
from support.processes import SOON_S, alive, eventually

pytest.importorskip("pyarrow", reason="needs pyarrow")
pytestmark = pytest.mark.slow

TEXT = """name: study
scenario: small.yaml
set: {workload.synthetic.jobs: 300}
axes:
  scheduler: [fcfs, easy, conservative]
  seed: [1, 2, 3, 4, 5, 6, 7, 8]
jobs: true
report: {figures: []}
"""
RUNS = 24


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `hpcosim experiment` with two workers; what is left is killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def begin(path: Path, out: Path, **options: object) -> subprocess.Popen[str]:
        words = [*HPCOSIM, "experiment", str(path), "--out", str(out), "-j", "2"]
        process: subprocess.Popen[str] = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,  # type: ignore[call-overload]
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def stored(out: Path) -> list[Path]:
    """Return the stored results."""
    return list(out.glob("runs/??/*.json"))


def tables(out: Path) -> dict[str, bytes]:
    """Return the content of the tables."""
    return {path.name: path.read_bytes() for path in out.glob("*.parquet")}


def children(pid: int) -> list[int]:
    """Return the child processes of a process."""
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_killed_experiment_goes_on_where_it_was(
    tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """After kill -9 no stored result is lost, and the tables are those of an undisturbed run."""
    path, out = write(tmp_path, TEXT), tmp_path / "out"
    for least in (2, 9):
        process = start(path, out)
        eventually(lambda least=least: len(stored(out)) >= least)  # type: ignore[misc]
        workers = children(process.pid)
        process.kill()
        process.wait()
        eventually(lambda workers=workers: not any(map(alive, workers)))  # type: ignore[misc]
    before = {file: file.read_bytes() for file in stored(out)}
    assert 9 <= len(before) < RUNS
    assert not tables(out)
    _, said, warned = carry_out(path, out)
    assert f"{len(before)} stored results are used; {RUNS - len(before)} runs" in said[0]
    assert warned == []
    assert {file: file.read_bytes() for file in before} == before
    carry_out(path, tmp_path / "undisturbed")
    assert tables(out) == tables(tmp_path / "undisturbed")


def test_a_stopped_experiment_keeps_its_results(
    tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """SIGTERM ends the command in one line, with all workers."""
    path, out = write(tmp_path, TEXT), tmp_path / "out"
    process = start(path, out)
    eventually(lambda: len(stored(out)) >= 2)
    workers = children(process.pid)
    process.terminate()
    _, err = process.communicate(timeout=SOON_S)
    assert process.returncode == 128 + signal.SIGTERM
    assert err.splitlines()[-2:] == [
        "the stored results are kept; the same command continues",
        "error: stopped by SIGTERM",
    ]
    eventually(lambda: not any(map(alive, workers)))  # the resource tracker ends after its parent
    assert 2 <= len(stored(out)) < RUNS


def test_two_processes_can_share_a_folder(
    tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """Both succeed, and the tables are those of one process."""
    path, out = write(tmp_path, TEXT), tmp_path / "out"
    both = [start(path, out), start(path, out)]
    for process in both:
        _, err = process.communicate(timeout=SOON_S)
        assert process.returncode == 0, err
    carry_out(path, tmp_path / "one", executor=Local(workers=2))
    assert tables(out) == tables(tmp_path / "one")


def test_a_full_disk_is_one_line(
    tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """The command fails at the first result that does not fit, and leaves no half of it."""
    path, out = write(tmp_path, TEXT), tmp_path / "out"
    process = start(path, out, preexec_fn=files_up_to(4500))
    _, err = process.communicate(timeout=SOON_S)
    assert process.returncode == 1
    assert err.splitlines()[-1].startswith(f"error: {out}/runs/")
    assert err.splitlines()[-1].endswith("cannot be written: File too large")
    assert not [file for file in out.glob("runs/*/*") if file.is_file()]
