"""Simulations that begin with a queue: with jobs that run and wait at an instant.

All simulations of a queue have its tables in common; each has run times and submissions of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.demand import PARTS_PER_MB, UNLIMITED
from hpcosim_client.job import Allocation
from hpcosim_compiled.compiler import is_warm, load_part
from hpcosim_compiled.eligibility import depends_on_itself, eligibility_of, waits_for_more
from hpcosim_compiled.loop import ADVANCE, FINISHED, FULL
from hpcosim_compiled.policies import (
    family_of,
    part_of,
    policy_code,
    unsupported,
    unsupported_site,
)
from hpcosim_compiled.simulation import INSTANTS, infeasible
from hpcosim_compiled.slurm.state import (
    FREE,
    NO_MEMORY,
    OF_CORES,
    OF_NODE,
    STARTED,
    Site,
)
from hpcosim_compiled.slurm.tables import empty_plan, has_rules, initial_site, set_clock
from hpcosim_compiled.state import RUNNING, Ints, State, initial_state, records, with_room
from hpcosim_protocol import Platform
from hpcosim_schedulers.heuristics.list_scheduling import FIXED
from hpcosim_schedulers.slurm.settings import SiteSettings
from hpcosim_workloads.table import JobSpec, JobTable

Floats = NDArray[np.float64]


PARTS = ("lists", "easy", "conservative", "look-ahead")
"""Parts of the engine that may begin with a queue, beside those of `slurm`."""

STATELESS = ("lists", "easy")
"""Those whose policies keep no plan of jobs that may have to wait again."""


class UnsupportedQueueError(Exception):
    """The compiled engine cannot begin with a queue; the message says what it does not support."""


class RunningJob(NamedTuple):
    """A job that runs when simulations begin."""

    start_s: float
    allocation: Allocation


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue at an instant.

    Attributes:
        jobs: the jobs that run, those that wait, in submission order, and models of jobs that may
            be submitted later; without holds, begin times, dependencies and limits of arrays.
        running: the jobs that run, the first ones of `jobs`, in the order in which the scheduler
            learns of them.
        waiting: number of jobs that wait.
        free: int64[slots], what is free; see `hpcosim_client.demand.Slots`. Of a node that is
            drained, no core is.
        drained: numbers of nodes that get no jobs.
    """

    now_s: float
    platform: Platform
    jobs: JobTable
    running: Sequence[RunningJob]
    waiting: int
    free: Ints
    drained: tuple[int, ...] = ()

    @property
    def present(self) -> int:
        """Number of jobs that run or wait."""
        return len(self.running) + self.waiting


class Submitted(NamedTuple):
    """Jobs of one simulation beside those of the queue, in the order of time.

    Attributes:
        model: int64[jobs], rows of `Queue.jobs`: each is a job like this one.
        job_id: int64[jobs].
        submit_s: float64[jobs]; those that are submitted at the instant, or before, wait at it.
    """

    model: Ints
    job_id: Ints
    submit_s: Floats

    def joining(self, now_s: float) -> int:
        """Return the number of jobs that wait at the instant."""
        return int(np.searchsorted(self.submit_s, now_s, side="right"))


class Ending(NamedTuple):
    """When a simulation ends.

    Attributes:
        until_s: time after which nothing is of interest, s.
        idle_s: time without running jobs after which jobs that wait never start, s.
        least_s: time before which it does not end if jobs are left, s.
    """

    until_s: float
    idle_s: float
    least_s: float


