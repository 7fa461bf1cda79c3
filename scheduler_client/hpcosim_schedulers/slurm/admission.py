"""Jobs that slurmctld refuses at their submission."""

from __future__ import annotations

from hpcosim_client.job import Job
from hpcosim_client.view import View
from hpcosim_schedulers.slurm.candidates import Candidates
from hpcosim_schedulers.slurm.future import Future
from hpcosim_schedulers.slurm.limits import Limits


class Admission:
    """Rejects the jobs that a limit or the size of the cluster refuses, and counts the others.

    Args:
        limits: the limits.
        candidates: the candidates of jobs.
        empty: the resources if no job ran.
    """

    def __init__(self, limits: Limits, candidates: Candidates, empty: Future) -> None:
        self._limits, self._candidates, self._empty = limits, candidates, empty
        self._submitted: set[int] = set()

    def admit(self, view: View) -> None:
        """Check the jobs that were submitted since the last call."""
        pending = view.pending.keys() - self._submitted if view.pending else set[int]()
        for job in [*view.arrived, *(view.pending[job_id] for job_id in sorted(pending))]:
            if job.job_id in self._submitted:
                continue  # it waits again
            self._submitted.add(job.job_id)
            if reason := self._limits.refusal(job, view) or self.misfit(job):
                view.reject(job, reason=reason)
                view.queue.pop(job.job_id, None)
            else:
                self._limits.submit(job)

    def misfit(self, job: Job, partition: str = "") -> str:
        """Return Slurm's reason if the cluster is too small for a job, although nothing ran.

        Args:
            job: the job.
            partition: the partition that counts; empty: each of the job's.
        """
        candidates = self._candidates.of(job)
        if partition:
            candidates = [each for each in candidates if each.partition == partition]
        if any(self._empty.fits(each, each.suitable) for each in candidates):
            return ""
        return "BadConstraints"
