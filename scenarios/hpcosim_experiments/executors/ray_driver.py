"""The driver of a Ray cluster, in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_experiments.executors.calls import ONE_THREAD
from hpcosim_experiments.executors.child_process import KILLED
from hpcosim_experiments.executors.interface import MAX_TRIES, ExecutorError, WaitingTasks
from hpcosim_experiments.executors.ray_node import installed_version
from hpcosim_experiments.executors.settings import Ray, cores
from hpcosim_experiments.executors.shipped_files import packed as packed_files

CHECK_EVERY_S = 5.0  # between checks of the number of CPUs

EXPECTED = "expected the address of a head node, such as 10.0.0.1:6379"


class Ready(NamedTuple):
    """The cluster answers.

    Attributes:
        workers: number of tasks that can run at a time.
    """

    workers: int


class Failed(NamedTuple):
    """The cluster cannot run tasks.

    Attributes:
        why: the reason, in one line.
    """

    why: str


class Finished(NamedTuple):
    """A task has been completed.

    Attributes:
        index: position of the task.
        outcome: its packed outcome.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index
    outcome: bytes


class Lost(NamedTuple):
    """A task has been given up.

    Attributes:
        index: position of the task.
        error: how its workers were lost.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index
    error: str


class End(NamedTuple):
    """All tasks are over."""


def serve(
    calls: Connection,
    settings: Ray,
    log: Path,
    files: Sequence[Path],
    folders: dict[str, Path],
) -> None:
    """Connect to a cluster and run tasks until the parent closes the connection.

    Args:
        calls: connection to the parent.
        settings: the cluster.
        log: file for all that Ray prints.
        files: input files.
        folders: environment variables that name folders of input files.
    """
    signal.signal(signal.SIGTERM, _end)
    with log.open("ab") as output:
        for descriptor in (1, 2):
            os.dup2(output.fileno(), descriptor)
    try:
        driver = RayDriver(calls, settings, files, folders)
        calls.send(Ready(driver.workers()))
        while True:
            function, tasks = calls.recv()
            driver.run(function, tasks)
            calls.send(End())
    except (EOFError, ConnectionError) as error:
        if str(error):  # of Ray; those of the pipe have no text
            calls.send(Failed(_line(error)))
    except Exception as error:
        calls.send(Failed(_line(error)))
    finally:
        _shut_down()


class RayDriver:
    """Runs tasks on a Ray cluster and reports their outcomes.

    Args:
        calls: connection to the parent.
        settings: the cluster.
        files: input files.
        folders: environment variables that name folders of input files.
    """

    def __init__(
        self, calls: Connection, settings: Ray, files: Sequence[Path], folders: dict[str, Path]
    ) -> None:
        from hpcosim_experiments.executors import ray_worker

        if settings.address is not None:
            _find(settings.address, settings.timeout_s)
        ray: Any = import_module("ray")

        archive = packed_files(files)
        self._calls, self._settings, self._ray = calls, settings, ray
        if settings.address is None:
            count = settings.workers or cores()
            ray.init(address="local", num_cpus=count, include_dashboard=False, log_to_driver=False)
        else:
            ray.init(address=settings.address, log_to_driver=False)
        self._place = (
            (archive.digest, archive.folder, [ray.put(archive.content)]),
            {name: str(folder) for name, folder in folders.items()},
            installed_version(),
        )
        ray.cloudpickle.register_pickle_by_value(ray_worker)
        self._remote = ray.remote(num_cpus=1, max_retries=0, runtime_env={"env_vars": ONE_THREAD})(
            ray_worker.run_task
        )
        self._cpus, self._checked_s = self._count_cpus(), time.monotonic()

    def workers(self) -> int:
        """Return the number of tasks that can run at a time."""
        return self._settings.workers or max(self._cpus, 1)

    def run(self, function: bytes, tasks: Sequence[bytes]) -> None:
        """Run tasks; send a message for each.

        Args:
            function: the pickled function.
            tasks: the pickled tasks.

        Raises:
            ExecutorError: the cluster has no CPUs, or a node cannot run tasks of hpcosim.
        """
        waiting = WaitingTasks(len(tasks))
        running: dict[Any, int] = {}
        call = self._ray.put(function)
        while True:
            while len(running) < self.workers() and (index := waiting.take()) is not None:
                reference = self._remote.remote(call, tasks[index], *self._place)
                running[reference] = index
            if not running:
                return
            for reference in self._ready(list(running)):
                self._report(reference, running.pop(reference), waiting)

    def _ready(self, running: list[Any]) -> list[Any]:
        """Wait for completed tasks.

        Raises:
            ExecutorError: the cluster has had no CPU for the timeout of the settings.
        """
        since_s = time.monotonic()
        while True:
            ready, _ = self._ray.wait(running, num_returns=1, timeout=CHECK_EVERY_S)
            now_s = time.monotonic()
            if now_s - self._checked_s >= CHECK_EVERY_S:
                self._cpus, self._checked_s = self._count_cpus(), now_s
            if ready:
                return list(ready)
            if self._cpus:
                since_s = now_s
            elif now_s - since_s > self._settings.timeout_s:
                raise ExecutorError("the nodes of the cluster are gone: it has no CPUs left")

    def _report(self, reference: Any, index: int, waiting: WaitingTasks) -> None:
        try:
            outcome = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)  # an exception of `run_task` itself
            if cause is not None and not isinstance(cause, self._ray.exceptions.RayError):
                raise cause from None
            if not waiting.run_again(index):
                self._calls.send(Lost(index, f"{_loss(error)}; tried {MAX_TRIES} times"))
            return
        if isinstance(outcome, str):
            raise ExecutorError(outcome)
        self._calls.send(Finished(index, outcome))

    def _count_cpus(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 0))


def _end(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(1)


def _find(address: str, timeout_s: float) -> None:
    """Check that a head node accepts connections; Ray itself looks for it for a minute.

    Args:
        address: `HOST:PORT`; other addresses are left to Ray.
        timeout_s: timeout of the connection, s.

    Raises:
        ExecutorError: there is no such host, or nothing listens at the port.
    """
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout_s).close()
    except (OSError, OverflowError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ExecutorError(f"cannot connect: {why}; {EXPECTED}") from None


def _shut_down() -> None:
    if (ray := sys.modules.get("ray")) is not None:
        ray.shutdown()


def _loss(error: Exception) -> str:
    """Return how a worker was lost."""
    match type(error).__name__:
        case "WorkerCrashedError":
            return f"its Ray worker was killed{KILLED}"
        case "OutOfMemoryError":
            return "memory of the node of its Ray worker ran out"
        case "NodeDiedError":
            return "the node of its Ray worker is gone"
    return f"its Ray worker was lost: {_line(error)}"


def _line(error: Exception) -> str:
    """Return the first line of an error, or all of an error of this package."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return " ".join(lines if isinstance(error, ExecutorError) else lines[:1])
