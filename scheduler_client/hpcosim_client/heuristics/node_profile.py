"""A profile of the free cores of every node."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter

import numpy as np

from hpcosim_client.free_resources import fill, find_cores, usable_nodes
from hpcosim_client.heuristics.reservation import Reservation, split_step
from hpcosim_client.job import Allocation, Bools, Floats, Ints, Job
from hpcosim_client.view import View

Freed = tuple[float, Ints, Ints]
"""Simulated second, node numbers, cores of each node."""


class NodeProfile:
    """A profile of the free cores of every node.

    `_free[i]`, int64[nodes], are free from `_times_s[i]` until `_times_s[i + 1]`.

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
        self._capacity = view.nodes.capacity
        self._kept: dict[int, Reservation] = {}
        self._times_s = [view.now_s]
        self._free = [free.copy()]
        late_s = view.now_s if late_s is None else late_s
        ends = [
            (job.expected_end_s(late_s), job.allocation.nodes, job.allocation.cores_per_node)
            for job in view.running.values()
            if job.allocation is not None
        ]
        ends += [(max(at_s, late_s), nodes, freed) for at_s, nodes, freed in returning]
        for end_s, nodes, freed in sorted(ends, key=itemgetter(0)):
            if end_s > self._times_s[-1]:
                self._times_s.append(end_s)
                self._free.append(self._free[-1].copy())
            self._free[-1][nodes] += freed
        self._total = [int(free.sum()) for free in self._free]

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
        for step in range(first, len(self._times_s)):
            if self._total[step] >= job.cores:
                yield max(self._times_s[step], after_s)

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
        free = self._least_free(start_s, end_s)
        if only is not None:
            free = np.where(only, free, 0)
        if free.sum() < job.cores:
            return None
        usable = usable_nodes(job, free, self._capacity)
        before = np.zeros_like(free) + sum(self._free[:step])
        keys = (before[usable],) if order is None else (before[usable], order[usable])
        return fill(job, usable[np.lexsort(keys)], free)

    def fits(self, job: Job, reservation: Reservation) -> bool:
        """See `Profile`."""
        allocation = reservation.allocation
        if allocation is None:  # made with a `CountProfile`
            return False
        free = self._least_free(reservation.start_s, reservation.runs_s + job.requested_s)
        return bool((free[allocation.nodes] >= allocation.cores_per_node).all())

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
        free = np.minimum(self._least_free(now_s, now_s + job.requested_s), view.nodes.free)
        if allocation is None or (free[allocation.nodes] < allocation.cores_per_node).any():
            allocation = find_cores(job, free, self._capacity)
        if allocation is None or not view.start_at(job, allocation):
            return False
        self.reserve(job, Reservation(now_s, allocation))
        return True

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
        nodes, amount = allocation.nodes, sign * allocation.cores_per_node
        first, last = (self._split(at_s) for at_s in (start_s, end_s))
        total = int(amount.sum())
        for step in range(first, last):
            self._free[step] = self._free[step].copy()
            self._free[step][nodes] += amount
            self._total[step] += total

    def _split(self, at_s: float) -> int:
        step = split_step(self._times_s, self._free, at_s)
        if len(self._total) < len(self._free):
            self._total.insert(step, self._total[step - 1])
        return step


def node_profile(view: View, late_s: float | None = None) -> NodeProfile:
    """Return the profile of when the cores of each node can be allocated; see `NodeProfile`."""
    back = [
        (at_s, np.array([node]), np.array([cores]))
        for at_s, node, cores in view.nodes.returning()
        if at_s < math.inf
    ]
    return NodeProfile(view, view.nodes.free, back, late_s)
