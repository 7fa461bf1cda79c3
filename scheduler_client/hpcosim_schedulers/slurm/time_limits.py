"""Time limits of running jobs, which slurmctld checks periodically."""

from __future__ import annotations

from heapq import heappop, heappush

from hpcosim_client.job import Job
from hpcosim_client.view import View
from hpcosim_schedulers.slurm.candidate import set_of
from hpcosim_schedulers.slurm.clock import ROUNDING_S, SiteClock, whole_seconds
from hpcosim_schedulers.slurm.future import RunningEnd
from hpcosim_schedulers.slurm.timers import LimitTimer

ENDED_BY_ITSELF = frozenset({"completed", "failed"})


class TimeLimits:
    """Ends of running jobs by their limits.

    A job is ended by the first check after its limit and `over_time_limit`; see `LimitTimer`.
    slurmctld compares whole seconds, so that its check can come up to a second before the limit;
    here such a job goes on until its limit.

    Args:
        clock: the site's clock.
        over_time_limit_s: OverTimeLimit, s.
    """

    def __init__(self, clock: SiteClock, over_time_limit_s: float) -> None:
        self._clock = clock
        self._timer = LimitTimer(clock)
        self._over = int(over_time_limit_s)
        self._ends: dict[int, RunningEnd] = {}
        self._heap: list[tuple[float, int, int]] = []  # when to look, end, number of the job
        self._ended: set[int] = set()

    def ends(self) -> list[RunningEnd]:
        """Return the running jobs and their ends."""
        return list(self._ends.values())

    def started(self, job: Job) -> None:
        """Note that a job runs."""
        assert job.allocation is not None
        nodes = set_of(job.allocation.nodes.tolist())
        self._ends[job.job_id] = RunningEnd(self._end(job), nodes, job.allocation)
        self._look_at(job, 0)

    def suspended(self, job: Job) -> None:
        """Note that the policy suspends a job."""
        self._ends.pop(job.job_id, None)

    def note(self, view: View) -> bool:
        """Apply changes of running jobs; return whether a job left that did not end by itself.

        slurmctld runs the main scheduler at once when the nodes of such a job are free.
        """
        for job in view.left:
            self._ends.pop(job.job_id, None)
            self._ended.discard(job.job_id)
        if len(self._ends) != len(view.running) or not (view.left or view.arrived or view.alarms):
            self._renew(view)
        return any(job.ended_as not in ENDED_BY_ITSELF for job in view.left)

    def end_jobs(self, view: View) -> None:
        """End the jobs whose limit has passed, if a check is due now."""
        now = self._clock.second(view.now_s)
        while self._heap and self._heap[0][0] <= view.now_s + ROUNDING_S:
            *_, job_id = heappop(self._heap)
            job = view.running.get(job_id)
            if job is None or job_id not in self._ends:
                continue
            late_s = _limit_s(job) + self._over
            if self._end(job) > now - self._over or late_s > view.now_s + ROUNDING_S:
                self._look_at(job, self._over)
            elif job_id not in self._ended:
                self._ended.add(job_id)
                view.kill(job, state="timeout")

    def next_s(self, view: View) -> float:
        """Return the time of the next check that could end a job; infinity: none."""
        while self._heap and (
            self._heap[0][2] not in view.running or self._heap[0][2] in self._ended
        ):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else float("inf")

    def any_beyond_limit(self, now: int) -> bool:
        """Return whether a job runs beyond its limit at a second of the clock."""
        return bool(self._heap) and self._heap[0][1] <= now

    def killed(self, job: Job) -> None:
        """Note that the policy ends or requeues a job."""
        self._ended.add(job.job_id)

    def _end(self, job: Job) -> int:
        return self._clock.second(job.start_s + job.suspended_s) + whole_seconds(job.requested_s)

    def _look_at(self, job: Job, over: int) -> None:
        """Note that a check may end a job `over` seconds after its limit."""
        end = self._end(job) + over
        look_s = max(self._timer.after(end), _limit_s(job) + over)
        heappush(self._heap, (look_s, end, job.job_id))

    def _renew(self, view: View) -> None:
        """Take over limits and states of running jobs that changed without a decision."""
        for job_id in self._ends.keys() - view.running.keys():
            del self._ends[job_id]
        for job_id, job in view.running.items():
            known = self._ends.get(job_id)
            if job.allocation is not None and (known is None or known.end != self._end(job)):
                self.started(job)


def _limit_s(job: Job) -> float:
    """Return when the time limit of a running job is over, simulated seconds."""
    return job.start_s + job.suspended_s + job.requested_s
