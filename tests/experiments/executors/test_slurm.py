"""Execution of tasks as Slurm jobs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("submitit", reason="the Slurm executor needs the extra slurm")

from hpcosim_experiments.executors import Done, ExecutorError, Slurm, open_executor, slurm_executor
from hpcosim_experiments.executors.slurm_executor import new_records
from support import executor_tasks as given
from support.processes import eventually
from support.slurm import skip_without_slurm

pytestmark = pytest.mark.slow


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    """Return settings of a real Slurm, with arrays of two elements."""
    skip_without_slurm()
    return Slurm(array_size=2, folder=tmp_path / "jobs")


def queued() -> list[str]:
    """Return the jobs of the cluster that wait or run."""
    command = ["squeue", "--noheader", "--array", "--states=PD,R", "--format=%i"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_a_cancelled_job_runs_again(slurm: Slurm, tmp_path: Path) -> None:
    """The tasks of a job that is cancelled from outside have results."""
    folder = tmp_path / "marks"
    folder.mkdir()

    def cancel_one() -> None:
        eventually(lambda: {path.name[0] for path in folder.iterdir()} == {"0", "1"})
        subprocess.run(["scancel", queued()[0]], check=True)
        (folder / "go").touch()

    killer = threading.Thread(target=cancel_one)
    killer.start()
    with open_executor(slurm) as executor:
        found = sorted(executor.run(given.meet, [(folder, number) for number in range(6)]))
    killer.join()
    assert found == [Done(number, number, "") for number in range(6)]


def test_a_job_that_is_always_cancelled_is_given_up(slurm: Slurm) -> None:
    """The error names the job, how it ended and its log, which is kept."""
    with open_executor(slurm) as executor:
        found = sorted(executor.run(given.cancel_own_job, [1, 0]))
    assert found[1] == Done(1, 0, "")
    assert found[0].error.startswith("its Slurm job ")
    assert "ended as CANCELLED without a result; see " in found[0].error
    assert found[0].error.endswith("tried 3 times")
    assert Path(found[0].error.split("see ")[1].split(";")[0]).exists()


def test_jobs_end_with_the_driver(slurm: Slurm, tmp_path: Path) -> None:
    """SIGINT cancels the array."""
    folder = tmp_path / "marks"
    folder.mkdir()
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    driver = subprocess.Popen(
        [sys.executable, script, slurm.folder, folder],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.DEVNULL,
    )
    eventually(lambda: len(list(folder.iterdir())) == 2)
    driver.send_signal(signal.SIGINT)
    driver.wait(60)
    eventually(lambda: not queued())


DRIVER = """
import sys
from pathlib import Path
from hpcosim_experiments.executors import Slurm, open_executor
from support.executor_tasks import wait_for_ever
if __name__ == "__main__":
    with open_executor(Slurm(array_size=2, folder=Path(sys.argv[1]))) as executor:
        list(executor.run(wait_for_ever, [Path(sys.argv[2])] * 2))
"""


def test_an_unknown_partition_is_an_error(slurm: Slurm, capfd: pytest.CaptureFixture[str]) -> None:
    """The message has Slurm's reason, and nothing else is printed."""
    settings = Slurm(partition="none", folder=slurm.folder)
    with (
        open_executor(settings) as executor,
        pytest.raises(ExecutorError, match=r"Slurm does not accept the jobs: .*invalid partition"),
    ):
        list(executor.run(given.square, [1]))
    assert capfd.readouterr() == ("", "")


def programs(folder: Path, sbatch: str) -> Path:
    """Return a folder with the programs of a Slurm whose controller does not answer.

    Args:
        folder: parent of the folder.
        sbatch: shell commands of `sbatch`.
    """
    found = folder / "programs"
    found.mkdir()
    for name in ("sbatch", "squeue", "scancel", "scontrol", "srun"):
        (found / name).write_text(f"#!/bin/sh\n{sbatch if name == 'sbatch' else 'exit 1'}\n")
        (found / name).chmod(0o755)
    return found


