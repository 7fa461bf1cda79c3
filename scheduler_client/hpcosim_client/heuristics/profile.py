"""What will be free when, as far as requested run times tell."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Floats, Ints, Job, Place
from hpcosim_client.nodes import fill, find_place, usable_nodes
from hpcosim_client.view import View


class Reservation(NamedTuple):
    """Room kept for a job.

    Attributes:
        start_s: from when on, for the time it asks for.
        place: on which nodes, where that matters.
        boot_s: for how much longer it holds them, as they boot for it before it runs.
    """

    start_s: float
    place: Place | None
    boot_s: float = 0.0

    @property
    def runs_s(self) -> float:
        """When the job runs."""
        return self.start_s + self.boot_s


class Profile(Protocol):
    """What is free from now on, less what is reserved.

    A job past its requested time counts as ending now, so what is free now in a profile may
    not be free yet in fact; only `start` looks at the facts.
    """

    def earliest(self, job: Job, after_s: float) -> Reservation | None:
        """Return the earliest reservation, from `after_s` on, there is room for; None: never."""

    def has_room(self, job: Job, reservation: Reservation) -> bool:
        """Tell whether there is room for the job, just so, for all its time."""

    def keep(self, job: Job, reservation: Reservation) -> None:
        """Keep room for a job, of which there must be enough."""

    def release(self, job: Job) -> None:
        """Undo a `keep`."""

    def start(self, view: View, job: Job, place: Place | None = None) -> bool:
        """Start the job if there is room now, in fact and for all its time, and say if so.

        Args:
            view: where it waits.
            job: it.
            place: where it starts if there is room just there.
        """


def profile_of(view: View) -> Profile:
    """Return the profile of the running jobs, the simplest that tells all that matters.

    How much is free is enough to know when every job takes any cores, or when every job takes
    whole nodes and all nodes are alike. Else it matters which nodes are free.
    """
    back = view.nodes.returning()
    if view.placements == {"cores"}:
        returning = [(at_s, cores) for at_s, _, cores in back]
        return CountProfile(view, view.nodes.free_cores, lambda job: job.cores, returning)
    node_cores = int(view.nodes.capacity[0])
    if view.placements == {"whole_nodes"} and (view.nodes.capacity == node_cores).all():
        idle = int((view.nodes.free == node_cores).sum())
        returning = [(at_s, 1) for at_s, _, cores in back if cores == node_cores]
        return CountProfile(view, idle, lambda job: -(-job.cores // node_cores), returning)
    return node_profile(view)


def node_profile(view: View, late_s: float | None = None) -> NodeProfile:
    """Return the profile of when each node's cores can be given to a job; see `NodeProfile`."""
    back = [
        (at_s, np.array([node]), np.array([cores]))
        for at_s, node, cores in view.nodes.returning()
        if at_s < math.inf
    ]
    return NodeProfile(view, view.nodes.free, back, late_s)


