"""The passes of the main scheduler and of the backfill scheduler (`sched/backfill`).

Sources: slurm.conf(5), `SchedulerParameters`; https://slurm.schedmd.com/sched_config.html, section
"Backfill Scheduling". Where these are silent, the model follows what Slurm 22.05 was observed to
plan; see docs/explanation/slurm-policy.md.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct

from hpcosim_schedulers.slurm.future import Candidate, Found, Future, NodeSet, set_of_mask
from hpcosim_schedulers.slurm.multifactor import Priorities
from hpcosim_schedulers.slurm.settings import SchedulerParameters, SiteSettings


class NodeSpace:
    """The nodes that planned jobs leave free, by time.

    The plan reserves whole nodes, although jobs hold cores (`backfill.c`, `_add_reservation`).

    Args:
        begin: time of the pass.
        end: end of the plan (`bf_window`).
        resolution: resolution of reservations, s (`bf_resolution`).
    """

    def __init__(self, begin: int, end: int, nodes: NodeSet, resolution: int) -> None:
        self._begins = [begin]
        self._free = [nodes]
        self._end = end
        self._resolution = resolution

    def free_during(self, start: int, end: int) -> tuple[NodeSet, int | None]:
        """Return the nodes that are free from `start` to `end`, and the next time to try.

        The next time is when the reservations that hold at `start` next change; None: never.
        """
        begins, free = self._begins, self._free
        at = bisect_right(begins, start) - 1
        later = begins[at + 1] if at + 1 < len(begins) else None
        nodes = free[at]
        at += 1
        while at < len(begins) and begins[at] <= end:
            nodes &= free[at]
            at += 1
        return nodes, later

    def begin_of(self, time: int, least: int) -> int:
        """Return a time to try: the begin of the record that ends at or after a time."""
        return max(self._begins[max(bisect_left(self._begins, time) - 1, 0)], least)

    def reserve(self, start: int, end: int, nodes: NodeSet) -> None:
        """Reserve nodes from `start` to `end`, both rounded down to the resolution."""
        start = max(start // self._resolution * self._resolution, self._begins[0])
        end = min(end // self._resolution * self._resolution, self._end)
        if end <= start:
            return
        first = self._split(start)
        last = self._split(end) if end < self._end else len(self._begins)
        for at in range(first, last):
            self._free[at] &= ~nodes

    def overlaps(self, start: int, end: int, nodes: NodeSet) -> bool:
        """Return whether `reserve` would reserve a node that is reserved already."""
        begins, free = self._begins, self._free
        start = max(start // self._resolution * self._resolution, begins[0])
        end = end // self._resolution * self._resolution
        at = bisect_right(begins, start) - 1
        while start < end and at < len(begins) and begins[at] < end:
            if nodes & ~free[at]:
                return True
            at += 1
        return False

    def _split(self, time: int) -> int:
        """Return the index of the record that begins at a time, which is inserted if needed."""
        at = bisect_right(self._begins, time) - 1
        if self._begins[at] == time:
            return at
        self._begins.insert(at + 1, time)
        self._free.insert(at + 1, self._free[at])
        return at + 1


class BackfillCounts:
    """Counts of jobs against the limits of a pass."""

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


MOST_TRIES = 1000
"""Maximum number of times at which a pass tries a job."""

STARTED = 0
"""Planned start of a job that has started."""


class Planned(Struct, frozen=True, gc=False):
    """A planned start of a job."""

    job_id: int
    start: int
    nodes: NodeSet


@dataclass(frozen=True, slots=True)
class BackfillSettings:
    """Settings of a pass.

    Attributes:
        kill_wait: KillWait, s.
        plans_all: whether to plan also jobs behind the last that could start now. Needed if any
            job may preempt others.
    """

    parameters: SchedulerParameters
    kill_wait: int
    plans_all: bool = False


def backfill(
    queue: Iterable[Candidate], context: PassContext, settings: BackfillSettings
) -> list[Planned]:
    """Start jobs that delay no planned start of a job before them, and return the plan.

    Args:
        queue: waiting jobs by priority. A job in several partitions comes several times.
    """
    one_pass = _BackfillPass(list(queue), context, settings)
    one_pass.run()
    return one_pass.plan


class _BackfillPass:
    """The state of a pass."""

    def __init__(
        self, candidates: list[Candidate], context: PassContext, settings: BackfillSettings
    ) -> None:
        parameters, now = settings.parameters, context.now
        self._candidates, self._context, self._settings = candidates, context, settings
        self._latest = now + int(parameters.bf_window_s)
        resolution = max(int(parameters.bf_resolution_s), 1)
        self._space = NodeSpace(now, self._latest, context.available, resolution)
        self._free = context.future()
        self._counts = BackfillCounts(parameters)
        self._starts: dict[int, int] = {}  # planned start of a job, or STARTED
        self._stopped: set[str] = set()  # partitions that start no further job
        self._last = self._last_that_could_start(len(candidates))
        self.plan: list[Planned] = []

    def run(self) -> None:
        """Consider the jobs one after the other."""
        for number, candidate in enumerate(self._candidates):
            if number > self._last or self._counts.no_more_starts:
                break
            if not self._may_be_tested(candidate) or not self._counts.admit(candidate):
                continue
            if self._counts.no_more_tests:
                break
            found = self._earliest(candidate)
            if found is None:
                continue
            if found[0] > self._context.now:
                self._plan(candidate, *found)
            elif self._context.start(candidate, found[1]):
                self._starts[candidate.job.job_id] = STARTED
                self._counts.started += 1
                self._free = self._context.future()
                self._last = self._last_that_could_start(self._last + 1)

    def _may_be_tested(self, candidate: Candidate) -> bool:
        """Return whether a job has not started, and no limit holds it."""
        if self._starts.get(candidate.job.job_id) == STARTED:
            return False
        if candidate.partition in self._stopped:
            return False
        if not self._context.held(candidate):
            return True
        if self._context.stops(candidate):
            self._stopped.add(candidate.partition)
        return False

    def _plan(self, candidate: Candidate, start: int, found: Found) -> None:
        """Reserve nodes for a job that cannot start now.

        A job in several partitions may get a reservation in each of them, unless
        `bf_one_resv_per_job` is set.
        """
        job_id, parameters = candidate.job.job_id, self._settings.parameters
        if self._settings.plans_all:
            place = self._context.preempt(candidate, self._nodes_now(candidate))
            if place is not None:
                start, found = self._context.now + 1, place
        earlier = self._starts.get(job_id)
        if start > self._latest or (earlier is not None and parameters.bf_one_resv_per_job):
            return
        if not self._context.reserves(candidate):
            return
        nodes = found.node_set
        if self._counts.reserves(candidate):
            self._space.reserve(start, start + candidate.limit, nodes)
            self._last = self._last_that_could_start(self._last + 1)
        if earlier is None or start < earlier:
            self._starts[job_id] = start
            self.plan.append(Planned(job_id, start, nodes))

    def _earliest(self, candidate: Candidate) -> tuple[int, Found] | None:
        """Return the earliest start of a job beside planned jobs and reservations."""
        now, free, windows = self._context.now, self._free, self._context.windows
        least = free.not_before(candidate, now)
        if least is None:
            return None
        at = self._space.begin_of(least, now) if windows is None else now
        for _ in range(MOST_TRIES):
            end = at + candidate.limit
            nodes, later = self._space.free_during(at, end)
            nodes &= candidate.suitable
            if windows is not None:
                permitted, change = windows.permitted(candidate, at, end)
                nodes &= permitted
                if change is not None and (later is None or change < later):
                    later = change
            possible = free.earliest(candidate, nodes, now, self._settings.kill_wait, later)
            if possible is not None:
                start = max(possible[0], at)
                if later is None or start <= later:
                    found = free.find(candidate, nodes, possible[1])
                    if found is not None and not self._overlaps(candidate, at, start, found):
                        return start, found
                    later = start if found is not None else later
            if later is None:
                return None
            at = later
        return None

    def _overlaps(self, candidate: Candidate, at: int, start: int, found: Found) -> bool:
        """Return whether a planned start would overlap the plan of a job before it.

        The nodes are free from `at`, the time that was tried, for the limit of the job. It ends
        later than that if it starts later.
        """
        return start > at and self._space.overlaps(start, start + candidate.limit, found.node_set)

    def _last_that_could_start(self, end: int) -> int:
        """Return the number of the last job before `end` that could start now; -1: none.

        What a pass starts or plans only takes nodes away and adds to what limits count, so that a
        job that could not start before cannot either. The plan of later jobs has no effect. A pass
        that is to plan all considers all.
        """
        if self._settings.plans_all:
            return end - 1
        cores = self._free.free_cores
        space, now = self._space, self._context.now
        for number in range(end - 1, -1, -1):
            candidate = self._candidates[number]
            if candidate.job.cores <= cores:
                nodes = space.free_during(now, now + candidate.limit)[0] & candidate.suitable
                if self._free.fits(candidate, nodes) and not self._context.held(candidate):
                    return number
        return -1

    def _nodes_now(self, candidate: Candidate) -> NodeSet:
        """Return the nodes on which a job could start now beside planned jobs and reservations."""
        now = self._context.now
        free = self._space.free_during(now, now + candidate.limit)[0]
        return free & self._context.permitted_now(candidate)


@dataclass(frozen=True, slots=True)
class MainLimits:
    """Limits of a pass.

    Attributes:
        jobs: maximum number of jobs considered; 0: no limit.
        jobs_of_partition: the same for each partition.
        starts: maximum number of jobs started; 0: no limit.
        ends_at_first: whether the cluster has no partitions: the first job that does not fit ends
            the pass.
    """

    jobs: int = 0
    jobs_of_partition: int = 0
    starts: int = 0
    ends_at_first: bool = False


def main_pass(
    queue: Iterable[Candidate], context: PassContext, empty: Future, limits: MainLimits
) -> list[Candidate]:
    """Start jobs by priority until each partition has a job that does not fit.

    Args:
        queue: waiting jobs by priority. A job in several partitions comes several times.
        empty: the resources if no job ran. A job that does not fit there either, because nodes are
            down or reserved, does not block its partition.

    Returns:
        The jobs at which the pass stopped, one of each partition.
    """
    free, available = context.future(), context.available
    started: set[int] = set()
    blocked: dict[str, Candidate] = {}
    tested: Counter[str] = Counter()
    for number, candidate in enumerate(queue):
        partition = candidate.partition
        if candidate.job.job_id in started or partition in blocked:
            continue
        if 0 < limits.jobs <= number or 0 < limits.starts <= len(started):
            break
        if context.held(candidate):
            blocks = context.stops(candidate)
        else:
            tested[partition] += 1
            if 0 < limits.jobs_of_partition < tested[partition]:
                continue
            permitted = context.permitted_now(candidate)
            found = free.find(candidate, permitted & available)
            if found is not None and context.start(candidate, found):
                started.add(candidate.job.job_id)
                free = context.future()
            blocks = found is None and empty.fits(candidate, permitted & context.available)
            if blocks:
                context.preempt(candidate, permitted & available)
                blocks = context.reserves(candidate)
        if blocks:
            blocked[partition] = candidate
            if limits.ends_at_first:
                break
            # Jobs of other partitions must not take the nodes that this one waits for.
            for choice in candidate.choices:
                available &= ~set_of_mask(choice.nodes)
    return list(blocked.values())


class ReservingJobs:
    """Tells which jobs block their partition in the main scheduler and get planned starts.

    A job that does neither is passed over as long as it lacks resources. Both schedulers ask for
    the least waiting time and the least priority. A QOS with `no_reserve` concerns the backfill
    scheduler alone.
    """

    def __init__(self, site: SiteSettings, priorities: Priorities) -> None:
        self._qos, self._priorities = site.qos, priorities
        self._least_wait_s = site.scheduler.bf_min_age_reserve_s
        self._least_priority = site.scheduler.bf_min_prio_reserve
        self._thresholds = any(qos.min_prio_threshold for qos in site.qos.values())
        self._any_no_reserve = any("no_reserve" in qos.flags for qos in site.qos.values())

    @property
    def depends_on_priority(self) -> bool:
        """Whether a change of priorities may change which jobs reserve."""
        return bool(self._least_priority or self._thresholds)

    def blocks(self, candidate: Candidate, now_s: float) -> bool:
        """Return whether a job that lacks resources blocks its partition in the main scheduler."""
        job = candidate.job
        if self._least_wait_s and now_s - self._priorities.since_s(job) < self._least_wait_s:
            return False
        if not self.depends_on_priority:
            return True
        least = self._threshold(candidate)
        return not least or self._priorities.priority(job, candidate.partition) >= least

    def plans(self, candidate: Candidate, now_s: float) -> bool:
        """Return whether the backfill scheduler reserves nodes for a job."""
        if self._any_no_reserve:
            own = self._qos.get(self._priorities.charges.own_qos(candidate.job))
            if own is not None and "no_reserve" in own.flags:
                return False
        return self.blocks(candidate, now_s)

    def _threshold(self, candidate: Candidate) -> int:
        """Return the least priority: that of the first QOS that has one, or that of the cluster."""
        names = self._priorities.charges.qos_of(candidate.job, candidate.partition)
        stated = (self._qos[name].min_prio_threshold for name in names)
        return next(filter(None, stated), self._least_priority)


class Windows(Protocol):
    """The nodes that advance reservations leave to a job."""

    def permitted(self, candidate: Candidate, start: int, end: int) -> tuple[NodeSet, int | None]:
        """Return the nodes, and when the next reservation after `start` begins or ends."""


@dataclass(frozen=True, slots=True)
class PassContext:
    """The cluster and the rules of the site at the time of a pass.

    Attributes:
        now: time of the pass, seconds of the site's clock.
        windows: advance reservations; None: there are none.
        future: returns the free resources; called again after each start.
        held: tells whether a limit holds a job.
        stops: tells whether a job that a limit holds also holds later jobs of its partition.
        reserves: tells whether later jobs must leave the resources to a job that lacks some now.
        start: starts a job, and returns whether it started.
        preempt: ends jobs on some nodes for another job that would wait otherwise, and returns its
            place; None: it did not.
    """

    now: int
    available: NodeSet
    windows: Windows | None
    future: Callable[[], Future]
    held: Callable[[Candidate], bool]
    stops: Callable[[Candidate], bool]
    reserves: Callable[[Candidate], bool]
    start: Callable[[Candidate, Found], bool]
    preempt: Callable[[Candidate, NodeSet], Found | None]

    def permitted_now(self, candidate: Candidate) -> NodeSet:
        """Return the suitable nodes that advance reservations leave to a job that starts now."""
        if self.windows is None:
            return candidate.suitable
        end = self.now + candidate.limit
        return candidate.suitable & self.windows.permitted(candidate, self.now, end)[0]
