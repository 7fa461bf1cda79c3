"""The profile of free cores for a view."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from operator import attrgetter, itemgetter
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from hpcosim_client.free_resources import fill, find_cores, usable_nodes
from hpcosim_client.job import Allocation, Bools, Floats, Ints, Job
from hpcosim_client.view import View


class Reservation(NamedTuple):
    """Cores reserved for a job, from a start on for its requested time.

    Attributes:
        start_s: when the nodes are allocated, simulated seconds.
        allocation: the nodes; None in profiles that only count.
        boot_s: seconds for which the nodes boot before the job runs.
    """

    start_s: float
    allocation: Allocation | None
    boot_s: float = 0.0

    @property
    def runs_s(self) -> float:
        """When the job starts to run, simulated seconds."""
        return self.start_s + self.boot_s


class Profile(Protocol):
    """The free cores from now on, by requested run times, minus the reservations.

    A job that overruns its request counts as ending now. A profile can therefore show cores as free
    that are still in use; `start` also checks that they are free.
    """

    def earliest(self, job: Job, after_s: float = -math.inf) -> Reservation | None:
        """Return the earliest reservation at or after `after_s` that fits; None: none ever does."""

    def fits(self, job: Job, reservation: Reservation) -> bool:
        """Return whether the cores of a reservation are free for the job's requested time."""

    def reserve(self, job: Job, reservation: Reservation) -> None:
        """Make a reservation for a job. It must fit, see `fits`."""

    def release(self, job: Job) -> None:
        """Cancel the reservation of a job."""

    def start(self, view: View, job: Job, allocation: Allocation | None = None) -> bool:
        """Start a job now if that delays no reservation, and return whether it started.

        Args:
            allocation: the preferred nodes; None: no preference.
        """

    def start_each(self, view: View, jobs: Sequence[Job]) -> None:
        """Start those of some waiting jobs that `start` would start, in this order."""

    def copy(self) -> Profile:
        """Return a profile of its own with the same reservations, to try others."""


F = TypeVar("F")


def split_step(times_s: list[float], free: list[F], at_s: float) -> int:
    """Make a step of a profile begin at `at_s`, and return its index."""
    step = bisect_right(times_s, at_s) - 1
    if times_s[step] == at_s:
        return step
    times_s.insert(step + 1, at_s)
    free.insert(step + 1, free[step])
    return step + 1


Freed = tuple[float, Ints, Ints]
"""Simulated second, node numbers, cores of each node."""


