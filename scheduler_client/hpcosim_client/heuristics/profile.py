"""What will be free when, as far as requested run times tell."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np

from hpcosim_client.job import Job
from hpcosim_client.nodes import Ints, Place, find_place
from hpcosim_client.view import View


class Profile(Protocol):
    """What is free from now on, less what is reserved.

    A job past its requested time counts as ending now, so what is free now in a profile may
    not be free yet in fact; only `start` looks at the facts.
    """

    def earliest_s(self, job: Job, after_s: float) -> float:
        """Return when, not before `after_s`, there is room for the job for all its time."""

    def reserve(self, job: Job, start_s: float) -> None:
        """Keep room for the job from `start_s` on; there must be."""

    def release(self, job: Job) -> None:
        """Undo a `reserve`."""

    def start(self, view: View, job: Job) -> bool:
        """Start the job if there is room now, in fact and for all its time, and say if so."""


def profile_of(view: View) -> Profile:
    """Return the profile of the running jobs, the simplest that tells all that matters.

    How much is free is enough to know when every job takes any cores, or when every job takes
    whole nodes and all nodes are alike. Else it matters which nodes are free.
    """
    if view.placements == {"cores"}:
        return CountProfile(view, view.nodes.free_cores, lambda job: job.cores)
    node_cores = int(view.nodes.capacity[0])
    if view.placements == {"whole_nodes"} and (view.nodes.capacity == node_cores).all():
        idle = int((view.nodes.free == node_cores).sum())
        return CountProfile(view, idle, lambda job: -(-job.cores // node_cores))
    return NodeProfile(view)


class CountProfile:
    """A profile of a number: cores, or whole nodes.

    `free[i]` are free from `times_s[i]` to the next of these, the last for ever.
    """

    def __init__(self, view: View, free: int, need: Callable[[Job], int]) -> None:
        self._need = need
        self._reserved: dict[int, float] = {}
        self._times_s = [view.now_s]
        self._free = [free]
        now_s = view.now_s
        ends = sorted((job.expected_end_s(now_s), need(job)) for job in view.running.values())
        for end_s, freed in ends:
            if end_s > self._times_s[-1]:
                self._times_s.append(end_s)
                self._free.append(self._free[-1])
            self._free[-1] += freed

    def earliest_s(self, job: Job, after_s: float) -> float:
        """See `Profile`."""
        times_s, free, need = self._times_s, self._free, self._need(job)
        first = max(bisect_right(times_s, after_s) - 1, 0)
        while first < len(times_s):
            start_s = max(times_s[first], after_s)
            short = self._first_short(first, start_s + job.requested_s, need)
            if short is None:
                return start_s
            first = short + 1
            while first < len(free) and free[first] < need:
                first += 1
        return math.inf

    def reserve(self, job: Job, start_s: float) -> None:
        """See `Profile`."""
        self._reserved[job.job_id] = start_s
        self._add(-self._need(job), start_s, start_s + job.requested_s)

    def release(self, job: Job) -> None:
        """See `Profile`."""
        start_s = self._reserved.pop(job.job_id)
        self._add(self._need(job), start_s, start_s + job.requested_s)

    def start(self, view: View, job: Job) -> bool:
        """See `Profile`."""
        need = self._need(job)
        if self._first_short(0, self._times_s[0] + job.requested_s, need) is not None:
            return False
        if not view.start(job):
            return False
        self.reserve(job, self._times_s[0])
        return True

    def _first_short(self, first: int, until_s: float, need: int) -> int | None:
        """Return the first step from `first` on, before `until_s`, with less than `need`."""
        for step in range(first, len(self._free)):
            if step > first and self._times_s[step] >= until_s:
                return None
            if self._free[step] < need:
                return step
        return None

    def _add(self, amount: int, start_s: float, end_s: float) -> None:
        first = _split(self._times_s, self._free, start_s)
        last = _split(self._times_s, self._free, end_s)
        for step in range(first, last):
            self._free[step] += amount


class NodeProfile:
    """A profile of every node's free cores: `free[i]` is int64[nodes]."""

    def __init__(self, view: View) -> None:
        self._capacity = view.nodes.capacity
        self._reserved: dict[int, tuple[float, Place]] = {}
        self._times_s = [view.now_s]
        self._free = [view.nodes.free.copy()]
        now_s = view.now_s
        running = [(job.expected_end_s(now_s), job.order, job) for job in view.running.values()]
        for end_s, _, job in sorted(running):
            assert job.place is not None
            if end_s > self._times_s[-1]:
                self._times_s.append(end_s)
                self._free.append(self._free[-1].copy())
            self._free[-1][job.place.nodes] += job.place.held

    def earliest_s(self, job: Job, after_s: float) -> float:
        """See `Profile`."""
        for first in range(max(bisect_right(self._times_s, after_s) - 1, 0), len(self._times_s)):
            start_s = max(self._times_s[first], after_s)
            if self._find(job, start_s) is not None:
                return start_s
        return math.inf

    def reserve(self, job: Job, start_s: float) -> None:
        """See `Profile`."""
        place = self._find(job, start_s)
        assert place is not None
        self._keep(job, start_s, place)

    def release(self, job: Job) -> None:
        """See `Profile`."""
        start_s, place = self._reserved.pop(job.job_id)
        self._add(place.nodes, place.held, start_s, start_s + job.requested_s)

    def start(self, view: View, job: Job) -> bool:
        """See `Profile`."""
        now_s = self._times_s[0]
        free = np.minimum(self._least_free(now_s, now_s + job.requested_s), view.nodes.free)
        place = find_place(job, free, self._capacity)
        if place is None or not view.start(job, place.nodes.tolist()):
            return False
        assert job.place is not None
        self._keep(job, now_s, job.place)
        return True

    def _find(self, job: Job, start_s: float) -> Place | None:
        free = self._least_free(start_s, start_s + job.requested_s)
        return find_place(job, free, self._capacity)

    def _least_free(self, start_s: float, end_s: float) -> Ints:
        first = bisect_right(self._times_s, start_s) - 1
        least = self._free[first]
        for step in range(first + 1, len(self._times_s)):
            if self._times_s[step] >= end_s:
                break
            least = np.minimum(least, self._free[step])
        return least

    def _keep(self, job: Job, start_s: float, place: Place) -> None:
        self._reserved[job.job_id] = (start_s, place)
        self._add(place.nodes, -place.held, start_s, start_s + job.requested_s)

    def _add(self, nodes: Ints, amount: Ints, start_s: float, end_s: float) -> None:
        first = _split(self._times_s, self._free, start_s)
        last = _split(self._times_s, self._free, end_s)
        for step in range(first, last):
            self._free[step] = self._free[step].copy()
            self._free[step][nodes] += amount


F = TypeVar("F")


def _split(times_s: list[float], free: list[F], at_s: float) -> int:
    """Make a step begin at `at_s` and return its place."""
    step = bisect_right(times_s, at_s) - 1
    if times_s[step] == at_s:
        return step
    times_s.insert(step + 1, at_s)
    free.insert(step + 1, free[step])
    return step + 1
