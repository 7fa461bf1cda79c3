"""Dependencies of jobs on other jobs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from hpcosim_protocol import Dependency
from hpcosim_server.engine.jobs import JobRegister, SimulatedJob
from hpcosim_server.record.recording import STATES, Recording

NEVER = math.inf
"""Time at which a condition is met that can never be met."""


class JobHistory(NamedTuple):
    """What a dependency needs to know about another job.

    Attributes:
        started_s: time of its start, s; NaN: it has not started, or it waits again.
        over_s: time of its end, s; NaN: it is not over.
        state: final state; empty: it is not over.
    """

    started_s: float = math.nan
    over_s: float = math.nan
    state: str = ""


class PendingDependency:
    """A dependency of a waiting job that is not met.

    Attributes:
        job: the waiting job.
        kind: kind of the dependency.
        delay_s: time after the condition is met, s.
        unmet: number of other jobs that do not meet the condition.
        met_s: time at which the other jobs meet the condition with the delay, s; `NEVER`: one of
            them can never meet it.
    """

    __slots__ = ("delay_s", "job", "kind", "met_s", "unmet")

    def __init__(self, job: SimulatedJob, dependency: Dependency) -> None:
        self.job = job
        self.kind = dependency.kind
        self.delay_s = dependency.delay_s
        self.unmet = 0
        self.met_s = -math.inf


def met_at_s(kind: str, other: JobHistory) -> float | None:
    """Return when another job met a condition, s; `NEVER` if it never can; None: not yet.

    The rules are those of `--dependency` in the manual page of Slurm's sbatch.
    """
    if kind == "after":
        if other.started_s == other.started_s:  # not NaN
            return other.started_s
        return other.over_s if other.state else None
    if not other.state:
        return None
    if kind == "afterok" and other.state != "completed":
        return NEVER
    if kind == "afternotok" and other.state == "completed":
        return NEVER
    return other.over_s


class Histories:
    """The jobs of a simulation as dependencies see them.

    Args:
        jobs: the jobs that are not over.
        recording: the submitted jobs.
        is_expected: whether a job id belongs to a job of the workload.
    """

    def __init__(
        self, jobs: JobRegister, recording: Recording, is_expected: Callable[[int], bool]
    ) -> None:
        self._jobs = jobs
        self._recording = recording
        self._is_expected = is_expected

    def of(self, job_id: int) -> JobHistory | None:
        """Return the history of a job; None: the run has no job with this id."""
        job = self._jobs.find(job_id)
        if job is not None:
            has_started = job.state not in ("waiting", "allocated")
            return JobHistory(job.started_s) if has_started else JobHistory()
        row = self._jobs.row_of(job_id)
        if row is None:
            return JobHistory() if self._is_expected(job_id) else None
        recording = self._recording
        return JobHistory(
            recording.start_s[row], recording.end_s[row], STATES[recording.state[row]]
        )
