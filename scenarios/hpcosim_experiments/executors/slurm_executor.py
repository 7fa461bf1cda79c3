"""Executor of tasks as Slurm jobs.

Functions, tasks and results are pickled in a folder of the user, as submitit does: whoever can
write there can run code as the user.
"""

from __future__ import annotations

import io
import logging
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_experiments.executors.calls import (
    ONE_THREAD,
    FilesInPlace,
    environment,
    packed,
    packed_outcome,
    set_environment,
    unpacked_outcome,
)
from hpcosim_experiments.executors.interface import (
    MAX_TRIES,
    Done,
    Executor,
    ExecutorError,
    Slurm,
    WaitingTasks,
)

# Submission, state and cancellation of Slurm jobs, through submitit.

COMMAND_TIMEOUT_S = 60.0
PROGRAMS = ("sbatch", "squeue", "scancel", "scontrol")
LIST = ("squeue", "--noheader", "--array", "--format=%i")


LENGTH_BYTES = 8  # of the length of a record, big-endian, before the record


class SlurmJobs:
    """The jobs of an executor.

    Raises:
        ExecutorError: submitit is not installed, or this machine has no Slurm.
    """

    def __init__(self, settings: Slurm, folder: Path) -> None:
        try:
            submitit = import_module("submitit")
        except ImportError:
            raise ExecutorError(
                "the Slurm executor needs the extra slurm: pip install 'hpcosim[slurm]'"
            ) from None
        self._on_slurm = settings.cluster == "slurm"
        if self._on_slurm and (missing := [each for each in PROGRAMS if not shutil.which(each)]):
            raise ExecutorError(
                f"this machine has no Slurm: {', '.join(missing)} not found on PATH; run the "
                "command on a login node of the cluster"
            )
        logging.getLogger("submitit").setLevel(logging.CRITICAL)
        self._processes: list[Any] = []
        self._executor: Any = submitit.AutoExecutor(folder, cluster=settings.cluster)
        self._executor.update_parameters(**_parameters(settings))

    def submit(self, elements: Sequence[Element]) -> list[Any]:
        """Submit elements as an array; return the submitit job of each.

        Raises:
            ExecutorError: Slurm does not accept the array, or does not answer.
        """
        try:
            # submitit prints what sbatch says, and raises it too
            with environment(ONE_THREAD), redirect_stderr(io.StringIO()):
                jobs = list(self._executor.map_array(run_element, elements))
        except OSError:
            raise
        except Exception as error:  # submitit raises what it finds in the output of sbatch
            why = " ".join(str(error).split()) or type(error).__name__
            raise ExecutorError(f"Slurm does not accept the jobs: {why}") from None
        if not self._on_slurm:
            self._processes += jobs
        return jobs

    def present(self, jobs: Iterable[Any]) -> set[str] | None:
        """Return the identifiers of the jobs that wait or run; None: Slurm does not answer."""
        jobs = list(jobs)
        if not self._on_slurm:
            return {job.job_id for job in jobs if not job.done()}
        arrays = sorted({job.job_id.partition("_")[0] for job in jobs})
        listed = _output(*LIST, f"--jobs={','.join(arrays)}")
        return None if listed is None else set(listed.split())

    def end(self, job: Any) -> str:
        """Return how a job has ended, such as TIMEOUT, and where its log is."""
        state = ""
        if self._on_slurm:
            shown = _output("scontrol", "--oneliner", "show", "job", job.job_id) or ""
            found = re.search(r"\bJobState=(\w+)", shown)
            state = f" as {found[1]}" if found else ""
        return f"its Slurm job {job.job_id} ended{state} without a result; see {job.paths.stderr}"

    def cancel(self, jobs: Iterable[Any]) -> None:
        """Cancel jobs."""
        jobs = list(jobs)
        if not self._on_slurm:
            for job in jobs:
                job.cancel(check=False)
        elif jobs:
            _output("scancel", *sorted({job.job_id for job in jobs}))

    def close(self) -> None:
        """Wait for the end of processes on this machine."""
        while any(not job.done() for job in self._processes):
            time.sleep(0.02)


def _parameters(settings: Slurm) -> dict[str, Any]:
    """Return the parameters of submitit."""
    exports = [f"export {name}={value}" for name, value in ONE_THREAD.items()]
    wanted = {
        "name": "hpcosim",
        "timeout_min": settings.time_min,
        "slurm_partition": settings.partition,
        "slurm_mem": None if settings.memory_mb is None else f"{settings.memory_mb}M",
        "slurm_array_parallelism": settings.workers or settings.array_size,
        "slurm_setup": [*settings.setup, *exports],
        "slurm_use_srun": False,  # a job step has no use for a single process
    }
    return {name: value for name, value in wanted.items() if value is not None}