class QueueEngine:
    """Simulates what becomes of a queue. `energy.energy_between_j` computes the energy of nodes.

    Args:
        scheduler: `slurm`, or a scheduler of the catalogue with a plan by counts of cores.
        site: settings of `slurm`; None for other schedulers, whose jobs end at their limits.

    Raises:
        UnsupportedQueueError: the compiled engine cannot begin with this queue.
    """

    def __init__(self, queue: Queue, scheduler: str, site: SiteSettings | None = None) -> None:
        self.queue = queue
        if missing := _unsupported(queue, scheduler, site):
            raise UnsupportedQueueError(missing)
        feasible = np.ones(len(queue.jobs), np.bool_)
        feasible[list(infeasible(queue.platform, queue.jobs))] = False
        if not feasible[: queue.present].all():
            raise UnsupportedQueueError("waiting jobs that can never run")
        self._site: Site | None = None
        self._scheduler, self._adds_user = scheduler, np.zeros(queue.present, np.bool_)
        if site is None:
            policy = policy_code(scheduler)
            assert policy is not None
            advance: Callable[..., int] = partial(ADVANCE[family_of(scheduler)], policy=policy)
            part = family_of(scheduler)
        else:
            from hpcosim_compiled.slurm.policy import advance_slurm

            advance = advance_slurm
            part = "slurm with rules" if has_rules(site) else "slurm"
            self._site, self._adds_user = _site_of(queue, site, feasible)
        self._advance, self._part = advance, part
        empty = initial_state(
            queue.platform,
            queue.jobs,
            feasible,
            np.arange(len(queue.jobs)),
            kill_at_walltime=site is None,
            reference_ghz=None,
        )
        self._begin = _state_of(queue, empty)
        self._chance = np.random.default_rng(0)
        self._loaded: set[str] = set()

    def supports(self, submitted: Submitted) -> bool:
        """Return whether all jobs that wait at the instant can ever run."""
        joining = submitted.joining(self.queue.now_s)
        return bool(self._begin.jobs.feasible[submitted.model[:joining]].all())

    def unsupported(self, conditions: Sequence[JobSpec]) -> str:
        """Return what it does not support of conditions, see `starts`; empty: nothing."""
        if self._site is None and family_of(self._scheduler) not in STATELESS:
            return f"conditions of jobs with the scheduler {self._scheduler}"
        new = np.flatnonzero(self._adds_user).tolist()
        if any(waits_for_more(conditions[row].request) for row in new):
            return "fair-share of users all of whose jobs wait for more than resources"
        if any(depends_on_itself(spec) for spec in conditions):
            return "jobs that depend on themselves"
        return ""

    def is_warm(self, *, conditions: bool) -> bool:
        """Return whether its code, for jobs with or without conditions, need not be compiled."""
        return is_warm(self._part_with(conditions=conditions))

    def _part_with(self, *, conditions: bool) -> str:
        return f"{self._part} with conditions" if conditions else self._part

    def simulated(
        self,
        run_s: Floats,
        watched: NDArray[np.bool_],
        submitted: Submitted,
        ending: Ending,
        site: SiteSettings | None = None,
        conditions: Sequence[JobSpec] = (),
    ) -> State:
        """Return the state in which all jobs have started whose starts are of interest.

        Its jobs are the present and the submitted ones.

        Args:
            run_s: float64[jobs], run times; infinity: until the scheduler ends them. Running jobs
                do not end before now.
            watched: bool[jobs], whether the start of a job is of interest.
            site: settings of `slurm` with the start of its controller.
            conditions: the present and the submitted jobs with their holds, begin times,
                dependencies and limits of arrays; empty: they have none.
        """
        state = self._state(run_s, watched, submitted, ending, conditions)
        advance = self._advance
        if self._site is not None:
            assert site is not None
            advance = partial(advance, policy=_site_with(self._site, self.queue, submitted, site))
        part = self._part_with(conditions=bool(conditions))
        if part not in self._loaded:
            load_part(part, lambda: advance(state, instants=0))
            self._loaded.add(part)
        while (result := advance(state, instants=INSTANTS)) != FINISHED:
            if result == FULL:
                state = with_room(state, self._chance, self._chance)
        return state

    def _state(
        self,
        run_s: Floats,
        watched: NDArray[np.bool_],
        submitted: Submitted,
        ending: Ending,
        conditions: Sequence[JobSpec],
    ) -> State:
        begin, present, running = self._begin, self.queue.present, len(self.queue.running)
        count, joining = present + len(submitted.model), submitted.joining(self.queue.now_s)
        jobs = begin.jobs[np.append(np.arange(present), submitted.model)]
        jobs.run_s, jobs.watched = run_s, watched
        jobs.submit_s[present:] = submitted.submit_s
        waiting, joined = self.queue.waiting, slice(present, present + joining)
        jobs.place[joined] = np.arange(waiting, waiting + joining)
        g = begin.g.copy()
        g.last += joining
        g.queued += joining
        g.submitted += joining
        g.jobs, g.watched = count, watched.sum()
        g.until_s, g.idle_s, g.least_s = ending
        g.busy_s = max(self.queue.now_s, ending.least_s)
        state = begin._replace(
            g=g,
            jobs=jobs,
            nodes=begin.nodes.copy(),
            free=begin.free.copy(),
            kinds=begin.kinds.copy(),
            ends=records(begin.ends.dtype, count),
            places=_resized(begin.places, len(begin.places)),
            profile=records(begin.profile.dtype, 8 * count + 8),
            lows=records(begin.lows.dtype, 8 * count + 8),
            changes=_resized(begin.changes, 2 * count),
            **{name: _resized(getattr(begin, name), count) for name in OF_JOBS},
        )
        more = slice(waiting, waiting + joining)
        state.queue[more], state.sizes[more] = np.arange(count)[joined], jobs.cores[joined]
        period = begin.jobs.period[:running]
        ends_s = jobs.start_s[:running] + np.minimum(run_s[:running], jobs.limit_s[:running])
        order = np.lexsort((period, ends_s))
        state.ends.at_s[:running], state.ends.number[:running] = ends_s[order], period[order]
        if not conditions:
            return state
        g.first = g.last = g.queued = 0  # `eligibility.begin` puts jobs into the queue
        twice = {name: _resized(getattr(state, name), 2 * count) for name in ("queue", "sizes")}
        return state._replace(eligibility=eligibility_of(conditions, present + joining), **twice)


