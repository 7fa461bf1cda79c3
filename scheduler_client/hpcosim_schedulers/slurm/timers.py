"""When the main scheduler, the backfill scheduler and the check of time limits run next."""

from __future__ import annotations

import math

from hpcosim_schedulers.slurm.clock import ROUNDING_S, SiteClock
from hpcosim_schedulers.slurm.parameters import SchedulerParameters

TIME_LIMITS_PERIOD = 30
"""Time between two checks of time limits, s (`PERIODIC_TIMEOUT` of slurmctld)."""

SHORT_SLEEP_S = 1.0
"""Time after which the backfill scheduler looks again whether something has changed, s."""


class MainTimer:
    """When the main scheduler runs.

    A pass over the whole queue is due every `sched_interval`. Another one is due in the first
    iteration of the main loop after a job was submitted or ended, at least `batch_sched_delay`
    whole seconds after the last pass.

    Args:
        clock: the site's clock.
        parameters: the scheduler parameters.
    """

    def __init__(self, clock: SiteClock, parameters: SchedulerParameters) -> None:
        self._clock = clock
        self._period = max(int(parameters.sched_interval_s), 1)
        self._delay = int(parameters.batch_sched_delay_s)
        self._last = clock.begin
        self._requested_s: float | None = None
        self._full_done = clock.begin

    def request(self, at_s: float) -> None:
        """Request a pass because of a submission or an end at a time."""
        if self._requested_s is None:
            self._requested_s = at_s

    def skip_to(self, now_s: float) -> None:
        """Note the requested pass if it was due before `now_s`, when no job waited."""
        due_s = self.next_s(now_s, waiting=False)
        if due_s < now_s - ROUNDING_S:
            self.ran(due_s)

    def next_s(self, now_s: float, *, waiting: bool) -> float:
        """Return the time of the next pass, simulated seconds.

        Args:
            now_s: now.
            waiting: whether jobs wait that could start in a pass over the whole queue.
        """
        full_s = math.inf
        if waiting:
            full_s = self._clock.first_tick_of(self._next_full(now_s))
        if self._requested_s is None:
            return full_s
        # A pass over the whole queue counts, although it may have been left out.
        before = self._next_full(self._requested_s)
        last = max(self._last, before - self._period)
        at_s = max(self._requested_s, self._clock.simulated(last + self._delay))
        return min(self._clock.tick_from(at_s), self._clock.first_tick_of(before), full_s)

    def ran(self, now_s: float) -> bool:
        """Note that a pass runs now; return whether it covers the whole queue."""
        full = self._next_full(now_s)
        is_full = self._clock.first_tick_of(full) <= now_s + ROUNDING_S
        if is_full:
            self._full_done = full
        self._requested_s = None
        self._last = self._clock.second(now_s)
        return is_full

    def _next_full(self, now_s: float) -> int:
        """Return the second of the next pass over the whole queue that has not run yet."""
        passed = max((self._clock.second(now_s) - self._clock.begin) // self._period, 0)
        second = self._clock.begin + passed * self._period
        if self._clock.first_tick_of(second) < now_s - ROUNDING_S:
            second += self._period
        return max(second, self._full_done + self._period)


class BackfillTimer:
    """When the backfill scheduler runs.

    It sleeps `bf_interval` after a pass, and then begins one if a job or node has changed since
    the last pass began. Otherwise it looks again each second.

    Args:
        clock: the site's clock.
        parameters: the scheduler parameters.
    """

    def __init__(self, clock: SiteClock, parameters: SchedulerParameters) -> None:
        self._clock = clock
        self._interval_s = parameters.bf_interval_s
        self._job_cost_s = parameters.bf_job_cost_s
        self._check_s = clock.backfill_begin_s + self._interval_s
        self._last = clock.begin - 1
        self._changed = clock.begin

    def changed(self, at_s: float) -> None:
        """Note that a job or node changed at a time; `skip_to` must have been called with it."""
        self._changed = self._clock.second(at_s)

    def next_s(self) -> float:
        """Return the time of the next pass, simulated seconds; infinity: nothing has changed."""
        return self._check_s if self._changed >= self._last else math.inf

    def ran(self, now_s: float, jobs: int) -> None:
        """Note that a pass that considers `jobs` jobs runs now; it changes these jobs."""
        self._last = self._clock.second(now_s)
        self._check_s = now_s + self._interval_s + jobs * self._job_cost_s
        if jobs:
            self._changed = self._last

    def skip_to(self, now_s: float, jobs: int) -> None:
        """Note the passes before `now_s`, which started no job.

        Args:
            now_s: now.
            jobs: number of jobs that waited meanwhile.
        """
        late_s = now_s - ROUNDING_S
        while self._check_s < late_s:
            if self._changed < self._last:
                looks = math.ceil((late_s - self._check_s) / SHORT_SLEEP_S)
                self._check_s += looks * SHORT_SLEEP_S
                return
            period_s = self._interval_s + jobs * self._job_cost_s
            passes = math.ceil((late_s - self._check_s) / period_s) if jobs else 1
            self.ran(self._check_s + (passes - 1) * period_s, jobs)


class LimitTimer:
    """When jobs beyond their time limits are ended: in a check every 30 s.

    Args:
        clock: the site's clock.
    """

    def __init__(self, clock: SiteClock) -> None:
        self._clock = clock

    def after(self, second: int) -> float:
        """Return the time of the first check at or after a second of the clock."""
        begin = self._clock.begin
        due = begin + -(-max(second - begin, 1) // TIME_LIMITS_PERIOD) * TIME_LIMITS_PERIOD
        return self._clock.first_tick_of(due)
