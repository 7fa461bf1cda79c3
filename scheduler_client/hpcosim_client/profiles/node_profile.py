"""A profile of the free cores of every node, and of all other resources."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

import numpy as np

from hpcosim_client.free_resources import fill, find_cores, usable_nodes
from hpcosim_client.job import Allocation, Bools, Floats, Ints, Job
from hpcosim_client.profiles.reservation import Reservation, split_step
from hpcosim_client.view import View

Freed = tuple[float, Ints, Ints]
"""Simulated second, node numbers, cores of each node."""


class NodeProfile:
    """A profile of the free cores of every node, and of all other resources.

    `_free[i]` are free from `_times_s[i]` until `_times_s[i + 1]`: int64[nodes], cores, if all jobs
    only need cores; otherwise int64[slots], see `FreeResources.amounts`. The slots of the cores are
    the first, so a node number is also the slot of its cores.

    Args:
        view: the view, with the running jobs.
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
            job: a waiting job.
            start_s: start, simulated seconds.
            end_s: end, simulated seconds.
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
