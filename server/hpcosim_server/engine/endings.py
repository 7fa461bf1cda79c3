"""When running jobs end: the timers of their ends, kept true as others slow them down."""

from __future__ import annotations

import math
from collections.abc import Callable

from hpcosim_server.engine.clock import Clock, Rank, Timer
from hpcosim_server.engine.job import Job
from hpcosim_server.physics.execution import Execution, SharedProcessor


class Endings:
    """Sets and calls off the timers of running jobs.

    A job that no other can slow down has one timer, set once. Else each processor that jobs
    share has a timer for whichever of their shares ends next, and the job's own is that of its
    requested time.

    Args:
        clock: the simulation's.
        execution: how long jobs run.
        kill_at_walltime: they are ended at their requested time.
        end: called with a job whose end has come, its `state` set.
    """

    def __init__(
        self,
        clock: Clock,
        execution: Execution,
        kill_at_walltime: bool,
        end: Callable[[Job], None],
    ) -> None:
        self._clock = clock
        self._execution = execution
        self._kill_at_walltime = kill_at_walltime
        self._end = end

    def begin(self, job: Job) -> None:
        """Let a job run that has just been given its cores."""
        spec, now_s = job.spec, self._clock.now
        limit_s = spec.requested_s if self._kill_at_walltime else math.inf
        if not self._execution.is_shared(spec, job.parts):
            run_s = self._execution.run_time_s(spec, job.parts)
            if run_s > limit_s:
                run_s, job.state = limit_s, "timeout"
            job.end = self._clock.at(now_s + run_s, Rank.COMPLETION, self._on_end, job)
            return
        job.shared = self._execution.start(now_s, job, spec, job.parts)
        job.shares_left = len(job.shared)
        for processor in job.shared:
            self._await_next_share(processor)
        if limit_s < math.inf:
            job.end = self._clock.at(now_s + limit_s, Rank.WALLTIME, self._on_walltime, job)

    def call_off(self, job: Job) -> None:
        """Forget a job: it is over, or will be at once."""
        if job.end is not None and not job.end.processed:
            self._clock.cancel(job.end)
        job.end = None  # the two hold each other
        for processor in job.shared:
            processor.remove(self._clock.now, job)
            self._await_next_share(processor)

    def _on_end(self, timer: Timer) -> None:
        self._end(timer.subject)

    def _on_walltime(self, timer: Timer) -> None:
        job: Job = timer.subject
        job.state = "timeout"
        self._end(job)

    def _on_shares_end(self, timer: Timer) -> None:
        processor: SharedProcessor = timer.subject
        processor.timer = None
        for share in processor.end_due(self._clock.now):
            job: Job = share.job
            job.shares_left -= 1
            if not job.shares_left:
                self._end(job)
        self._await_next_share(processor)

    def _await_next_share(self, processor: SharedProcessor) -> None:
        timer, next_s = processor.timer, processor.next_end_s
        if timer is not None:
            if timer.at_s == next_s:
                return
            self._clock.cancel(timer)
        processor.timer = None
        if next_s < math.inf:
            processor.timer = self._clock.at(
                next_s, Rank.COMPLETION, self._on_shares_end, processor
            )
