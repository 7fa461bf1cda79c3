"""Decisions that end, suspend or requeue jobs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import get_args

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Allocation, Job
from hpcosim_client.scheduler_state import SchedulerState
from hpcosim_protocol import (
    Decision,
    KillJob,
    Platform,
    RejectJob,
    RequeueJob,
    ResumeJob,
    SetCheckpoint,
    SuspendJob,
)
from hpcosim_protocol.decisions import KilledAs, RejectedAs

MAX_TIME_S = 1e15  # of the protocol


class JobDecisions(SchedulerState):
    """The decisions of a policy about jobs that it does not start. `View` has all attributes.

    Args:
        platform: see `SchedulerState`.
        wake_on_allocation: see `SchedulerState`.
    """

    def __init__(self, platform: Platform, *, wake_on_allocation: bool = True) -> None:
        super().__init__(platform, wake_on_allocation=wake_on_allocation)
        self.decisions: list[Decision] = []
        self._rejected_now: set[int] = set()

    def reject(
        self, job: Job, *, state: RejectedAs = "rejected", reason: str = "", at_end: bool = False
    ) -> None:
        """End a waiting job; it leaves the queue, or the pending jobs, with the events of its end.

        Args:
            job: a job of `queue` or `pending`.
            state: its final state.
            reason: reason, for people; empty: none.
            at_end: whether the job goes on waiting until nothing can start it any more: no other
                job runs, becomes eligible or is submitted, and nobody changes this one. Until then
                a start or a change of the job revokes the decision. With a real Slurm the job goes
                on waiting.

        Raises:
            PolicyError: the state is none of `RejectedAs`.
        """
        _check_state("rejected", job, state, get_args(RejectedAs))
        if not at_end:
            self._rejected_now.add(job.job_id)
        self.decisions.append(RejectJob(job.job_id, state, reason, at_end))

    def kill(self, job: Job, *, grace_s: float = 0.0, state: KilledAs = "killed") -> None:
        """Kill a running or suspended job; it leaves the view with the events of its end.

        Args:
            job: the job.
            grace_s: time for which the job goes on, simulated seconds.
            state: its final state.

        Raises:
            PolicyError: the job waits, the state is none of `KilledAs`, or the time is not one.
        """
        self._check_placed("killed", job)
        _check_state("killed", job, state, get_args(KilledAs))
        _check_grace("killed", job, grace_s)
        self.decisions.append(KillJob(job.job_id, grace_s, state))

    def requeue(self, job: Job, *, begin_s: float | None = None, grace_s: float = 0.0) -> None:
        """End the run of a job and let it wait again; it is in `pending` with the next events.

        Args:
            job: a running or suspended job with `request.requeue`.
            begin_s: earliest time at which it may start again, simulated seconds; None: now.
            grace_s: time for which the run goes on, simulated seconds.

        Raises:
            PolicyError: the job waits, or a time is not one.
        """
        self._check_placed("requeued", job)
        _check_grace("requeued", job, grace_s)
        if begin_s is not None and not abs(begin_s) <= MAX_TIME_S:
            raise PolicyError(
                f"job {job.job_id} cannot be requeued: begin_s is {begin_s}; expected seconds"
            )
        self.decisions.append(RequeueJob(job.job_id, begin_s, grace_s))

    def suspend(self, job: Job) -> None:
        """Suspend a running job. Its cores are free immediately; it keeps its other resources.

        Raises:
            PolicyError: the job does not run.
        """
        if job.job_id not in self.running:
            raise PolicyError(f"job {job.job_id} cannot be suspended: it is not running")
        self._suspend(job.job_id, self.now_s)
        self.decisions.append(SuspendJob(job.job_id))

    def resume(self, job: Job) -> bool:
        """Resume a suspended job if its cores are free, and return whether it runs again.

        Reservations must permit it on its nodes for the rest of its requested time.

        Raises:
            PolicyError: the job is not suspended.
        """
        if job.job_id not in self.suspended:
            raise PolicyError(f"job {job.job_id} cannot be resumed: it is not suspended")
        place = job.allocation
        if place is not None and (self.nodes.idle_cores(place.nodes) < place.cores_per_node).any():
            return False
        if place is not None and not self._may_resume(job, place):
            return False
        self._resume(job.job_id, self.now_s)
        self.decisions.append(ResumeJob(job.job_id))
        return True

    def _may_resume(self, job: Job, place: Allocation) -> bool:
        if job.demand is None:
            return True
        computed_s = self._suspended_at_s[job.job_id] - job.start_s - job.suspended_s
        end_s = self.now_s + max(job.requested_s - computed_s, 0.0)
        permitted = self.nodes.demands.permitted(job, job.demand, self.now_s, end_s)
        return permitted is None or bool(permitted[place.nodes].all())

    def set_checkpoint(self, job: Job, interval_s: float) -> None:
        """Set the computing time between two checkpoints of a waiting job.

        Args:
            job: a job of `queue` or `pending` with `request.checkpointing`.
            interval_s: simulated seconds, > 0.

        Raises:
            PolicyError: the job writes no checkpoints, or the interval is not above 0.
        """
        if job.request is None or job.request.checkpointing is None:
            raise PolicyError(f"job {job.job_id} writes no checkpoints: its request states no cost")
        if not 0.0 < interval_s < math.inf:
            raise PolicyError(
                f"checkpoint interval of job {job.job_id}: expected seconds > 0, got {interval_s}"
            )
        self.decisions.append(SetCheckpoint(job.job_id, interval_s))

    def _check_placed(self, what: str, job: Job) -> None:
        if job.job_id in self.queue or job.job_id in self.pending:
            raise PolicyError(f"job {job.job_id} cannot be {what}: it is not running")


def _check_state(what: str, job: Job, state: str, known: Sequence[str]) -> None:
    if state not in known:
        raise PolicyError(
            f"job {job.job_id} cannot be {what} with the state {state!r:.80}: expected "
            f"{', '.join(known)}"
        )


def _check_grace(what: str, job: Job, grace_s: float) -> None:
    if not 0.0 <= grace_s <= MAX_TIME_S:
        raise PolicyError(
            f"job {job.job_id} cannot be {what}: grace_s is {grace_s}; expected seconds >= 0"
        )
