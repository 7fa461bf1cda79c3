"""Limits of a pass of the backfill scheduler on numbers of jobs.

Source: slurm.conf(5), `SchedulerParameters`, `bf_max_job_...` and `bf_job_part_count_reserve`.
"""

from __future__ import annotations

from collections import Counter

from hpcosim_schedulers.slurm.candidate import Candidate
from hpcosim_schedulers.slurm.parameters import SchedulerParameters


class BackfillCounts:
    """Counts of jobs against the limits of a pass.

    Args:
        parameters: the limits.

    Attributes:
        tested: number of jobs that were admitted.
        started: number of jobs that started.
    """

    def __init__(self, parameters: SchedulerParameters) -> None:
        self._parameters = parameters
        self.tested = 0
        self.started = 0
        self._reserved: Counter[object] = Counter()
        self._of: dict[str, Counter[object]] = {}

    @property
    def no_more_tests(self) -> bool:
        """Whether more jobs than `bf_max_job_test` were admitted."""
        return self.tested > self._parameters.bf_max_job_test

    @property
    def no_more_starts(self) -> bool:
        """Whether `bf_max_job_start` jobs have started."""
        return 0 < self._parameters.bf_max_job_start <= self.started

    def admit(self, candidate: Candidate) -> bool:
        """Count a job, and return whether the pass tests it."""
        parameters, job = self._parameters, candidate.job
        partition = candidate.partition
        limits = (
            ("user", job.user, parameters.bf_max_job_user),
            ("user_part", (job.user, partition), parameters.bf_max_job_user_part),
            ("part", partition, parameters.bf_max_job_part),
            ("assoc", (job.account, job.user), parameters.bf_max_job_assoc),
        )
        for name, key, most in limits:
            if most and self._of.setdefault(name, Counter())[key] >= most:
                return False
        for name, key, most in limits:
            if most:
                self._of[name][key] += 1
        self.tested += 1
        return True

    def reserves(self, candidate: Candidate) -> bool:
        """Return whether the plan reserves nodes for a job that it starts later."""
        most = self._parameters.bf_job_part_count_reserve
        partition = candidate.partition
        if most and self._reserved[partition] >= most:
            return False
        self._reserved[partition] += 1
        return True
