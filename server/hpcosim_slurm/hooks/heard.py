"""What hooks say and polling cannot see: runs that ended because a node failed.

Slurm shows a job that was requeued in the same way, whatever the cause.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace

from hpcosim_slurm.hooks.bell import Bell
from hpcosim_slurm.state import ClusterState

HOOK_S = 5.0
"""Longest wait for the hook of a job that was requeued, s: Slurm runs it after the requeue.

On a machine with a load of 20 it took over 1 s."""

_ENDED = re.compile(r"([0-9]{1,10}) ([A-Z_]{1,30})")


class Heard:
    """Reads the state of a cluster, and adds what hooks have said.

    Args:
        read: reads the state.
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
