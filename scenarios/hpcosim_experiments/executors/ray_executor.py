"""Executor of tasks on a Ray cluster.

Ray's driver is a child process. Ray prints messages on standard output, ends its process when the
cluster is gone, and may wait for a cluster without limit; none of this reaches the user's process.
"""

from __future__ import annotations

import math
import os
import secrets
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_experiments.executors.calls import (
    KILLED,
    ONE_THREAD,
    ChildProcess,
    packed,
    unpacked_outcome,
)
from hpcosim_experiments.executors.interface import (
    MAX_TRIES,
    Done,
    Executor,
    ExecutorError,
    Ray,
    WaitingTasks,
    cores,
)
from hpcosim_experiments.executors.shipped_files import installed_version
from hpcosim_experiments.executors.shipped_files import packed as packed_files

QUIET = {"RAY_USAGE_STATS_ENABLED": "0"}
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Makes a cluster of one machine listen on the loopback interface, on every operating system."""

AUTHENTICATION = (
    "; the cluster uses token authentication: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH to "
    "the file of its token (such as ~/.ray/auth_token), for this command as on the nodes"
)
UNAUTHENTICATED = ("Unauthenticated", "no authentication token")
"""Parts of Ray's messages about a missing or wrong token."""

HEAD_LOST = "Failed to connect to GCS"
"""Ray's message when the driver of a running cluster has lost the head node."""

HEAD_GONE = (
    "the head node is gone: it has not answered for {:g} s; start the cluster again (`ray start "
    "--head` on the head node), and repeat the command"
)

RECONNECT = "RAY_gcs_rpc_server_reconnect_timeout_s"
"""Time after which a driver whose head node is gone ends itself, s."""

SHUTDOWN_S = 20.0  # for a cluster that the driver started


CHECK_EVERY_S = 5.0  # between checks of the number of CPUs

EXPECTED = "expected the address of a head node, such as 10.0.0.1:6379"


@contextmanager
def open_ray(
    settings: Ray, files: Sequence[Path], folders: Mapping[str, Path]
) -> Iterator[Executor]:
    """Open an executor of tasks on a Ray cluster.

    Args:
        settings: the cluster.
        files: input files; each node gets them once.
        folders: environment variables that name folders of input files.

    Raises:
        ExecutorError: Ray is not installed, the cluster does not answer, or a file is unreadable.
    """
    if find_spec("ray") is None:
        raise ExecutorError("the Ray executor needs the extra ray: pip install 'hpcosim[ray]'")
    with tempfile.NamedTemporaryFile(prefix="hpcosim-ray-", suffix=".log") as log:
        executor = RayExecutor(settings, Path(log.name), tuple(files), dict(folders))
        try:
            yield executor
        finally:
            executor.stop()


class RayExecutor:
    """Executor of tasks on a Ray cluster. Each task has one CPU and one thread.

    Args:
        settings: the cluster.
        log: file for the output of the driver process.
        folders: environment variables that name folders of input files.

    Attributes:
        workers: largest number of tasks that run at a time, on the nodes that are there now.

    Raises:
        ExecutorError: the cluster does not answer.
    """

    def __init__(
        self, settings: Ray, log: Path, files: tuple[Path, ...], folders: dict[str, Path]
    ) -> None:
        self._log = log
        self._where, self._timeout_s = settings.address or "this machine", settings.timeout_s
        variables = QUIET | {RECONNECT: str(math.ceil(settings.timeout_s))}
        if settings.address is None:
            variables |= LOOPBACK | _own_token() | {"PYTHONPATH": os.pathsep.join(sys.path)}
        self._driver = ChildProcess(serve, (settings, log, files, folders), variables)
        self._open = True
        try:
            self._driver.starts()
            self.workers = self._answer(settings.timeout_s)
        except BaseException:  # an interrupt too
            self.stop(0.0)
            raise

    def run(self, function: Callable[..., Any], tasks: Sequence[Any]) -> Iterator[Done[Any]]:
        """Run tasks, see `Executor.run`.

        Raises:
            ExecutorError: the cluster is gone, or a node cannot run tasks of hpcosim.
        """
        if not self._open:
            raise ExecutorError("this Ray executor has been stopped in the middle of its tasks")
        self._driver.connection.send((packed(function), [packed(task) for task in tasks]))
        completed = False
        try:
            while not isinstance(message := self._received(Finished, Lost, End), End):
                if isinstance(message, Lost):
                    yield Done(message.index, None, message.error)
                else:
                    yield Done(message.index, *unpacked_outcome(message.outcome))
            completed = True
        finally:
            if not completed:  # the caller wants no more outcomes, or is interrupted
                self.stop(terminate=True)

    def stop(self, patience_s: float = SHUTDOWN_S, *, terminate: bool = False) -> str:
        """Stop the driver, and with it all tasks and a cluster that it started.

        Args:
            patience_s: time for an orderly end, s. Without it, agents of a cluster that the driver
                started stay for a minute.
            terminate: interrupt the tasks.
        """
        if not self._open:
            return ""
        self._open = False
        return self._driver.stop(patience_s, terminate=terminate)

    def _answer(self, timeout_s: float) -> int:
        """Return the number of tasks that can run at a time, when the cluster answers."""
        if not self._driver.connection.poll(timeout_s):
            raise ExecutorError(
                f"Ray on {self._where} does not answer within {timeout_s:g} s"
                f"{self._hint() or f'; {EXPECTED}'}"
            )
        ready: Ready = self._received(Ready)
        return ready.workers

    def _received(self, *kinds: type) -> Any:
        """Return the next message of the driver, of one of some kinds."""
        message = self._driver.receive()
        if isinstance(message, kinds):
            return message
        if isinstance(message, Failed):
            self.stop()
            raise ExecutorError(f"Ray on {self._where}: {message.why}{self._hint(message.why)}")
        end = self.stop(1.0)
        if HEAD_LOST in self._log.read_text(errors="replace"):
            raise ExecutorError(f"Ray on {self._where}: {HEAD_GONE.format(self._timeout_s)}")
        raise ExecutorError(f"Ray on {self._where}: the driver {end}{_last_line(self._log)}")

    def _hint(self, why: str = "") -> str:
        """Return what to do if Ray has rejected the user's token."""
        said = why + self._log.read_text(errors="replace")
        return AUTHENTICATION if any(each in said for each in UNAUTHENTICATED) else ""


def _own_token() -> dict[str, str]:
    """Return the variables of a cluster with a token of its own.

    Ray would create a token in the user's home folder, and clusters that the user starts later
    would ask for it.
    """
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    return next((f": {line[:300]}" for line in reversed(lines) if line), "")


class Ready(NamedTuple):
    """The cluster answers."""

    workers: int


class Failed(NamedTuple):
    """The cluster cannot run tasks."""

    why: str


class Finished(NamedTuple):
    """A task has been completed."""

    index: int  # type: ignore[assignment]  # hides tuple.index
    outcome: bytes


class Lost(NamedTuple):
    """A task has been given up."""

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
        settings: the cluster.
        log: file for all that Ray prints.
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
        settings: the cluster.
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
        """Wait for completed tasks."""
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