OF_JOBS = ("due", "queue", "sizes", "keyed", "periods", "ended_idle", "rows", "keys")
"""Arrays of `State` with as many entries as there are jobs, beside `jobs` and `ends`."""


def _resized(column: Any, count: int) -> Any:
    """Return a copy of a column with another number of entries; further ones are 0."""
    found = np.zeros_like(column, shape=(count, *column.shape[1:]))
    kept = min(count, len(column))
    found[:kept] = column[:kept]
    return found


def _state_of(queue: Queue, state: State) -> State:
    """Return the state at the instant, from that in which no job has been submitted."""
    g, jobs, nodes = state.g, state.jobs, state.nodes
    running, waiting = len(queue.running), queue.waiting
    starts_s = np.array([each.start_s for each in queue.running])
    order = np.lexsort((queue.jobs.job_id[:running], starts_s)).tolist()
    places = [
        (node, tasks, held)
        for row in order
        for node, tasks, held in zip(
            *(queue.running[row].allocation[at].tolist() for at in range(3)), strict=True
        )
    ]
    counts = [len(queue.running[row].allocation.nodes) for row in order]
    room = len(places) + max(len(state.places), int(g.cores[0]))
    state = state._replace(places=records(state.places.dtype, room))
    for at, (node, tasks, held) in enumerate(places):
        state.places[at] = node, tasks
        nodes.busy[node] += tasks
        state.free[node] -= held
        state.kinds.tasks[nodes.kind[node]] += tasks
    state.kinds.computing = np.bincount(nodes.kind[nodes.busy > 0], minlength=len(state.kinds))
    state.kinds.idle -= state.kinds.computing
    state.kinds.settled_s = queue.now_s

    jobs.state[order], jobs.period[order] = RUNNING, np.arange(running)
    jobs.start_s[:running] = starts_s
    state.periods.row[:running] = order
    state.periods.places[:running] = counts
    state.periods.first_place[:running] = np.cumsum(counts) - counts
    state.changes[:running] = np.arange(running)
    due_s = starts_s + jobs.requested_s[:running]
    by_due = np.lexsort((-jobs.period[:running], due_s))  # of equal ones, the last start is first
    state.due.at_s[:running], state.due.number[:running] = due_s[by_due], by_due

    rows = np.arange(running, queue.present)
    state.queue[:waiting], state.sizes[:waiting] = rows, jobs.cores[rows]
    jobs.place[rows] = np.arange(waiting)
    g.last = g.queued = waiting
    g.placements = np.bitwise_or.reduce(1 << jobs.placement[: queue.present].astype(np.int64))
    g.now_s = g.changed_s = g.busy_s = queue.now_s
    g.free_cores = state.free.sum()
    g.submitted = queue.present
    g.running = g.ends = g.periods = g.changes = running
    g.places, g.is_woken = len(places), True
    return state


def _unsupported(queue: Queue, scheduler: str, site: SiteSettings | None) -> str:
    """Return what of a queue the compiled engine does not support; empty: nothing."""
    if len(queue.jobs) == 0:
        return "queues without jobs"
    if site is not None:
        return unsupported_site(queue.platform, queue.jobs, site)
    missing = unsupported(queue.platform, queue.jobs, scheduler)
    if missing or queue.drained:
        return missing or f"drained nodes with the scheduler {scheduler}"
    if part_of(queue.platform, queue.jobs, scheduler) not in PARTS or scheduler in FIXED:
        return f"queues with the scheduler {scheduler}"
    return ""


# The policy `slurm`.


