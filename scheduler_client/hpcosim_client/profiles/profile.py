"""The profile of free cores for a view."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from hpcosim_client.job import Allocation, Job
from hpcosim_client.profiles.node_profile import node_profile
from hpcosim_client.profiles.reservation import Profile, Reservation, split_step
from hpcosim_client.view import View

# A profile that counts free cores or free nodes.


class CountProfile:
    """A profile of the number of free cores, or of free whole nodes.

    `_free[i]` are free from `_times_s[i]` until `_times_s[i + 1]`; the last count has no end.

    Args:
        view: the view, with the running jobs.
        free: the number that is free now.
        need: the number that a job takes.
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
