"""The clock of a site, when its schedulers run next, and the check of time limits."""

from __future__ import annotations

import math
from datetime import datetime
from heapq import heappop, heappush

import numpy as np

from hpcosim_client.job import Ints, Job
from hpcosim_client.view import View
from hpcosim_schedulers.slurm.future import RunningEnd, set_of
from hpcosim_schedulers.slurm.settings import SchedulerParameters, SiteSettings

TIME_LIMITS_PERIOD = 30
"""Time between two checks of time limits, s (`PERIODIC_TIMEOUT` of slurmctld)."""

SHORT_SLEEP_S = 1.0002
"""Time after which the backfill scheduler looks again whether something has changed, s; measured:
it sleeps for 1 s."""

FIRST_PINGS = 3
"""Time from the first iteration of the main loop to the first pings, s (`MIN_CHECKIN_TIME`)."""

MANY_ROUNDS = 1000
"""Longest time without events, in rounds of pings, in which each round is carried out. Of a longer
one, as before the first event of a live cluster (its times are Unix times), most are skipped."""

PING_S = 0.004
"""Time from the begin of an iteration to the response of a pinged node, s; measured."""

ROUNDING_S = 1e-6


ENDED_BY_ITSELF = frozenset({"completed", "failed"})


class MainTimer:
    """When the main scheduler runs.

    A pass over the whole queue is due every `sched_interval`. Another one is due in the first
    iteration of the main loop after a job was submitted or ended, at least `batch_sched_delay`
    whole seconds after the last pass.

    Args:
        clock: the site's clock.
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


class NodePings:
    """When slurmctld pings nodes, whose answers count as changes of nodes (`ping_nodes.c`).

    Every third of `SlurmdTimeout`, the nodes are pinged that did not respond in that time. So an
    idle node is pinged in every second round. When a job starts, its first node responds; when it
    ends, all of its nodes respond.

    Args:
        clock: the site's clock.
        timeout_s: SlurmdTimeout, s; 0: nodes that respond are not pinged.
        nodes: number of nodes. All respond when slurmctld starts.

    Attributes:
        next_s: time of the answers to the next round, simulated seconds; infinity: never.
    """

    def __init__(self, clock: SiteClock, timeout_s: float, nodes: int) -> None:
        self._clock = clock
        self._period = int(timeout_s) // 3
        self._responses = np.full(nodes, clock.begin)  # last one, seconds of the clock
        self.next_s = self._answers_s(clock.first + FIRST_PINGS) if timeout_s else math.inf

    def responded(self, nodes: Ints, at_s: float) -> None:
        """Note that nodes responded at a time."""
        self._responses[nodes] = self._clock.second(at_s)

    def answer(self) -> bool:
        """Carry out the next round; return whether a node was pinged."""
        second = self._clock.second(self.next_s - PING_S)
        pinged = self._responses < second - self._period
        self._responses[pinged] = self._clock.second(self.next_s)
        self.next_s = self._answers_s(second + max(self._period, 1))
        return bool(pinged.any())

    def skip_to(self, late_s: float) -> None:
        """Skip the rounds long before a time, as if nothing happened: nodes are as they are now."""
        period = max(self._period, 1)
        if late_s - self.next_s > MANY_ROUNDS * period:
            skipped_s = 2 * int((late_s - self.next_s) / (2 * period)) * period
            self._responses += skipped_s
            self.next_s = self._answers_s(self._clock.second(self.next_s - PING_S) + skipped_s)

    def _answers_s(self, second: int) -> float:
        return self._clock.first_tick_of(second) + PING_S


class BackfillTimer:
    """When the backfill scheduler runs.

    It sleeps `bf_interval` after a pass, and then begins one if a job or node has changed since
    the last pass began. Otherwise it looks again each second.

    Args:
        clock: the site's clock.
        pings: their answers are changes.
    """

    def __init__(self, clock: SiteClock, parameters: SchedulerParameters, pings: NodePings) -> None:
        self._clock, self._pings = clock, pings
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
        """Note the passes before `now_s`, which started no job, and the pings."""
        late_s, pings = now_s - ROUNDING_S, self._pings
        pings.skip_to(late_s)
        while min(self._check_s, pings.next_s) < late_s:
            if pings.next_s <= self._check_s:
                answered = self._clock.second(pings.next_s)
                if pings.answer():
                    self._changed = max(self._changed, answered)
            elif self._changed < self._last:
                looks = math.ceil((min(late_s, pings.next_s) - self._check_s) / SHORT_SLEEP_S)
                self._check_s += looks * SHORT_SLEEP_S
            else:
                period_s = self._interval_s + jobs * self._job_cost_s
                passes = math.ceil((late_s - self._check_s) / period_s) if jobs else 1
                self.ran(self._check_s + (passes - 1) * period_s, jobs)


class LimitTimer:
    """When jobs beyond their time limits are ended: in a check every 30 s."""

    def __init__(self, clock: SiteClock) -> None:
        self._clock = clock

    def after(self, second: int) -> float:
        """Return the time of the first check at or after a second of the clock."""
        begin = self._clock.begin
        due = begin + -(-max(second - begin, 1) // TIME_LIMITS_PERIOD) * TIME_LIMITS_PERIOD
        return self._clock.first_tick_of(due)


class SiteClock:
    """Conversion between simulated seconds and whole seconds of the site's clock.

    Args:
        site: the settings. `priority.start_time` is the time at simulated second 0.

    Attributes:
        backfill_begin_s: start of the backfill scheduler, simulated seconds.
        begin: second in which the main loop begins. It sleeps before each iteration.
        first: second of its first iteration.
    """

    def __init__(self, site: SiteSettings) -> None:
        start = site.priority.start_time or "1970-01-01T00:00:00"
        since = datetime.fromisoformat(start).replace(tzinfo=None) - datetime(1970, 1, 1)
        self._origin_s = since.total_seconds()
        self._loop_s = site.scheduler.loop_begin_s - site.dtstart_s
        self._tick_s = site.scheduler.loop_s
        self.backfill_begin_s = site.scheduler.bf_begin_s - site.dtstart_s
        self.begin = self.second(self._loop_s)
        self.first = self.second(self._loop_s + self._tick_s)

    def second(self, at_s: float) -> int:
        """Return the whole second of the clock at a simulated time."""
        return math.floor(at_s + self._origin_s + ROUNDING_S)

    def simulated(self, second: int) -> float:
        """Return the simulated time at which a second of the clock begins."""
        return second - self._origin_s

    def tick_from(self, at_s: float) -> float:
        """Return the time of the first iteration of the main loop at or after a time."""
        number = math.ceil((at_s - self._loop_s - ROUNDING_S) / self._tick_s)
        return self._loop_s + max(number, 0) * self._tick_s

    def first_tick_of(self, second: int) -> float:
        """Return the time of the first iteration in or after a second of the clock."""
        return self.tick_from(self.simulated(second))


def whole_seconds(limit_s: float) -> int:
    """Return a time limit in whole seconds, rounded up, as slurmctld has it."""
    return math.ceil(limit_s - ROUNDING_S)


class TimeLimits:
    """Ends of running jobs by their limits.

    A job is ended by the first check after its limit and `over_time_limit`; see `LimitTimer`.
    slurmctld compares whole seconds, so that its check can come up to a second before the limit;
    here such a job goes on until its limit.

    Args:
        clock: the site's clock.
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
        self._ends[job.job_id] = RunningEnd(self._end(job), job.job_id, nodes, job.allocation)
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
