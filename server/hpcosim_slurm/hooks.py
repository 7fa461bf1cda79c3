"""Slurm's programs tell of changes by a FIFO: the bridge's end, and what they add to a state."""

from __future__ import annotations

import os
import re
import select
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from hpcosim_slurm.errors import SlurmError
from hpcosim_slurm.state import ClusterState

NOTIFY = Path(__file__).with_name("notify.sh")
"""The program that rings: `notify.sh FIFO EVENT TEXT`."""

_CAPACITY = 1 << 16  # bytes of a FIFO: see pipe(7)

HOOK_S = 5.0
"""Longest wait for the hook of a job that was requeued, s: Slurm runs it after the requeue.

On a machine with a load of 20 it took over 1 s."""

_ENDED = re.compile(r"([0-9]{1,10}) ([A-Z_]{1,30})")


@dataclass(frozen=True, slots=True)
class Ring:
    """A line of a hook.

    Attributes:
        event: such as `started`, `ended`, `suspend` or `resume`.
        text: such as the number of a job.
    """

    event: str
    text: str


class Bell:
    """A FIFO that Slurm's programs write to.

    The user of slurmctld must be able to write to it. Whoever can write can make the bridge look at
    the cluster, and name a failed node as the cause of a requeue.

    Args:
        path: the FIFO. It is created, and removed by `close`. One that a killed bridge has left is
            used again.

    Raises:
        SlurmError: it cannot be created, or the path is something else.
    """

    def __init__(self, path: Path, mode: int = 0o600) -> None:
        self.path = path
        try:
            if not path.is_fifo():
                os.mkfifo(path, mode)
            # Open for writing too, so that it does not end when a hook closes it.
            self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW)
        except FileExistsError:
            raise SlurmError(f"{path}: expected a FIFO or no file; remove it") from None
        except OSError as error:
            raise SlurmError(f"{path}: cannot create a FIFO: {error.strerror}") from None
        if not stat.S_ISFIFO(os.fstat(self._descriptor).st_mode):
            os.close(self._descriptor)
            raise SlurmError(f"{path}: expected a FIFO or no file; remove it")

    def fileno(self) -> int:
        """Return the file descriptor, for a selector."""
        return self._descriptor

    def wait(self, timeout_s: float) -> list[Ring]:
        """Wait for lines.

        Returns:
            The lines; empty: none came in time.
        """
        poll = select.poll()  # unlike `select`, for descriptors of any number
        poll.register(self, select.POLLIN)
        poll.poll(1000.0 * timeout_s)
        return self.rings()

    def rings(self) -> list[Ring]:
        """Return the lines that have come since the last call, without waiting."""
        try:
            content = os.read(self._descriptor, _CAPACITY)
        except BlockingIOError:
            return []
        lines = content.decode(errors="replace").splitlines()
        found = ("".join(c if c.isprintable() else "?" for c in line) for line in lines)
        return [Ring(event, text) for event, _, text in (line.partition(" ") for line in found)]

    def close(self) -> None:
        """Remove the FIFO."""
        self.path.unlink(missing_ok=True)
        os.close(self._descriptor)

    def __enter__(self) -> Bell:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class HookReader:
    """Reads the state of a cluster, and adds what hooks have said.

    Args:
        bell: where the hooks write. `ended.sh` of `scenarios/slurm` writes the number of a job and
            its state.
    """

    def __init__(self, read: Callable[[], ClusterState], bell: Bell) -> None:
        self._read = read
        self._bell = bell
        self._ended: dict[int, str] = {}  # states that hooks said of jobs whose runs ended
        self._ran: set[int] = set()  # jobs that ran at the last look

    def wait(self, timeout_s: float) -> bool:
        """Wait until a hook rings, at most for a time; return whether one has rung."""
        rings = self._bell.wait(timeout_s)
        for ring in rings:
            said = _ENDED.fullmatch(ring.text) if ring.event == "ended" else None
            if said is not None:
                self._ended[int(said[1])] = said[2]
        return bool(rings)

    def read(self) -> ClusterState:
        """Return the state of the cluster.

        Raises:
            SlurmError: it cannot be read.
        """
        before = set(self._ended)
        state = self._read()
        waiting = {job.id for job in state.jobs.values() if job.state == "pending"}
        ending = {job.id for job in state.jobs.values() if job.state == "completing"}
        running = {job.id for job in state.jobs.values() if job.nodes and job.state != "over"}
        until_s = time.monotonic() + HOOK_S
        while (left_s := until_s - time.monotonic()) > 0.0:
            if self._ran & waiting <= self._ended.keys():
                break
            self.wait(left_s)
        self._ran = running
        over = before - waiting - ending  # of earlier runs
        self._ended = {job: word for job, word in self._ended.items() if job not in over}
        lost = [job for job in waiting if self._ended.get(job) == "NODE_FAIL"]
        if not lost:
            return state
        marked = {job: replace(state.jobs[job], lost_node=True) for job in lost}
        return replace(state, jobs={**state.jobs, **marked})