class NodeProfile:
    """A profile of the free cores of every node, and of all other resources.

    `_free[i]` are free from `_times_s[i]` until `_times_s[i + 1]`: int64[nodes], cores, if all jobs
    only need cores; otherwise int64[slots], see `FreeResources.amounts`. The slots of the cores are
    the first, so a node number is also the slot of its cores.

    Args:
        free: int64[nodes], cores that are free now.
        returning: cores that become free, beside those of running jobs.
        late_s: simulated second at which overdue ends are expected; None: now.
    """

    def __init__(
        self,
        view: View,
        free: Ints,
        returning: Iterable[Freed],
        late_s: float | None = None,
    ) -> None:
        self._nodes = view.nodes
        self._capacity, self._count = view.nodes.capacity, len(free)
        self._every: Ints = np.arange(self._count)
        if not view.is_plain:
            free = np.concatenate([free, view.nodes.amounts[self._count :]])
        self._kept: dict[int, Reservation] = {}
        self._times_s = [view.now_s]
        self._free = [free.copy()]
        late_s = view.now_s if late_s is None else late_s
        ends = [
            (job.expected_end_s(late_s), *freed)
            for job in view.running.values()
            if job.allocation is not None
            for freed in _held(job.allocation)
        ]
        ends += [(max(at_s, late_s), nodes, freed) for at_s, nodes, freed in returning]
        for end_s, nodes, freed in sorted(ends, key=itemgetter(0)):
            if end_s > self._times_s[-1]:
                self._times_s.append(end_s)
                self._free.append(self._free[-1].copy())
            self._free[-1][nodes] += freed
        if gone := view.nodes.unavailable():
            for free in self._free:
                free[gone] = 0
        self._total = [int(free[: self._count].sum()) for free in self._free]

    def earliest(self, job: Job, after_s: float = -math.inf) -> Reservation | None:
        """See `Profile`."""
        for start_s in self.starts_s(job, after_s):
            allocation = self.find(job, start_s, start_s + job.requested_s)
            if allocation is not None:
                return Reservation(start_s, allocation)
        return None

    def starts_s(self, job: Job, after_s: float) -> Iterator[float]:
        """Yield the times from `after_s` on at which enough cores are free in total for a job."""
        first = max(bisect_right(self._times_s, after_s) - 1, 0)
        times_s = [max(at_s, after_s) for at_s in self._times_s[first:]]
        if job.demand is not None:  # reservations of the platform begin and end
            changes_s = self._nodes.demands.window_changes_s(times_s[0], self._times_s[-1])
            times_s = sorted({*times_s, *changes_s})
        for at_s in times_s:
            if self.total_at(at_s) >= job.cores:
                yield at_s

    def total_at(self, at_s: float) -> int:
        """Return the number of free cores of all nodes at a time, in simulated seconds."""
        return self._total[max(bisect_right(self._times_s, at_s) - 1, 0)]

    def find(
        self,
        job: Job,
        start_s: float,
        end_s: float,
        *,
        order: Floats | None = None,
        only: Bools | None = None,
    ) -> Allocation | None:
        """Return cores that are free for a job from `start_s` to `end_s`; None: there are too few.

        Nodes with the fewest free cores before `start_s` go first, which leaves the others to jobs
        that start earlier.

        Args:
            order: float64[nodes], the first sort key; None: free cores before `start_s` alone.
            only: bool[nodes], the nodes that the job may use; None: all.
        """
        step = max(bisect_right(self._times_s, start_s) - 1, 0)
        amounts = self._least_free(start_s, end_s)
        if only is not None:
            amounts = amounts.copy()
            amounts[: self._count][~only] = 0
        free = amounts[: self._count]
        if free.sum() < job.cores:
            return None
        usable = self._every
        if job.demand is None:
            usable = usable_nodes(job, free, self._capacity)
        before = sum((each[: self._count] for each in self._free[:step]), np.zeros_like(free))
        keys = (before[usable],) if order is None else (before[usable], order[usable])
        usable = usable[np.lexsort(keys)]
        if job.demand is None:
            return fill(job, usable, free)
        return self._nodes.place_of(job, usable, amounts, start_s, end_s)

    def fits(self, job: Job, reservation: Reservation) -> bool:
        """See `Profile`."""
        allocation = reservation.allocation
        if allocation is None:  # made with a `CountProfile`
            return False
        end_s = reservation.runs_s + job.requested_s
        if not self._nodes.permits(job, allocation.nodes, reservation.start_s, end_s):
            return False
        free = self._least_free(reservation.start_s, end_s)
        return _contains(free, allocation)

    def reserve(self, job: Job, reservation: Reservation) -> None:
        """See `Profile`."""
        self._kept[job.job_id] = reservation
        self._hold(job, reservation, -1)

    def release(self, job: Job) -> None:
        """See `Profile`."""
        self._hold(job, self._kept.pop(job.job_id), 1)

    def start(self, view: View, job: Job, allocation: Allocation | None = None) -> bool:
        """See `Profile`."""
        now_s = self._times_s[0]
        end_s = now_s + job.requested_s
        if job.demand is not None and view.nodes.find(job) is None:
            return False
        present = view.nodes.free if self._count == len(self._free[0]) else view.nodes.amounts
        free = np.minimum(self._least_free(now_s, end_s), present)
        if allocation is None or not _contains(free, allocation):
            if job.demand is None:
                allocation = find_cores(job, free[: self._count], self._capacity)
            else:
                allocation = view.nodes.place_of(job, self._every, free, now_s, end_s)
        if allocation is None or not view.start_at(job, allocation):
            return False
        self.reserve(job, Reservation(now_s, allocation))
        return True

    def start_each(self, view: View, jobs: Sequence[Job]) -> None:
        """See `Profile`."""
        for job in jobs:
            if job.cores <= view.nodes.free_cores:
                self.start(view, job)

    def copy(self) -> NodeProfile:
        """See `Profile`."""
        other = copy(self)  # the arrays of `_free` are never changed in place
        other._kept, other._times_s = self._kept.copy(), self._times_s.copy()
        other._free, other._total = self._free.copy(), self._total.copy()
        return other

    def _least_free(self, start_s: float, end_s: float) -> Ints:
        first = bisect_right(self._times_s, start_s) - 1
        least = self._free[first]
        for step in range(first + 1, len(self._times_s)):
            if self._times_s[step] >= end_s:
                break
            least = np.minimum(least, self._free[step])
        return least

    def _hold(self, job: Job, reservation: Reservation, sign: int) -> None:
        start_s, allocation, _ = reservation
        assert allocation is not None
        end_s = reservation.runs_s + job.requested_s
        first, last = (self._split(at_s) for at_s in (start_s, end_s))
        for step in range(first, last):
            self._free[step] = self._free[step].copy()
            for slots, amounts in _held(allocation):
                self._free[step][slots] += sign * amounts
            self._total[step] += sign * allocation.cores

    def _split(self, at_s: float) -> int:
        step = split_step(self._times_s, self._free, at_s)
        if len(self._total) < len(self._free):
            self._total.insert(step, self._total[step - 1])
        return step


