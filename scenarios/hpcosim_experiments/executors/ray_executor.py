"""Executor of tasks on a Ray cluster.

Ray's driver is a child process. Ray prints messages on standard output, ends its process when the
cluster is gone, and may wait for a cluster without limit; none of this reaches the user's process.
"""

from __future__ import annotations

import math
import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hpcosim_experiments.executors.calls import packed, unpacked_outcome
from hpcosim_experiments.executors.child_process import ChildProcess
from hpcosim_experiments.executors.interface import Done, Executor, ExecutorError
from hpcosim_experiments.executors.ray_driver import (
    EXPECTED,
    End,
    Failed,
    Finished,
    Lost,
    Ready,
    serve,
)
from hpcosim_experiments.executors.settings import Ray

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


@contextmanager
def ray_executor(
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
        files: input files.
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
        """Return the next message of the driver, of one of some kinds.

        Raises:
            ExecutorError: the driver has failed or ended.
        """
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
