"""The policy `slurm`: the main scheduler, backfilling and limits of Slurm together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from hpcosim_client.job import Job
from hpcosim_client.view import PolicyAlarm, View
from hpcosim_schedulers.slurm import timers
from hpcosim_schedulers.slurm.backfill import (
    BackfillSettings,
    MainLimits,
    PassContext,
    Planned,
    ReservingJobs,
    backfill,
    main_pass,
)
from hpcosim_schedulers.slurm.candidates import Candidates, nodes_available
from hpcosim_schedulers.slurm.future import Candidate, Found, Future, NodeSet
from hpcosim_schedulers.slurm.limits import Limits, counted_tres
from hpcosim_schedulers.slurm.multifactor import Priorities
from hpcosim_schedulers.slurm.preempt import REQUEUE_DELAY_S, Preemptor, ReservationWindows
from hpcosim_schedulers.slurm.select import NodeOrder, tasks_on_nodes
from hpcosim_schedulers.slurm.settings import SiteSettings


class SwitchWaits:
    """The times until which jobs wait for their preferred switches, from when they are eligible.

    Args:
        most_s: greatest time, s; also that of jobs that state none (`max_switch_wait`).
    """

    def __init__(self, clock: timers.SiteClock, most_s: float) -> None:
        self._clock, self._most_s = clock, most_s
        self._ends: dict[int, int] = {}
        self._now_s = -math.inf

    def note(self, view: View) -> None:
        """Note the time, the jobs that began to wait, and those that wait no more."""
        self._now_s = view.now_s
        if self._ends:
            for job in view.left:
                self._ends.pop(job.job_id, None)
        for job in view.arrived:
            if job.request is not None and job.request.switches:
                wait_s = min(job.request.switches_wait_s or math.inf, self._most_s)
                end = self._clock.second(view.now_s) + timers.whole_seconds(wait_s)
                self._ends.setdefault(job.job_id, end)

    def waits(self, job_id: int) -> bool:
        """Return whether a job still waits for its switches."""
        end = self._ends.get(job_id)
        return end is not None and self._clock.second(self._now_s) < end

    def next_s(self, view: View) -> float:
        """Return when the next job gives up, simulated seconds; infinity: none waits."""
        if not self._ends:
            return math.inf
        self._ends = {each: end for each, end in self._ends.items() if each in view.queue}
        late_s = view.now_s + timers.ROUNDING_S
        times = map(self._clock.simulated, self._ends.values())
        return min((at_s for at_s in times if at_s > late_s), default=math.inf)


# Nodes that an administrator resumed, which jobs get only after they have responded.


class NodeResponses:
    """The nodes that are unavailable because they failed, are drained, or have yet to respond."""

    def __init__(self, clock: timers.SiteClock) -> None:
        self._clock = clock
        self._out: list[int] = []  # failed or drained
        self._responses_s: dict[int, float] = {}
        self.unavailable: list[int] = []

    def note(self, view: View) -> bool:
        """Note the states of the nodes; return whether a node changed or responded."""
        out, now_s = view.nodes.unavailable(), view.now_s
        if out == self._out and not self._responses_s:
            return False
        resumed = set(self._out).difference(out)
        responds_s = self._clock.tick_from(now_s) + timers.PING_S
        due_s = self._responses_s | dict.fromkeys(resumed, responds_s)
        waited = {node: at_s for node, at_s in due_s.items() if at_s > now_s + timers.ROUNDING_S}
        changed = out != self._out or len(waited) < len(due_s)
        self._out, self._responses_s = out, waited
        self.unavailable = sorted({*out, *waited})
        return changed

    @property
    def next_s(self) -> float:
        """When the next node responds, simulated seconds; infinity: none is about to."""
        return min(self._responses_s.values(), default=math.inf)


class RequeueDelays:
    """The begin times of requeued jobs: `REQUEUE_DELAY_S` after their requeue."""

    def __init__(self) -> None:
        self._begins_s: dict[int, float] = {}

    def note(self, view: View) -> None:
        """Note the jobs whose run ended and that wait again."""
        for job in view.left:
            if job.allocation is None and (job.job_id in view.pending or job.job_id in view.queue):
                self._begins_s[job.job_id] = view.now_s + REQUEUE_DELAY_S
            else:
                self._begins_s.pop(job.job_id, None)

    def next_s(self, now_s: float) -> float:
        """Return the next begin time after now, simulated seconds; infinity: none."""
        later = (at_s for at_s in self._begins_s.values() if at_s > now_s + timers.ROUNDING_S)
        return min(later, default=math.inf)

    def ready(self, jobs: list[Job], now_s: float) -> list[Job]:
        """Return the jobs that may start now."""
        if not self._begins_s:
            return jobs
        late = now_s + timers.ROUNDING_S
        return [job for job in jobs if self._begins_s.get(job.job_id, late) <= late]


def waited_for_time(job: Job) -> bool:
    """Return whether a job of the queue may have become eligible by the passing of time."""
    request = job.request
    if request is None or (request.begin_s is None and not request.dependencies and not job.runs):
        return False
    delayed = any(each.delay_s for each in request.dependencies)
    return request.begin_s is not None or delayed or job.runs > 0


def explain_reasons(
    view: View, queue: Iterable[Candidate], limits: Limits, blocked: Iterable[Candidate]
) -> None:
    """Explain why jobs wait after a pass of the main scheduler."""
    lacking = {candidate.job.job_id for candidate in blocked}
    for candidate in queue:
        job = candidate.job
        if job.job_id in view.queue:
            reason = limits.held(job, view.now_s, candidate.partition)
            expected_s = None if job.explanation is None else job.explanation[1]
            view.explain(
                job,
                reason or ("Resources" if job.job_id in lacking else "Priority"),
                expected_s if expected_s is None or expected_s > view.now_s else None,
            )


def explain_plan(view: View, plan: Iterable[Planned], clock: timers.SiteClock) -> None:
    """Add the planned starts of a pass of the backfill scheduler to the explanations."""
    for planned in plan:
        job = view.queue.get(planned.job_id)
        if job is not None:
            reason = "Priority" if job.explanation is None else job.explanation[0]
            view.explain(job, reason, clock.simulated(planned.start))


class Deadlines:
    """Ends waiting jobs that cannot end before their deadlines."""

    def __init__(self, clock: timers.SiteClock) -> None:
        self._clock = clock
        self._timer = timers.LimitTimer(clock)
        self._latest_s: dict[int, float] = {}  # latest start of waiting jobs with a deadline

    def end_jobs(self, view: View) -> None:
        """End the jobs whose latest start has passed, if a check is due now."""
        for job in view.arrived:
            if job.deadline_s < math.inf:
                self._latest_s[job.job_id] = job.deadline_s - job.requested_s
        for job_id, latest_s in list(self._latest_s.items()):
            job = view.queue.get(job_id) or view.pending.get(job_id)  # type: ignore[assignment]
            if job is None:
                del self._latest_s[job_id]
            elif self._due_s(latest_s) <= view.now_s + timers.ROUNDING_S:
                del self._latest_s[job_id]
                view.reject(job, state="deadline")
                view.queue.pop(job_id, None)

    def next_s(self, view: View) -> float:
        """Return the time of the next check that could end a job; infinity: none."""
        del view
        return min(map(self._due_s, self._latest_s.values()), default=math.inf)

    def _due_s(self, latest_s: float) -> float:
        return self._timer.after(self._clock.second(latest_s) + 1)


class Admission:
    """Rejects the jobs that a limit or the size of the cluster refuses, and counts the others."""

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
            partition: the partition that counts; empty: each of the job's.
        """
        candidates = self._candidates.of(job)
        if partition:
            candidates = [each for each in candidates if each.partition == partition]
        if any(self._empty.fits(each, each.suitable) for each in candidates):
            return ""
        return "BadConstraints"