def test_a_rejected_job_prints_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The reason of sbatch is in the error only."""
    broken = "echo 'no such partition' >&2; exit 1"
    monkeypatch.setenv("PATH", str(programs(tmp_path, sbatch=broken)), prepend=os.pathsep)
    with (
        open_executor(Slurm(folder=tmp_path / "jobs")) as executor,
        pytest.raises(ExecutorError, match=r"not accept the jobs: .*no such partition"),
    ):
        list(executor.run(given.square, [1]))
    assert capfd.readouterr() == ("", "")


def test_folders_are_removed_after_success(tmp_path: Path) -> None:
    """Nothing is left of jobs that ran."""
    with open_executor(Slurm(cluster="local", folder=tmp_path)) as executor:
        assert [done.result for done in executor.run(given.square, [3])] == [9]
    assert list(tmp_path.iterdir()) == []


def test_folders_are_removed_while_a_job_writes_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that appears while the folder is removed is removed too."""
    removed: list[Path] = []

    def remove_late(folder: Path, **options: Any) -> None:
        rmtree(folder, **options)
        if not removed:
            folder.mkdir()
            (folder / "late.log").touch()
        removed.append(folder)

    rmtree = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", remove_late)
    with open_executor(Slurm(cluster="local", folder=tmp_path)) as executor:
        assert [done.result for done in executor.run(given.square, [3])] == [9]
    assert list(tmp_path.iterdir()) == []


def test_a_slurm_that_is_gone_is_a_warning_then_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One warning says that the driver waits; the error says for how long it has waited."""
    accepted = "echo Submitted batch job 7"
    monkeypatch.setenv("PATH", str(programs(tmp_path, sbatch=accepted)), prepend=os.pathsep)
    for name, value_s in (("STATE_EVERY_S", 0.0), ("WARN_AFTER_S", 0.2), ("SILENCE_S", 1.0)):
        monkeypatch.setattr(slurm_executor, name, value_s)
    with (
        open_executor(Slurm(folder=tmp_path / "jobs")) as executor,
        pytest.warns(UserWarning, match="Slurm has not answered squeue for") as caught,
        pytest.raises(ExecutorError, match="Slurm has not answered squeue for 1 s"),
    ):
        list(executor.run(given.square, [1]))
    assert len(caught) == 1


def test_a_machine_without_slurm_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the missing programs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        pytest.raises(ExecutorError, match=r"no Slurm: sbatch, squeue, .* not found on PATH; run"),
        open_executor(Slurm(folder=tmp_path)),
    ):
        pass


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    """The message names the folder."""
    (tmp_path / "file").touch()
    with (
        pytest.raises(ExecutorError, match=r"file/jobs: cannot create the folder of jobs"),
        open_executor(Slurm(cluster="local", folder=tmp_path / "file" / "jobs")),
    ):
        pass


def test_incomplete_records_wait_for_their_rest(tmp_path: Path) -> None:
    """A file that is cut anywhere has the records before the cut, and no other."""
    path = tmp_path / "outcomes"
    assert list(new_records(path, 0)) == []
    given.write_records(path, 3)
    content = path.read_bytes()
    whole = list(new_records(path, 0))
    assert [record.position for record, _ in whole] == [0, 0, 1, 1, 2, 2]
    for length in range(len(content)):
        path.write_bytes(content[:length])
        found = list(new_records(path, 0))
        assert found == [pair for pair in whole if pair[1] <= length]
    path.write_bytes(content)
    assert list(new_records(path, whole[2][1])) == whole[3:]


def test_a_requeued_element_continues(tmp_path: Path) -> None:
    """Cut anywhere, a second start of an element gives each task exactly one outcome."""
    path = tmp_path / "outcomes"
    given.write_records(path, 3)
    whole = path.read_bytes()
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        kept = [record for record, _ in new_records(path, 0)]
        given.write_records(path, 3)
        found = [record for record, _ in new_records(path, 0)]
        assert found[: len(kept)] == kept
        assert [record.position for record in found if record.outcome] == [0, 1, 2]
