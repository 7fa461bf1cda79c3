"""Executor of processes on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import connection
from pathlib import Path
from typing import Any

from hpcosim_experiments.executors.calls import (
    ONE_THREAD,
    ChildProcess,
    FilesInPlace,
    outcome_of,
    packed,
    packed_outcome,
    set_environment,
    unpacked_outcome,
)
from hpcosim_experiments.executors.interface import (
    MAX_TRIES,
    Done,
    Executor,
    Local,
    WaitingTasks,
    cores,
)


@contextmanager
def open_local(settings: Local, folders: Mapping[str, Path]) -> Iterator[Executor]:
    """Open an executor of processes on this machine, or of this process."""
    files = FilesInPlace(Path.cwd())
    if settings.workers == 0:
        set_environment(folders, files)
        yield InThisProcess(files)
        return
    pool = WorkerPool(settings.workers or cores(), files, folders)
    try:
        yield pool
    finally:
        pool.stop()


class InThisProcess:
    """Executor that runs the tasks in this process, one after another."""

    workers = 1

    def __init__(self, files: FilesInPlace) -> None:
        self._files = files

    def run(self, function: Callable[..., Any], tasks: Sequence[Any]) -> Iterator[Done[Any]]:
        """Run tasks, see `Executor.run`."""
        for index, task in enumerate(tasks):
            yield Done(index, *outcome_of(function, task, self._files))


class WorkerPool:
    """Executor of worker processes, which start when they are needed.

    Each worker has one task at a time. A worker that dies therefore costs one task, which the
    executor knows, and 10,000 tasks need no more memory than the running ones.
    """

    def __init__(self, workers: int, files: FilesInPlace, folders: Mapping[str, Path]) -> None:
        self.workers = workers
        self._context = (files, dict(folders))
        self._idle: list[ChildProcess] = []
        self._running: dict[ChildProcess, int] = {}

    def run(self, function: Callable[..., Any], tasks: Sequence[Any]) -> Iterator[Done[Any]]:
        """Run tasks, see `Executor.run`."""
        waiting = WaitingTasks(len(tasks))
        call = packed(function)
        try:
            self._assign(call, tasks, waiting)
            while self._running:
                for worker in self._ready():
                    done = self._received(worker, waiting)
                    self._assign(call, tasks, waiting)
                    if done is not None:
                        yield done
        finally:  # the caller wants no more outcomes, or is interrupted
            for worker in self._running:
                worker.stop()
            self._running.clear()

    def stop(self) -> None:
        """Stop all workers at once."""
        for worker in [*self._idle, *self._running]:
            worker.stop()
        self._idle.clear()
        self._running.clear()

    def _assign(self, function: bytes, tasks: Sequence[Any], waiting: WaitingTasks) -> None:
        while len(self._running) < self.workers and (index := waiting.take()) is not None:
            task = packed(tasks[index])
            worker = (
                self._idle.pop() if self._idle else ChildProcess(_serve, self._context, ONE_THREAD)
            )
            self._running[worker] = index
            with suppress(OSError):  # the process has ended; `_received` notices
                worker.connection.send((function, task))

    def _ready(self) -> list[ChildProcess]:
        """Wait for workers that have an outcome or have ended."""
        owners = {sign: worker for worker in self._running for sign in worker.signs()}
        ready: list[Any] = connection.wait(list(owners))
        return list(dict.fromkeys(owners[sign] for sign in ready))

    def _received(self, worker: ChildProcess, waiting: WaitingTasks) -> Done[Any] | None:
        if worker.starts():
            return None
        index = self._running[worker]
        outcome = worker.receive()
        del self._running[worker]
        if outcome is not None:
            self._idle.append(worker)
            return Done(index, *unpacked_outcome(outcome))
        end = worker.stop()
        if waiting.run_again(index):
            return None
        return Done(index, None, f"its worker process {end}; tried {MAX_TRIES} times")


def _serve(calls: connection.Connection, files: FilesInPlace, folders: dict[str, Path]) -> None:
    """Run tasks until the parent closes the connection."""
    set_environment(folders, files)
    while True:
        function, task = calls.recv()
        calls.send(packed_outcome(function, task, files))
