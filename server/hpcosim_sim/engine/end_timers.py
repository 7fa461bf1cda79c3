"""Timers for the ends of running jobs, updated when contention changes the jobs' speeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from hpcosim_protocol import JobState
from hpcosim_sim.engine.clock import Clock, Rank, Timer
from hpcosim_sim.engine.jobs import EMPTY, LeftAt, Progress, SimulatedJob
from hpcosim_sim.physics.execution import Execution, SharedProcessor

_FINAL_STATE: Mapping[bool, JobState] = {False: "completed", True: "failed"}
"""State of a job at the end of its run time, by `JobSpec.fails`."""


class EndTimers:
    """Sets and cancels the timers that end running jobs.

    A job without contention has one timer, set once. With contention, each shared processor has a
    timer for the share that ends next, and the job's own timer is its walltime limit. The front end
    ends a job with an infinite run time; its only timer is its walltime limit.

    Args:
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
        """Note where a job begins that starts a run now and may write checkpoints."""
        request = job.spec.request
        if request is not None and request.checkpointing is not None:
            if job.progress is None:
                job.progress = Progress(request.checkpointing)
            job.progress.begin(self._clock.now, self._execution.run_time_s(job.spec, job.parts))

    def suspend(self, job: SimulatedJob) -> None:
        """Cancel the timers of a running job and note how far it is."""
        self._progress_of(job).suspend(self._clock.now, self._left_at(job))
        self.cancel(job)

    def set_again(self, job: SimulatedJob) -> None:
        """Set the timers of a running job again after a change of its requested time."""
        if self._kill_at_walltime:
            self.suspend(job)
            self.resume(job)

    def resume(self, job: SimulatedJob) -> None:
        """Set the timers of a suspended job that runs again now."""
        alone_s = self._execution.run_time_s(job.spec, job.parts)
        self._progress_of(job).resume(self._clock.now, alone_s)
        self.set(job)

    def interrupt(self, job: SimulatedJob, is_suspended: bool) -> float:
        """Note that the run of a job ends before the job, and keep its checkpoints.

        Args:
            job: the job; its timers are still set.
            is_suspended: whether the job was suspended.

        Returns:
            Run time that is lost, s.
        """
        left_at = {} if is_suspended else self._left_at(job)
        lost_s = self._progress_of(job).interrupt(self._clock.now, left_at, is_suspended)
        request = job.spec.request
        if request is None or request.checkpointing is None:
            job.progress = None
        return lost_s

    def cancel(self, job: SimulatedJob) -> None:
        """Cancel the pending timers of a job that ends now and remove its processor shares."""
        if job.end is not None:  # it has not gone off
            self._clock.cancel(job.end)
            job.end = None  # breaks the reference cycle of job and timer
        if job.shared:
            for processor in job.shared:
                processor.remove(self._clock.now, job)
                self._set_share_timer(processor)
            job.shared = EMPTY

    def set(self, job: SimulatedJob) -> None:
        """Set the timers of a job whose tasks occupy their cores from now on."""
        spec, now_s, progress = job.spec, self._clock.now, job.progress
        limit_s = spec.requested_s if self._kill_at_walltime else math.inf
        if progress is not None:
            limit_s = max(limit_s - progress.used_s(now_s), 0.0)
        execution = self._execution
        if not execution.contends or not execution.is_shared(spec, job.parts):
            run_s = execution.run_time_s(spec, job.parts) if progress is None else progress.left_s
            if run_s == math.inf:  # the front end ends the job
                self._set_walltime(job, now_s + limit_s)
                return
            call = self._on_end
            if run_s > limit_s:
                run_s, call = limit_s, self._on_walltime
            job.end = self._clock.at(now_s + run_s, Rank.COMPLETION, call, job)
            return
        left_on = None if progress is None else progress.left_on
        job.shared = self._execution.start(now_s, job, spec, job.parts, left_on)
        job.shares_left = len(job.shared)
        for processor in job.shared:
            self._set_share_timer(processor)
        self._set_walltime(job, now_s + limit_s)

    def _set_walltime(self, job: SimulatedJob, at_s: float) -> None:
        if at_s < math.inf:
            job.end = self._clock.at(at_s, Rank.WALLTIME, self._on_walltime, job)

    def _progress_of(self, job: SimulatedJob) -> Progress:
        """Return the progress of a job, from now on recorded."""
        if job.progress is None:
            job.progress = Progress(None)
            alone_s = self._execution.run_time_s(job.spec, job.parts)
            job.progress.begin(job.started_s, alone_s)
        return job.progress

    def _left_at(self, job: SimulatedJob) -> LeftAt:
        if not job.shared:
            return {}
        return self._execution.left_at(self._clock.now, job, job.spec, job.parts)

    def _on_end(self, timer: Timer) -> None:
        job: SimulatedJob = timer.subject
        job.end = None
        self._end(job, _FINAL_STATE[job.spec.fails])

    def _on_walltime(self, timer: Timer) -> None:
        job: SimulatedJob = timer.subject
        job.end = None
        self._end(job, "timeout")

    def _on_share_end(self, timer: Timer) -> None:
        processor: SharedProcessor = timer.subject
        processor.timer = None
        for share in processor.end_due(self._clock.now):
            job: SimulatedJob = share.job
            job.shares_left -= 1
            if not job.shares_left:
                self._end(job, _FINAL_STATE[job.spec.fails])
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