def _site_of(
    queue: Queue, settings: SiteSettings, feasible: NDArray[np.bool_]
) -> tuple[Site, NDArray[np.bool_]]:
    """Return the state of the policy at its first call, apart from when its controller started.

    Returns:
        The state, and bool[present jobs], whether a waiting job is the first of an unknown user, so
        that the fair-share of others changes with it.
    """
    found = initial_site(queue.platform, queue.jobs, settings, feasible, queue.drained)
    site, running = found.site, len(queue.running)
    by_share = settings.priority.type == "multifactor" and settings.priority.weight_fair_share > 0
    present = found.known[: queue.present].max(initial=site.s.known[0])
    if by_share and found.known.max() > present:
        raise UnsupportedQueueError("fair-share of users who are not known before they submit")
    if (site.jobs.refused[:running] >= 0).any() and site.rules is not None:
        raise UnsupportedQueueError("running jobs that the site would reject")
    s, jobs, places = site.s, site.jobs, site.places
    nodes = queue.platform.node_count
    for row, (_, allocation) in enumerate(queue.running):
        capacity = places.amounts[0, allocation.nodes]
        is_whole = bool((allocation.cores_per_node == capacity).all())
        if not is_whole and (allocation.cores_per_node != allocation.tasks).any():
            raise UnsupportedQueueError("running jobs that hold some of their nodes as a whole")
        jobs.whole[row] = is_whole
        _hold(site, row, allocation)
    places.amounts[FREE] = queue.free
    s.free_cores = queue.free[:nodes].sum()
    s.changes = s.adopted = running
    site.lists[STARTED, :running] = np.arange(running)
    known = np.maximum.accumulate(np.append(site.s.known, found.known[: queue.present]))
    adds_user = by_share & (np.diff(known) > 0)
    adds_user[:running] = False
    return site, adds_user


def _hold(site: Site, row: int, allocation: Allocation) -> None:
    """Note the memory and the devices that a running job holds."""
    s, job, places = site.s, site.jobs[row], site.places
    nodes = places.nodes.shape[1]
    held = {}
    if allocation.held is not None:
        pairs = zip(allocation.held.slots.tolist(), allocation.held.amounts.tolist(), strict=True)
        held = {slot: amount for slot, amount in pairs if amount}
    memory, of_memory = int(s.memory[0]), range(0)
    if memory >= 0:
        of_memory = range(memory, memory + nodes)
    for node, tasks in zip(allocation.nodes.tolist(), allocation.tasks.tolist(), strict=True):
        if job.memory != NO_MEMORY and held.pop(memory + node, 0) != _memory(
            site, row, node, tasks
        ):
            raise UnsupportedQueueError("running jobs that hold less memory than they request")
    if any(slot in of_memory for slot in held):
        raise UnsupportedQueueError("running jobs that hold memory that they do not request")
    for slot, amount in held.items():  # devices
        entry = int(s.unused[0])
        if entry < 0:
            raise UnsupportedQueueError("running jobs that hold more devices than there are")
        s.unused = places.held[entry].after
        places.held[entry] = slot, amount, job.held
        job.held = entry


def _memory(site: Site, row: int, node: int, tasks: int) -> int:
    """Return the memory that a job holds on a node; see `places._memory_held`."""
    job = site.jobs[row]
    if job.memory == OF_CORES:
        return int(job.core_mb * tasks * PARTS_PER_MB)
    if job.memory == OF_NODE:
        return int(job.node_parts)
    whole = int(site.places.amounts[0, site.s.memory[0] + node])
    return 0 if whole == UNLIMITED else whole


def _site_with(begin: Site, queue: Queue, submitted: Submitted, settings: SiteSettings) -> Site:
    """Return the state of the policy at its first call in a simulation."""
    present = queue.present
    rows = np.append(np.arange(present), submitted.model)
    jobs = begin.jobs[rows]
    jobs.job_id[present:] = submitted.job_id
    jobs.first = np.cumsum(jobs.candidates) - jobs.candidates
    of = np.repeat(np.arange(len(rows)), jobs.candidates)
    first = begin.jobs.first[rows]
    candidates = begin.candidates[first[of] + np.arange(len(of)) - jobs.first[of]]
    candidates.row = of
    places, offers, rules = begin.places, begin.offers, begin.rules
    if rules is not None:
        owners = rules.owners[rows]
        owners.job_id[present:] = submitted.job_id
        owners.known[present:] = rules.owners.known.max(initial=1)
        copied = ("associations", "usage", "tres", "groups", "tres_of")
        rules = rules._replace(
            owners=owners, **{name: getattr(rules, name).copy() for name in copied}
        )
    lists = np.zeros((len(begin.lists), len(rows)), np.int64)
    running = len(queue.running)
    lists[STARTED, :running] = begin.lists[STARTED, :running]
    site = begin._replace(
        s=begin.s.copy(),
        jobs=jobs,
        candidates=candidates,
        lists=lists,
        places=places._replace(
            **{
                name: getattr(places, name).copy()
                for name in ("amounts", "masks", "nodes", "leaves", "held")
            }
        ),
        offers=offers._replace(each=offers.each.copy()),
        plan=empty_plan(queue.platform, settings, candidates, len(begin.plan.counters)),
        rules=rules,
    )
    set_clock(site, settings)
    return site
