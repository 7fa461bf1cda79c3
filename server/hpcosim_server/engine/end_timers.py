"""Timers for the ends of running jobs, updated when contention changes the jobs' speeds."""

from __future__ import annotations

import math
from collections.abc import Callable

from hpcosim_protocol import JobState
from hpcosim_server.engine.clock import Clock, Rank, Timer
from hpcosim_server.engine.jobs import SimulatedJob
from hpcosim_server.physics.contention import SharedProcessor
from hpcosim_server.physics.execution import Execution


class EndTimers:
    """Sets and cancels the timers that end running jobs.

    A job without contention has one timer, set once. With contention, each shared processor has a
    timer for the share that ends next, and the job's own timer is its walltime limit.

    Args:
        clock: clock of the simulation.
        execution: model of run times.
        kill_at_walltime: whether jobs are killed at their requested time.
        end: called with a job that ends and its final state.
    """

    def __init__(
        self,
        clock: Clock,
        execution: Execution,
        kill_at_walltime: bool,
        end: Callable[[SimulatedJob, JobState], None],
    ) -> None:
        self._clock = clock
        self._execution = execution
        self._kill_at_walltime = kill_at_walltime
        self._end = end

    def begin(self, job: SimulatedJob) -> None:
        """Set the timers of a job whose tasks occupy their cores from now on."""
        spec, now_s = job.spec, self._clock.now
        limit_s = spec.requested_s if self._kill_at_walltime else math.inf
        if not self._execution.is_shared(spec, job.parts):
            run_s = self._execution.run_time_s(spec, job.parts)
            call = self._on_end
            if run_s > limit_s:
                run_s, call = limit_s, self._on_walltime
            job.end = self._clock.at(now_s + run_s, Rank.COMPLETION, call, job)
            return
        job.shared = self._execution.start(now_s, job, spec, job.parts)
        job.shares_left = len(job.shared)
        for processor in job.shared:
            self._set_share_timer(processor)
        if limit_s < math.inf:
            job.end = self._clock.at(now_s + limit_s, Rank.WALLTIME, self._on_walltime, job)

    def cancel(self, job: SimulatedJob) -> None:
        """Cancel the pending timers of a job that ends now and remove its processor shares."""
        if job.end is not None and not job.end.processed:
            self._clock.cancel(job.end)
        job.end = None  # breaks the reference cycle of job and timer
        for processor in job.shared:
            processor.remove(self._clock.now, job)
            self._set_share_timer(processor)

    def _on_end(self, timer: Timer) -> None:
        self._end(timer.subject, "completed")

    def _on_walltime(self, timer: Timer) -> None:
        self._end(timer.subject, "timeout")

    def _on_share_end(self, timer: Timer) -> None:
        processor: SharedProcessor = timer.subject
        processor.timer = None
        for share in processor.end_due(self._clock.now):
            job: SimulatedJob = share.job
            job.shares_left -= 1
            if not job.shares_left:
                self._end(job, "completed")
        self._set_share_timer(processor)

    def _set_share_timer(self, processor: SharedProcessor) -> None:
        timer, next_s = processor.timer, processor.next_end_s
        if timer is not None:
            if timer.at_s == next_s:
                return
            self._clock.cancel(timer)
        processor.timer = None
        if next_s < math.inf:
            processor.timer = self._clock.at(next_s, Rank.COMPLETION, self._on_share_end, processor)