def _held(allocation: Allocation) -> Iterator[tuple[Ints, Ints]]:
    """Yield slots and amounts that a job holds: cores, then other resources."""
    yield allocation.nodes, allocation.cores_per_node
    if allocation.held is not None:
        yield allocation.held.slots, allocation.held.amounts


def _contains(free: Ints, allocation: Allocation) -> bool:
    """Return whether free amounts are sufficient for an allocation."""
    return all((free[slots] >= amounts).all() for slots, amounts in _held(allocation))


def node_profile(view: View, late_s: float | None = None) -> NodeProfile:
    """Return the profile of when the cores of each node can be allocated; see `NodeProfile`."""
    back = [
        (at_s, np.array([node]), np.array([cores]))
        for at_s, node, cores in view.nodes.returning()
        if at_s < math.inf
    ]
    return NodeProfile(view, view.nodes.free, back, late_s)


class CountProfile:
    """A profile of the number of free cores, or of free whole nodes.

    `_free[i]` are free from `_times_s[i]` until `_times_s[i + 1]`; the last count has no end.

    Args:
        returning: (time in simulated seconds, number) of nodes that are being switched off.
    """

    def __init__(
        self,
        view: View,
        free: int,
        need: Callable[[Job], int],
        returning: Iterable[tuple[float, int]] = (),
    ) -> None:
        self._need = need
        self._kept: dict[int, float] = {}
        self._times_s = [view.now_s]
        self._free = [free]
        now_s = view.now_s
        ends = [(job.expected_end_s(now_s), need(job)) for job in view.running.values()]
        ends += [(max(at_s, now_s), freed) for at_s, freed in returning if at_s < math.inf]
        ends.sort()
        last_s = now_s
        for end_s, freed in ends:
            free += freed
            if end_s > last_s:
                last_s = end_s
                self._times_s.append(end_s)
                self._free.append(free)
            else:
                self._free[-1] = free

    def earliest(self, job: Job, after_s: float = -math.inf) -> Reservation | None:
        """See `Profile`."""
        times_s, free, need = self._times_s, self._free, self._need(job)
        first = self._step_at(after_s)
        while first < len(times_s):
            start_s = max(times_s[first], after_s)
            short = self._first_short(first, start_s + job.requested_s, need)
            if short is None:
                return Reservation(start_s, None)
            first = short + 1
            while first < len(free) and free[first] < need:
                first += 1
        return None

    def fits(self, job: Job, reservation: Reservation) -> bool:
        """See `Profile`."""
        start_s = reservation.start_s
        end_s = start_s + job.requested_s
        return self._first_short(self._step_at(start_s), end_s, self._need(job)) is None

    def reserve(self, job: Job, reservation: Reservation) -> None:
        """See `Profile`."""
        start_s = reservation.start_s
        self._kept[job.job_id] = start_s
        self._add(-self._need(job), start_s, start_s + job.requested_s)

    def release(self, job: Job) -> None:
        """See `Profile`."""
        start_s = self._kept.pop(job.job_id)
        self._add(self._need(job), start_s, start_s + job.requested_s)

    def start(self, view: View, job: Job, allocation: Allocation | None = None) -> bool:
        """See `Profile`."""
        now = Reservation(self._times_s[0], None)
        if not self.fits(job, now) or not view.start(job):
            return False
        self.reserve(job, now)
        return True

    def start_each(self, view: View, jobs: Sequence[Job]) -> None:
        """See `Profile`."""
        now_s, lows = self._times_s[0], self._lows()
        last_s, least = lows[-1]
        needs = [
            (job, needed)
            for job, needed in zip(jobs, map(self._need, jobs), strict=True)
            if needed <= least or now_s + job.requested_s <= last_s
        ]
        for job, needed in needs:
            if job.cores > view.nodes.free_cores:
                continue
            fits = True
            for from_s, low in lows:
                if needed > low:
                    fits = now_s < from_s >= now_s + job.requested_s
                    break
            if fits and view.start(job):
                self.reserve(job, Reservation(now_s, None))
                lows = self._lows()

    def copy(self) -> CountProfile:
        """See `Profile`."""
        other = copy(self)
        other._kept, other._times_s = self._kept.copy(), self._times_s.copy()
        other._free = self._free.copy()
        return other

    def _lows(self) -> list[tuple[float, int]]:
        """Return the time and the count of the first step, and of each step with a new least."""
        least = self._free[0]
        lows = [(self._times_s[0], least)]
        for at_s, free in zip(self._times_s, self._free, strict=True):
            if free < least:
                least = free
                lows.append((at_s, free))
        return lows

    def _step_at(self, at_s: float) -> int:
        return max(bisect_right(self._times_s, at_s) - 1, 0)

    def _first_short(self, first: int, until_s: float, need: int) -> int | None:
        """Return the first step from `first` on, before `until_s`, with less than `need`."""
        for step in range(first, len(self._free)):
            if step > first and self._times_s[step] >= until_s:
                return None
            if self._free[step] < need:
                return step
        return None

    def _add(self, amount: int, start_s: float, end_s: float) -> None:
        times_s, free = self._times_s, self._free
        first = split_step(times_s, free, start_s)
        last = split_step(times_s, free, end_s)
        for step in range(first, last):
            free[step] += amount


def profile_of(view: View) -> Profile:
    """Return the profile of free cores that running jobs leave, by their requested run times.

    A count of free cores is sufficient if no job restricts its placement, and a count of free nodes
    if all jobs take whole nodes and all nodes have the same number of cores. Otherwise the profile
    has the free cores of every node, and of all other resources if a job needs more than cores.

    Example:
        >>> profile = profile_of(view)
        >>> shadow = profile.earliest(view.queue.first())  # start of the head of the queue
    """
    back = view.nodes.returning()
    if not view.is_plain:
        return node_profile(view)
    if view.placements == {"cores"}:
        returning = [(at_s, cores) for at_s, _, cores in back]
        return CountProfile(view, view.nodes.free_cores, attrgetter("cores"), returning)
    node_cores = int(view.nodes.capacity[0])
    if view.placements == {"whole_nodes"} and (view.nodes.capacity == node_cores).all():
        idle = int((view.nodes.free == node_cores).sum())
        returning = [(at_s, 1) for at_s, _, cores in back if cores == node_cores]
        return CountProfile(view, idle, lambda job: -(-job.cores // node_cores), returning)
    return node_profile(view)
