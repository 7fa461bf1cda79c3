"""Jobs that were suspended by preemption, which go on when their cores are free again.

Source: https://slurm.schedmd.com/preempt.html, PreemptMode=SUSPEND: "The preempted jobs will resume
once the preemptor job completes". Slurm needs the gang scheduler for that; its time slices between
jobs of equal priority are not modelled.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hpcosim_client.job import Ints, Job
from hpcosim_client.view import View
from hpcosim_schedulers.slurm.candidate import Candidate
from hpcosim_schedulers.slurm.node_sets import NodeSet, set_of_mask
from hpcosim_schedulers.slurm.passes import Windows
from hpcosim_schedulers.slurm.windows import EVERYWHERE

MANY = 2**62
"""More cores than any job needs."""


class Suspensions:
    """The jobs that preemption suspended.

    Args:
        importance: importance of a job; the most important goes on first.
        may_preempt: tells whether a job may take the cores of another.
    """

    def __init__(
        self,
        importance: Callable[[Job], float],
        may_preempt: Callable[[Candidate, Job, float], bool],
    ) -> None:
        self._importance = importance
        self._may_preempt = may_preempt
        self._victims: set[int] = set()
        self._preemptors: set[int] = set()

    def suspend(self, view: View, job: Job, preemptor: Job) -> None:
        """Suspend a running job until its cores are free again."""
        view.suspend(job)
        self._victims.add(job.job_id)
        self._preemptors.add(preemptor.job_id)

    def resume(self, view: View) -> None:
        """Resume the jobs whose cores are free."""
        for job in self._present(view):
            if view.resume(job):
                self._victims.discard(job.job_id)

    def windows(self, view: View, windows: Windows | None) -> Windows | None:
        """Return what a pass may use: reservations, and the cores of suspended jobs.

        Args:
            view: the view.
            windows: the reservations; None: there are none.
        """
        victims = self._present(view)
        if not victims:
            return windows
        return _Reserved(view, victims, self._preemptors, windows, self._may_preempt)

    def _present(self, view: View) -> list[Job]:
        """Return the victims that are still suspended, the most important first."""
        self._victims &= view.suspended.keys()
        if not self._victims:
            self._preemptors.clear()
            return []
        victims = [view.suspended[job_id] for job_id in self._victims]
        return sorted(victims, key=lambda job: (-self._importance(job), job.job_id))


class _Reserved:
    """The nodes that suspended jobs and reservations leave to a job; see `passes.Windows`.

    The cores of a suspended job are only for jobs that may preempt it. So it does not wait for a
    time at which no other job has one of its cores.

    Args:
        view: the view.
        victims: the suspended jobs.
        preemptors: numbers of the jobs that took their cores.
        windows: the reservations; None: there are none.
        may_preempt: see `Suspensions`.
    """

    def __init__(
        self,
        view: View,
        victims: list[Job],
        preemptors: set[int],
        windows: Windows | None,
        may_preempt: Callable[[Candidate, Job, float], bool],
    ) -> None:
        self._view, self._victims, self._preemptors = view, victims, preemptors
        self._windows, self._may_preempt = windows, may_preempt

    def permitted(self, candidate: Candidate, start: int, end: int) -> tuple[NodeSet, int | None]:
        """Return the nodes, and when the next reservation after `start` begins or ends."""
        nodes, change = EVERYWHERE, None
        if self._windows is not None:
            nodes, change = self._windows.permitted(candidate, start, end)
        now_s = self._view.now_s
        kept = [job for job in self._victims if not self._may_preempt(candidate, job, now_s)]
        if kept:
            nodes &= set_of_mask(self._left(kept) >= candidate.job.cores)
        return nodes, change

    def _left(self, kept: list[Job]) -> Ints:
        """Return int64[nodes]: cores for further jobs beside suspended ones; no limit elsewhere."""
        left = self._view.nodes.capacity.copy()
        elsewhere = np.ones(len(left), dtype=np.bool_)
        for job in kept:
            _subtract(left, job)
            if job.allocation is not None:
                elsewhere[job.allocation.nodes] = False
        for job in self._view.running.values():
            if job.job_id not in self._preemptors:
                _subtract(left, job)
        left[elsewhere] = MANY
        return left


def _subtract(cores: Ints, job: Job) -> None:
    """Subtract the cores of a job."""
    if job.allocation is not None:
        cores[job.allocation.nodes] -= job.allocation.cores_per_node