EPILOG_S = 0.04
"""Time from the end of a job that does not end by itself to the report of its nodes, s; measured.

slurmctld runs the main scheduler at that report.
"""


class SlurmPolicy:
    """Schedules as slurmctld does, with its periodic work as alarms.

    Attributes:
        started_by: which scheduler started each job, `main` or `backfill`, by job id.
    """

    def __init__(self, site: SiteSettings) -> None:
        self._site = site
        self._alarm = PolicyAlarm()
        self._ready = False
        self._immediate_s = math.inf  # pass after the end of jobs that did not end by themselves
        self.started_by: dict[int, str] = {}

    def __call__(self, view: View) -> None:
        """Do what is due, and set the alarm for what is due next."""
        if not self._ready:
            self._begin(view)
        self._priorities.update(view)
        self._limits.update(view)
        self._admission.admit(view)
        self._note_changes(view)
        now_s = view.now_s
        self._running.end_jobs(view)
        self._deadlines.end_jobs(view)
        is_due = self._main_due_s(view) <= now_s + timers.ROUNDING_S
        if is_due or self._immediate_s <= now_s + timers.ROUNDING_S:
            self._run_main(view, is_due)
        if self._backfill.next_s() <= now_s + timers.ROUNDING_S and self._site.scheduler.backfill:
            self._run_backfill(view)
        self._waiting = len(view.queue)
        self._set_alarm(view)

    def _begin(self, view: View) -> None:
        site, parameters = self._site, self._site.scheduler
        self._clock = timers.SiteClock(site)
        self._main = timers.MainTimer(self._clock, parameters)
        count = view.nodes.slots.nodes
        self._pings = timers.NodePings(self._clock, site.slurmd_timeout_s, count)
        self._backfill = timers.BackfillTimer(self._clock, parameters, self._pings)
        self._running = timers.TimeLimits(self._clock, site.over_time_limit_s)
        self._priorities = Priorities(site, view.platform, counted_tres(site))
        self._limits = Limits(site, view.platform, self._priorities.charges)
        self._candidates = Candidates(view.platform, view.nodes)
        self._order = NodeOrder.of(view.platform, site.selection)
        self._switch_waits = SwitchWaits(self._clock, parameters.max_switch_wait_s)
        self._preemptor = Preemptor(site, view, self._order, self._switch_waits.waits)
        self._reserving = ReservingJobs(site, self._priorities)
        self._empty = Future(view.nodes.slots.capacity, (), view.nodes.slots, self._order)
        self._admission = Admission(self._limits, self._candidates, self._empty)
        reserved = bool(view.platform.reservations)
        self._windows = ReservationWindows(view.nodes, self._clock) if reserved else None
        self._stale = True  # whether a pass of the main scheduler could start a job
        self._unplanned = True  # whether one of the backfill scheduler could
        self._waiting = 0  # number of jobs that waited after the last call
        self._order_before: list[Job] = []
        self._responses = NodeResponses(self._clock)
        self._going_off: frozenset[int] = frozenset()
        self._deadlines: Deadlines = Deadlines(self._clock)
        self._requeues = RequeueDelays()
        self._waited_s = math.inf  # when the next job has waited for a time of its own
        self._calculation_s = self._priorities.next_s
        self._depends_on_calculation = (
            self._limits.depend_on_usage or self._reserving.depends_on_priority
        )
        self._ready = True

    def _note_changes(self, view: View) -> None:
        now_s = view.now_s
        self._preemptor.suspensions.resume(view)
        self._main.skip_to(now_s)
        self._backfill.skip_to(now_s, self._waiting)
        for job in view.left:
            if job.allocation is not None:
                self._pings.responded(job.allocation.nodes, now_s)
        if self._running.note(view):
            self._immediate_s = now_s + EPILOG_S
        self._requeues.note(view)
        self._switch_waits.note(view)
        if self._waited_s <= now_s + timers.ROUNDING_S:
            self._stale = self._unplanned = True
        self._candidates.forget(view.left)
        wakes = self._responses.note(view)
        wakes = self._wakes_main(view) or wakes
        if view.arrived or wakes:
            self._stale = self._unplanned = True
            self._backfill.changed(now_s)
        if wakes:
            self._main.request(now_s)
        self._waited_s = min(
            self._requeues.next_s(now_s), self._switch_waits.next_s(view), self._responses.next_s
        )
        going_off = view.nodes.going_off()
        if not self._going_off <= going_off:  # a node is powered down: jobs may have it again
            self._stale = self._unplanned = True
            self._backfill.changed(now_s)
        self._going_off = going_off
        if self._windows is not None and self._windows.changed(now_s):
            self._backfill.changed(now_s)
        if self._priorities.next_s != self._calculation_s:
            self._calculation_s = self._priorities.next_s
            order = self._priorities.ordered(view) if view.queue else []
            if order != self._order_before or self._depends_on_calculation:
                self._stale = self._unplanned = True
                self._order_before = order
            if order:
                self._backfill.changed(now_s)

    def _may_backfill(self, view: View) -> bool:
        """Return whether a pass of the backfill scheduler could start a job.

        Starts only reduce what is free. Without other changes it can only if jobs run beyond their
        limits, which delays planned starts, or reservations begin and end.
        """
        if self._unplanned or self._windows is not None or self._preemptor.active:
            return True
        return self._running.any_beyond_limit(self._clock.second(view.now_s))

    def _wakes_main(self, view: View) -> bool:
        """Return whether a job ended, was submitted or changed."""
        newest = next(reversed(view.pending.values()), None)
        if newest is not None and newest.submit_s >= view.now_s - timers.ROUNDING_S:
            return True
        return bool(view.left) or any(not waited_for_time(job) for job in view.arrived)

    def _main_due_s(self, view: View) -> float:
        waiting = bool(view.queue) and (self._stale or self._windows is not None)
        return self._main.next_s(view.now_s, waiting=waiting)

    def _run_main(self, view: View, is_due: bool) -> None:
        parameters, now_s = self._site.scheduler, view.now_s
        full = is_due and self._main.ran(now_s)
        if self._immediate_s <= now_s + timers.ROUNDING_S:
            self._immediate_s = math.inf
        if full and view.queue:
            self._backfill.changed(now_s)
        self._stale = False
        if not view.queue:
            return
        limits = MainLimits(
            0 if full else parameters.default_queue_depth,
            0 if full else parameters.partition_job_depth,
            parameters.sched_max_job_start,
            not view.platform.partitions,
        )
        queue = list(self._queue(view)) if view.explains else self._queue(view)
        context = self._context(view, "main", self._reserving.blocks)
        blocked = main_pass(queue, context, self._empty, limits)
        if view.explains:
            explain_reasons(view, queue, self._limits, blocked)

    def _run_backfill(self, view: View) -> None:
        self._backfill.ran(view.now_s, len(view.queue))
        self._unplanned = False
        if not view.queue:
            return
        plans_all = self._preemptor.active or view.explains
        most = None if plans_all else int(view.nodes.amounts[: view.nodes.slots.nodes].sum())
        queue = list(self._queue(view, most))
        if not queue:
            return
        site = self._site
        settings = BackfillSettings(site.scheduler, int(site.kill_wait_s), plans_all)
        plan = backfill(queue, self._context(view, "backfill", self._reserving.plans), settings)
        if view.explains:
            explain_plan(view, plan, self._clock)

    def _context(
        self, view: View, by: str, reserves: Callable[[Candidate, float], bool]
    ) -> PassContext:
        """Return what a pass of a scheduler sees and does; `by`: `main` or `backfill`."""
        return PassContext(
            self._clock.second(view.now_s),
            nodes_available(view.nodes, self._responses.unavailable),
            self._preemptor.suspensions.windows(view, self._windows),
            lambda: self._future(view),
            lambda candidate: self._held(view, candidate),
            lambda candidate: self._stops(view, candidate),
            lambda candidate: reserves(candidate, view.now_s),
            lambda candidate, found: self._start(view, candidate, found, by),
            lambda candidate, nodes: self._preempt(view, candidate, nodes, by),
        )

    def _queue(self, view: View, most: int | None = None) -> Iterable[Candidate]:
        """Return the candidates; `most` as in `Candidates.ordered`."""
        jobs = self._requeues.ready(self._priorities.ordered(view), view.now_s)
        return self._candidates.ordered(jobs, self._priorities.priority, most)

    def _held(self, view: View, candidate: Candidate) -> bool:
        """Return whether a limit holds a job, which holds no other job then, or has started."""
        job = candidate.job
        return job.job_id not in view.queue or bool(
            self._limits.held(job, view.now_s, candidate.partition)
        )

    def _stops(self, view: View, candidate: Candidate) -> bool:
        """Return whether a held job holds later jobs of its partition (`assoc_limit_stop`)."""
        job = candidate.job
        if not self._site.scheduler.assoc_limit_stop or job.job_id not in view.queue:
            return False
        return bool(self._limits.held_by_account(job, view.now_s, candidate.partition))

    def _future(self, view: View) -> Future:
        return Future(
            view.nodes.amounts,
            self._running.ends(),
            view.nodes.slots,
            self._order,
            self._switch_waits.waits,
        )

    def _start(self, view: View, candidate: Candidate, found: Found, by: str) -> bool:
        job = candidate.job
        tasks = tasks_on_nodes(job, candidate.demand.request.cores_per_task, found.cores)
        if not view.start(job, found.nodes.tolist(), cores=tasks.tolist()):
            return False
        self._running.started(job)
        self._pings.responded(found.nodes.min(keepdims=True), view.now_s)
        self._limits.start(job)
        self._backfill.changed(view.now_s)
        self._candidates.forget([job])
        self.started_by[job.job_id] = by
        return True

    def _preempt(self, view: View, candidate: Candidate, nodes: NodeSet, by: str) -> Found | None:
        """End or suspend jobs for another, which starts if they are suspended; return its place."""
        room = self._preemptor.make_room(view, candidate, nodes, self._running)
        if room is None:
            return None
        if room.is_free:
            self._stale = True  # other jobs may preempt as well
            self._main.request(view.now_s)
            self._start(view, candidate, room.place, by)
        return room.place

    def _set_alarm(self, view: View) -> None:
        now_s = view.now_s
        next_s = min(self._running.next_s(view), self._deadlines.next_s(view))
        if view.queue and not self._limits.give_up(view, self._admission.misfit):
            due_s = min(self._immediate_s, self._main_due_s(view))
            next_s = min(next_s, due_s, self._priorities.next_s, self._waited_s)
            if self._site.scheduler.backfill and self._may_backfill(view):
                next_s = min(next_s, self._backfill.next_s())
            if self._windows is not None:
                next_s = min(next_s, self._windows.next_s(now_s))
        if next_s <= now_s:
            next_s = math.nextafter(now_s, math.inf)
        self._alarm.set_or_cancel(view, next_s)


def slurm(site: SiteSettings) -> SlurmPolicy:
    """Return the policy of a site; see `SlurmPolicy`. Each simulation needs its own."""
    return SlurmPolicy(site)