class CountProfile:
    """A profile of a number: cores, or whole nodes.

    `free[i]` are free from `times_s[i]` to the next of these, the last for ever.

    Args:
        view: what runs.
        free: how many are free now.
        need: how many of them a job takes.
        returning: when how many more are expected, of nodes that are being switched off.
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
        for end_s, freed in sorted(ends):
            if end_s > self._times_s[-1]:
                self._times_s.append(end_s)
                self._free.append(self._free[-1])
            self._free[-1] += freed

    def earliest(self, job: Job, after_s: float) -> Reservation | None:
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

    def has_room(self, job: Job, reservation: Reservation) -> bool:
        """See `Profile`."""
        start_s = reservation.start_s
        end_s = start_s + job.requested_s
        return self._first_short(self._step_at(start_s), end_s, self._need(job)) is None

    def keep(self, job: Job, reservation: Reservation) -> None:
        """See `Profile`."""
        start_s = reservation.start_s
        self._kept[job.job_id] = start_s
        self._add(-self._need(job), start_s, start_s + job.requested_s)

    def release(self, job: Job) -> None:
        """See `Profile`."""
        start_s = self._kept.pop(job.job_id)
        self._add(self._need(job), start_s, start_s + job.requested_s)

    def start(self, view: View, job: Job, place: Place | None = None) -> bool:
        """See `Profile`."""
        now = Reservation(self._times_s[0], None)
        if not self.has_room(job, now) or not view.start(job):
            return False
        self.keep(job, now)
        return True

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
        first = _split(self._times_s, self._free, start_s)
        last = _split(self._times_s, self._free, end_s)
        for step in range(first, last):
            self._free[step] += amount


Flags = NDArray[np.bool_]
Freed = tuple[float, Ints, Ints]
"""When, on which nodes, how many cores of each."""


class NodeProfile:
    """A profile of every node's free cores: `free[i]` is int64[nodes].

    Args:
        view: what runs.
        free: int64[nodes], what is free now.
        returning: what else is expected to be, beside that of running jobs.
        late_s: when that is expected which was before; None: now.
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
        places = [(job.expected_end_s(late_s), job.place) for job in view.running.values()]
        ends = [(end_s, place.nodes, place.held) for end_s, place in places if place is not None]
        ends += [(max(at_s, late_s), nodes, freed) for at_s, nodes, freed in returning]
        for end_s, nodes, freed in sorted(ends, key=itemgetter(0)):
            if end_s > self._times_s[-1]:
                self._times_s.append(end_s)
                self._free.append(self._free[-1].copy())
            self._free[-1][nodes] += freed
        self._total = [int(free.sum()) for free in self._free]

    def earliest(self, job: Job, after_s: float) -> Reservation | None:
        """See `Profile`."""
        for start_s in self.starts_s(job, after_s):
            place = self.place(job, start_s, start_s + job.requested_s)
            if place is not None:
                return Reservation(start_s, place)
        return None

    def starts_s(self, job: Job, after_s: float) -> Iterator[float]:
        """Yield the times, from `after_s` on, at which there are cores enough for a job."""
        first = max(bisect_right(self._times_s, after_s) - 1, 0)
        for step in range(first, len(self._times_s)):
            if self._total[step] >= job.cores:
                yield max(self._times_s[step], after_s)

    def place(
        self,
        job: Job,
        start_s: float,
        end_s: float,
        *,
        order: Floats | None = None,
        only: Flags | None = None,
    ) -> Place | None:
        """Return where a job has room for all of a time, if there is.

        It is on the nodes least free before, as others may use the rest.

        Args:
            job: it.
            start_s: from when on.
            end_s: until when.
            order: float64[nodes]; nodes of less go first, whatever was free before.
            only: bool[nodes], on these; None: on any.
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

    def has_room(self, job: Job, reservation: Reservation) -> bool:
        """See `Profile`."""
        place = reservation.place
        if place is None:  # made while only numbers mattered
            return False
        free = self._least_free(reservation.start_s, reservation.runs_s + job.requested_s)
        return bool((free[place.nodes] >= place.held).all())

    def keep(self, job: Job, reservation: Reservation) -> None:
        """See `Profile`."""
        self._kept[job.job_id] = reservation
        self._hold(job, reservation, -1)

    def release(self, job: Job) -> None:
        """See `Profile`."""
        self._hold(job, self._kept.pop(job.job_id), 1)

    def start(self, view: View, job: Job, place: Place | None = None) -> bool:
        """See `Profile`."""
        now_s = self._times_s[0]
        free = np.minimum(self._least_free(now_s, now_s + job.requested_s), view.nodes.free)
        if place is None or (free[place.nodes] < place.held).any():
            place = find_place(job, free, self._capacity)
        if place is None or not view.start_at(job, place):
            return False
        self.keep(job, Reservation(now_s, place))
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
        start_s, place, _ = reservation
        assert place is not None
        end_s = reservation.runs_s + job.requested_s
        nodes, amount = place.nodes, sign * place.held
        first, last = (self._split(at_s) for at_s in (start_s, end_s))
        total = int(amount.sum())
        for step in range(first, last):
            self._free[step] = self._free[step].copy()
            self._free[step][nodes] += amount
            self._total[step] += total

    def _split(self, at_s: float) -> int:
        step = _split(self._times_s, self._free, at_s)
        if len(self._total) < len(self._free):
            self._total.insert(step, self._total[step - 1])
        return step


F = TypeVar("F")


def _split(times_s: list[float], free: list[F], at_s: float) -> int:
    """Make a step begin at `at_s` and return its place."""
    step = bisect_right(times_s, at_s) - 1
    if times_s[step] == at_s:
        return step
    times_s.insert(step + 1, at_s)
    free.insert(step + 1, free[step])
    return step + 1