def _output(*command: str) -> str | None:
    """Return the output of a command; None: Slurm does not answer."""
    try:
        done = subprocess.run(  # noqa: S603 (no shell)
            command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode and "Invalid job id" not in done.stderr:  # a job that ended is forgotten
        return None
    return done.stdout


MIN_POLL_S, MAX_POLL_S = 0.1, 5.0  # between looks at the files of outcomes
STATE_EVERY_S = 5.0  # between calls of squeue
GRACE_S = 10.0  # for a shared file system to show the outcomes of a job that has ended
WARN_AFTER_S = 60.0  # without an answer of Slurm
SILENCE_S = 600.0  # after which a Slurm that does not answer is an error


@contextmanager
def open_slurm(settings: Slurm, folders: Mapping[str, Path]) -> Iterator[Executor]:
    """Open an executor of tasks as Slurm jobs.

    The folder of the jobs is removed at the end, unless a job was lost: it has the logs.

    Args:
        settings: parameters of the jobs.
        folders: environment variables that name folders of input files.

    Raises:
        ExecutorError: submitit is not installed, this machine has no Slurm, or the folder is not
            writable.
    """
    try:
        settings.folder.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=settings.folder)).absolute()
    except OSError as error:
        why = error.strerror or error
        raise ExecutorError(f"{settings.folder}: cannot create the folder of jobs: {why}") from None
    executor = None
    try:
        executor = SlurmExecutor(settings, folder, folders)
        yield executor
    finally:
        if executor is not None:
            executor.close()
        if executor is None or not executor.lost:
            _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder; the last elements may still write their logs into it."""
    until_s = time.monotonic() + GRACE_S
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists() or time.monotonic() > until_s:
            return
        time.sleep(MIN_POLL_S)


class ArrayElement:
    """An array element, as the driver sees it.

    Attributes:
        missing: positions of the tasks without an outcome, in the order of execution.
        started: position of the last task that has started.
        gone_s: time at which the job was first seen to be over.
    """

    def __init__(self, job: Any, element: Element) -> None:
        self.job = job
        self._results, self._offset = element.results, 0
        self.missing = dict.fromkeys(position for position, _ in element.tasks)
        self.started: int | None = None
        self.gone_s: float | None = None

    def outcomes(self) -> Iterator[tuple[int, bytes]]:
        """Yield the new outcomes with the positions of their tasks."""
        for record, end in new_records(self._results, self._offset):
            self._offset = end
            self.started = record.position
            if record.outcome is not None and record.position in self.missing:
                del self.missing[record.position]
                yield record.position, record.outcome

    def suspects(self) -> list[int]:
        """Return the tasks that may be the cause of the loss of the element."""
        return [self.started] if self.started in self.missing else list(self.missing)


class SlurmExecutor:
    """Executor of tasks as elements of Slurm's job arrays.

    Args:
        settings: parameters of the jobs.
        folder: folder for scripts, logs and results, on a shared file system.
        folders: environment variables that name folders of input files.

    Attributes:
        workers: largest number of elements of an array that run at a time.
        lost: whether a job was lost.
    """

    def __init__(self, settings: Slurm, folder: Path, folders: Mapping[str, Path]) -> None:
        self.workers = min(settings.workers or settings.array_size, settings.array_size)
        self.lost = False
        self._size, self._folder, self._folders = settings.array_size, folder, dict(folders)
        self._jobs = SlurmJobs(settings, folder)
        self._submitted = 0
        self._elements: list[ArrayElement] = []

    def run(self, function: Callable[..., Any], tasks: Sequence[Any]) -> Iterator[Done[Any]]:
        """Run tasks, see `Executor.run`.

        Raises:
            ExecutorError: Slurm does not accept the jobs, or does not answer any more.
        """
        waiting = WaitingTasks(len(tasks))
        call, watch = packed(function), StateWatch(self._jobs)
        try:
            pause_s = MIN_POLL_S
            while self._submit(call, tasks, waiting) or self._elements:
                found = list(self._collect())
                for position, outcome in found:
                    yield Done(position, *unpacked_outcome(outcome))
                for element in watch.lost(self._elements):
                    yield from self._given_up(element, waiting)
                self._elements = [each for each in self._elements if each.missing]
                pause_s = MIN_POLL_S if found else min(2 * pause_s, MAX_POLL_S)
                if self._elements:
                    time.sleep(pause_s)
        finally:
            self.stop()

    def stop(self) -> None:
        """Cancel all jobs."""
        self._jobs.cancel(element.job for element in self._elements)
        self._elements = []

    def close(self) -> None:
        """Cancel all jobs, and end the use of submitit."""
        self.stop()
        self._jobs.close()

    def _submit(self, function: bytes, tasks: Sequence[Any], waiting: WaitingTasks) -> bool:
        """Submit the tasks that wait as an array; return whether there are any."""
        positions = list(iter(waiting.take, None))
        if not positions:
            return False
        count = min(self._size, len(positions))
        elements = []
        for number in range(count):
            chunk = [(position, packed(tasks[position])) for position in positions[number::count]]
            results = self._folder / f"outcomes-{self._submitted}-{number}"
            place = (Path.cwd(), self._folders, tuple(sys.path))
            elements.append(Element(function, chunk, results, *place))
        self._submitted += 1
        jobs = self._jobs.submit(elements)
        self._elements += map(ArrayElement, jobs, elements)
        return True

    def _collect(self) -> Iterator[tuple[int, bytes]]:
        for element in self._elements:
            yield from element.outcomes()

    def _given_up(self, element: ArrayElement, waiting: WaitingTasks) -> Iterator[Done[Any]]:
        """Put the tasks of a lost element back; yield those that have had their last try."""
        self.lost = True
        end, suspects = self._jobs.end(element.job), element.suspects()
        self._jobs.cancel([element.job])  # should it run after all
        for position in element.missing:
            if position not in suspects:
                waiting.put_back(position)
            elif not waiting.run_again(position):
                yield Done(position, None, f"{end}; tried {MAX_TRIES} times")
        element.missing.clear()


class StateWatch:
    """Finds the elements whose jobs are over without all outcomes."""

    def __init__(self, jobs: SlurmJobs) -> None:
        self._jobs = jobs
        self._asked_s = self._answered_s = time.monotonic()
        self._warned = False

    def lost(self, elements: Iterable[ArrayElement]) -> list[ArrayElement]:
        """Return the elements that are lost; ask Slurm if it is time to.

        Raises:
            ExecutorError: Slurm has not answered for `SILENCE_S`.
        """
        left = [element for element in elements if element.missing]
        now_s = time.monotonic()
        if not left or now_s - self._asked_s < STATE_EVERY_S:
            return []
        self._asked_s = now_s
        present = self._jobs.present(element.job for element in left)
        if present is None:
            self._report_silence(time.monotonic() - self._answered_s)
            return []
        self._answered_s = now_s
        for element in left:
            if element.job.job_id in present:
                element.gone_s = None
            elif element.gone_s is None:
                element.gone_s = now_s
        return [each for each in left if each.gone_s is not None and now_s - each.gone_s >= GRACE_S]

    def _report_silence(self, silent_s: float) -> None:
        """Warn once that Slurm does not answer; give up after `SILENCE_S`."""
        if silent_s > SILENCE_S:
            raise ExecutorError(f"Slurm has not answered squeue for {SILENCE_S:g} s")
        if silent_s > WARN_AFTER_S and not self._warned:
            self._warned = True
            what = (
                f"Slurm has not answered squeue for {silent_s:.0f} s; waiting for it for up to "
                f"{SILENCE_S:g} s"
            )
            warnings.warn(what, stacklevel=2)


class Element(NamedTuple):
    """The work of an array element."""

    function: bytes
    tasks: Sequence[tuple[int, bytes]]
    results: Path
    folder: Path
    folders: dict[str, Path]
    path: tuple[str, ...]


class Record(NamedTuple):
    """A line of the protocol of an element.

    Attributes:
        position: position of a task.
        outcome: its packed outcome; None: the task has started.
    """

    position: int
    outcome: bytes | None


def run_element(element: Element) -> None:
    """Run the tasks of an element in their order, and write their outcomes.

    If Slurm has put the job back into its queue, the tasks with an outcome do not run again.
    """
    _leave_signals_to_slurm()
    sys.path += [folder for folder in element.path if folder not in sys.path]
    files = FilesInPlace(element.folder)
    set_environment(element.folders, files)
    completed = _resumed(element.results)
    with element.results.open("ab", buffering=0) as file:
        for position, task in element.tasks:
            if position in completed:
                continue
            file.write(_framed(Record(position, None)))
            outcome = packed_outcome(element.function, task, files)
            file.write(_framed(Record(position, outcome)))
            os.fsync(file.fileno())


def new_records(path: Path, offset: int) -> Iterator[tuple[Record, int]]:
    """Yield the complete records of a file from an offset, each with the offset of its end.

    Args:
        path: file of outcomes; it may not exist yet.
        offset: number of bytes that have been read.
    """
    try:
        with path.open("rb") as file:
            file.seek(offset)
            content = file.read()
    except FileNotFoundError:
        return
    at = 0
    while len(content) - at >= LENGTH_BYTES:
        start = at + LENGTH_BYTES
        at = start + int.from_bytes(content[at:start])
        if at > len(content):
            return
        yield Record(*pickle.loads(content[start:at])), offset + at  # noqa: S301 (of the user)


def _resumed(path: Path) -> set[int]:
    """Remove an incomplete record from a file; return the positions of completed tasks."""
    records = list(new_records(path, 0))
    if path.exists():
        os.truncate(path, records[-1][1] if records else 0)
    return {record.position for record, _ in records if record.outcome is not None}


def _framed(record: Record) -> bytes:
    content = packed(tuple(record))
    return len(content).to_bytes(LENGTH_BYTES) + content


def _leave_signals_to_slurm() -> None:
    """Undo submitit's handlers: one raises an exception in the task before the time limit."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
