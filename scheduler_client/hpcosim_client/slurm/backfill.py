"""A pass of the backfill scheduler (`sched/backfill`).

Sources: slurm.conf(5), `SchedulerParameters`; https://slurm.schedmd.com/sched_config.html, section
"Backfill Scheduling". Where these are silent, the model follows what Slurm 22.05 was observed to
plan; see docs/explanation/slurm-policy.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from hpcosim_client.slurm.future import Candidate, Found, Future
from hpcosim_client.slurm.node_sets import NodeSet
from hpcosim_client.slurm.parameters import SchedulerParameters
from hpcosim_client.slurm.plan import NodeSpace

MOST_TRIES = 1000
"""Maximum number of times at which a pass tries a job."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned start of a job.

    Attributes:
        job_id: number of the job.
        start: planned start, seconds of the site's clock.
        nodes: planned nodes.
    """

    job_id: int
    start: int
    nodes: NodeSet


class Windows(Protocol):
    """The nodes that advance reservations leave to a job."""

    def permitted(self, candidate: Candidate, start: int, end: int) -> tuple[NodeSet, int | None]:
        """Return the nodes, and when the next reservation after `start` begins or ends."""


@dataclass(frozen=True, slots=True)
class PassSettings:
    """What a pass needs beside the jobs.

    Attributes:
        parameters: the scheduler parameters.
        now: time of the pass.
        kill_wait: KillWait, s.
        available: nodes that are up.
        plans_all: whether to plan also jobs behind the last that could start now. Needed if any
            job may preempt others.
    """

    parameters: SchedulerParameters
    now: int
    kill_wait: int
    available: NodeSet
    plans_all: bool = False


def backfill(
    queue: Iterable[Candidate],
    future: Callable[[], Future],
    held: Callable[[Candidate], bool],
    start: Callable[[Candidate, Found], bool],
    preempt: Callable[[Candidate, NodeSet], Found | None],
    windows: Windows | None,
    settings: PassSettings,
) -> list[Planned]:
    """Start jobs that delay no planned start of a job before them, and return the plan.

    Args:
        queue: waiting jobs by priority. A job in several partitions comes several times.
        future: returns the free resources; called again after each start.
        held: tells whether a limit holds a job.
        start: starts a job, and returns whether it started.
        preempt: ends jobs on some nodes for another job that would wait otherwise, and returns its
            place; None: it did not.
        windows: advance reservations; None: there are none.
        settings: see `PassSettings`.
    """
    parameters, now = settings.parameters, settings.now
    space = NodeSpace(
        now,
        now + int(parameters.bf_window_s),
        settings.available,
        max(int(parameters.bf_resolution_s), 1),
    )
    free = future()
    plan: list[Planned] = []
    over: dict[int, int] = {}  # jobs that started (0) or that have a planned start
    counts = _Counts(parameters)
    candidates = list(queue)
    last = _last_that_could_start(candidates, space, free, len(candidates), settings)
    for number, candidate in enumerate(candidates):
        if number > last:  # no later job can start now
            break
        job = candidate.job
        if over.get(job.job_id) == 0 or held(candidate) or not counts.admit(candidate):
            continue
        if counts.tested > parameters.bf_max_job_test:
            break
        found = _earliest(candidate, space, free, windows, settings)
        if found is None:
            continue
        at, chosen = found
        if at <= now:
            if start(candidate, chosen):
                over[job.job_id] = 0
                free = future()
                last = _last_that_could_start(candidates, space, free, last + 1, settings)
                counts.started += 1
                if 0 < parameters.bf_max_job_start <= counts.started:
                    break
            continue
        if settings.plans_all:
            place = preempt(candidate, _nodes_now(candidate, space, windows, now))
            if place is not None:
                at, chosen = now + 1, place
        earlier = over.get(job.job_id)
        if at > now + parameters.bf_window_s or (earlier is not None and earlier <= at):
            continue
        over[job.job_id] = at
        nodes = chosen.node_set
        if counts.reserves(candidate):
            space.reserve(at, at + candidate.limit, nodes)
            last = _last_that_could_start(candidates, space, free, last + 1, settings)
        plan.append(Planned(job.job_id, at, nodes))
    return plan


def _earliest(
    candidate: Candidate,
    space: NodeSpace,
    free: Future,
    windows: Windows | None,
    settings: PassSettings,
) -> tuple[int, Found] | None:
    """Return the earliest start of a job beside planned jobs and reservations."""
    least = free.not_before(candidate.job.cores, settings.now)
    if least is None:
        return None
    at = space.begin_of(least, settings.now) if windows is None else settings.now
    for _ in range(MOST_TRIES):
        end = at + candidate.limit
        nodes, later = space.free_during(at, end)
        nodes &= candidate.suitable
        if windows is not None:
            permitted, change = windows.permitted(candidate, at, end)
            nodes &= permitted
            if change is not None and (later is None or change < later):
                later = change
        possible = free.earliest(candidate, nodes, settings.now, settings.kill_wait, later)
        if possible is not None:
            start = max(possible[0], at)
            if later is None or start <= later:
                found = free.find(candidate, nodes, possible[1])
                if found is not None:
                    return start, found
        if later is None:
            return None
        at = later
    return None


def _last_that_could_start(
    candidates: list[Candidate], space: NodeSpace, free: Future, end: int, settings: PassSettings
) -> int:
    """Return the number of the last job before `end` that could start now; -1: none.

    What a pass starts or plans only takes nodes away, so that a job that could not start before
    cannot either. The plan of later jobs has no effect. A pass that is to plan all considers all.
    """
    if settings.plans_all:
        return end - 1
    cores = free.cores()
    for number in range(end - 1, -1, -1):
        candidate = candidates[number]
        if candidate.job.cores <= cores and free.fits(
            candidate, _nodes_now(candidate, space, None, settings.now)
        ):
            return number
    return -1


def _nodes_now(
    candidate: Candidate, space: NodeSpace, windows: Windows | None, now: int
) -> NodeSet:
    """Return the nodes on which a job could start now beside planned jobs and reservations."""
    end = now + candidate.limit
    nodes = space.free_during(now, end)[0] & candidate.suitable
    return nodes if windows is None else nodes & windows.permitted(candidate, now, end)[0]


class _Counts:
    """Counts of jobs against the limits of a pass.

    Args:
        parameters: the limits.
    """

    def __init__(self, parameters: SchedulerParameters) -> None:
        self._parameters = parameters
        self.tested = 0
        self.started = 0
        self._reserved: Counter[object] = Counter()
        self._of: dict[str, Counter[object]] = {}

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
