"""The run times of real jobs, without the time for which they were suspended."""

from __future__ import annotations

from hpcosim_slurm.state import LiveJob


class RunTimes:
    """Notes how long jobs were suspended, as far as the bridge has seen it."""

    def __init__(self) -> None:
        self._suspended_s: dict[int, float] = {}
        self._since_s: dict[int, float] = {}

    def note(self, before: LiveJob | None, job: LiveJob, at_s: float) -> None:
        """Note a change of a job.

        Args:
            before: the job before; None: it is new.
            job: the job now.
            at_s: Unix time of the change, s.
        """
        since_s = self._since_s.pop(job.id, None)
        if since_s is not None:
            lasted_s = (at_s if job.ended_s is None else job.ended_s) - since_s
            self._suspended_s[job.id] = self._suspended_s.get(job.id, 0.0) + max(lasted_s, 0.0)
        if job.state == "suspended":
            self._since_s[job.id] = at_s
        elif job.state == "pending" or (before is not None and before.started_s != job.started_s):
            self._suspended_s.pop(job.id, None)

    def of(self, job: LiveJob) -> float | None:
        """Return the run time of a job that is over, s; None: it did not run."""
        if job.started_s is None or job.ended_s is None:
            return None
        lasted_s = job.ended_s - job.started_s - self._suspended_s.get(job.id, 0.0)
        return max(lasted_s, 0.0)
