"""Backfilling that knows of power states: what a job scheduler makes of nodes that are not on.

What `aware` and `planned` mean is said in `awareness`.

Aware or planned, a job scheduler may also have a job wait where that saves energy, at a price: see
`PowerExchange.wait_price_w`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from hpcosim_client.alarm import PolicyAlarm
from hpcosim_client.heuristics.awareness import Awareness as Awareness
from hpcosim_client.heuristics.profile import NodeProfile, Reservation, node_profile
from hpcosim_client.job import Floats, Job
from hpcosim_client.view import View


def power_profile(view: View, awareness: Awareness) -> NodeProfile:
    """Return the profile of when each node can be given (aware), or be on (planned).

    What should have happened by now, the end of a job or of a boot, is expected a moment from now:
    what is free now in this profile is so in fact.
    """
    late_s = a_moment_after(view.now_s)
    if awareness == "aware":
        return node_profile(view, late_s)
    nodes = view.nodes
    off = np.flatnonzero(~nodes.on)
    on_s, cores = nodes.expected_on_s(view.now_s), nodes.idle_cores(off)
    returning = [
        (float(at_s), off[at], cores[at])
        for at_s in np.unique(on_s[off])
        for at in [on_s[off] == at_s]
    ]
    return NodeProfile(view, np.where(nodes.on, nodes.free, 0), returning, late_s)


def a_moment_after(now_s: float) -> float:
    """Return the next time there is."""
    return math.nextafter(now_s, math.inf)


def cheapest_start(
    view: View,
    profile: NodeProfile,
    awareness: Awareness,
    job: Job,
    after_s: float,
    until_s: float = math.inf,
) -> Reservation | None:
    """Return the earliest start, or a later one that wakes no node, where that is worth waiting.

    It is where the energy of switching the nodes to be woken off and on is more than the further
    wait costs, at `PowerExchange.wait_price_w`.

    Args:
        view: it.
        profile: see `power_profile`.
        awareness: likewise.
        job: it waits.
        after_s: from when on it is looked for.
        until_s: by when the earliest must begin.
    """
    earliest = _earliest_given if awareness == "aware" else _earliest_on
    soonest = earliest(view, profile, job, after_s, until_s)
    if soonest is None or view.power_exchange.wait_price_w == math.inf:
        return soonest
    assert soonest.place is not None
    woken = soonest.place.nodes[view.nodes.must_be_woken()[soonest.place.nodes]]
    saved_j = float(view.nodes.cycle_j[woken].sum())
    if saved_j == 0.0:
        return soonest
    latest_s = soonest.runs_s + saved_j / view.power_exchange.wait_price_w
    return earliest(view, profile, job, after_s, latest_s, waking=False) or soonest


def _earliest_on(
    view: View,
    profile: NodeProfile,
    job: Job,
    after_s: float,
    until_s: float,
    *,
    waking: bool = True,
) -> Reservation | None:
    """Return the earliest start on nodes that are on then, of those that need no waking first."""
    asleep = view.nodes.must_be_woken()
    order, only = asleep.astype(np.float64), None if waking else ~asleep
    for start_s in profile.starts_s(job, after_s):
        if start_s > until_s:
            break
        place = profile.place(job, start_s, start_s + job.requested_s, order=order, only=only)
        if place is not None:
            return Reservation(start_s, place)
    return None


def _earliest_given(
    view: View,
    profile: NodeProfile,
    job: Job,
    after_s: float,
    until_s: float,
    *,
    waking: bool = True,
) -> Reservation | None:
    """Return the reservation that has the job run the earliest, boots that it starts included."""
    best: Reservation | None = None
    asleep = view.nodes.must_be_woken()
    for start_s in profile.starts_s(job, after_s):
        if start_s > until_s or (best is not None and start_s > best.runs_s):
            break
        boot_s = view.nodes.expected_on_s(start_s) - start_s
        if not waking:
            boot_s[asleep] = math.inf
        by_s = math.inf if best is None else best.runs_s
        found = _soonest_boot(profile, job, start_s, boot_s, by_s - start_s)
        if found is not None and (best is None or _sooner(found, best)):
            best = found
    return best


def _sooner(one: Reservation, other: Reservation) -> bool:
    return (one.runs_s, one.boot_s) < (other.runs_s, other.boot_s)


def _soonest_boot(
    profile: NodeProfile, job: Job, start_s: float, boot_s: Floats, most_s: float
) -> Reservation | None:
    """Return the reservation from a time on that has the job wait the shortest for boots.

    Args:
        profile: of when nodes can be given.
        job: it.
        start_s: when they are.
        boot_s: float64[nodes], how long each takes then to be on; infinity: it is not wanted.
        most_s: for no longer than this.
    """
    for longest_s in np.unique(boot_s[(boot_s <= most_s) & (boot_s < math.inf)]).tolist():
        end_s = start_s + longest_s + job.requested_s
        place = profile.place(job, start_s, end_s, order=boot_s, only=boot_s <= longest_s)
        if place is not None:
            return Reservation(start_s, place, float(boot_s[place.nodes].max()))
    return None


def with_boots(view: View, reservation: Reservation) -> Reservation:
    """Return a reservation of nodes to be given, with the boots they need as they are now."""
    start_s, place, _ = reservation
    assert place is not None
    on_s = view.nodes.expected_on_s(start_s)[place.nodes]
    return Reservation(start_s, place, float(on_s.max()) - start_s)


class Plans:
    """Sees to it that nodes are on for reservations.

    Args:
        awareness: nodes are left on for reservations and, if `planned`, switched on for them.
    """

    def __init__(self, awareness: Awareness) -> None:
        self._wakes = awareness == "planned"
        self._alarm = PolicyAlarm()  # for when a node is to be switched on for a reservation

    def follow(self, view: View, reservations: Sequence[Reservation]) -> None:
        """Do so, after all starts of this round."""
        _leave_on(view, reservations)
        if self._wakes:
            self._alarm.set_or_cancel(view, _wake_ahead(view, reservations))


def _wake_ahead(view: View, reservations: Iterable[Reservation]) -> float:
    """Switch on the nodes whose reservations begin when they have booted.

    Returns:
        When the next is to be; infinity: none is.
    """
    nodes, next_s = view.nodes, math.inf
    for start_s, place, _ in reservations:
        assert place is not None
        for node in place.nodes.tolist():
            if nodes.power[node] != "sleeping":
                continue
            wake_s = start_s - float(nodes.switch_on_s[node])
            if wake_s <= a_moment_after(view.now_s):
                view.set_node_power(node, on=True)
            else:
                next_s = min(next_s, wake_s)
    return next_s


def _leave_on(view: View, reservations: Iterable[Reservation]) -> None:
    """Mark the idle nodes that reservations count on, to be left on.

    Those of a reservation so far off that a node could be switched off and on again are not.
    """
    nodes, planned = view.nodes, view.power_exchange.planned
    planned[:] = False
    back_s = view.now_s + nodes.switch_off_s + nodes.switch_on_s
    back_s = np.maximum(back_s, math.nextafter(a_moment_after(view.now_s), math.inf))
    for start_s, place, _ in reservations:
        assert place is not None
        planned[place.nodes[start_s < back_s[place.nodes]]] = True


def nothing_sleeps(view: View) -> bool:
    """Return whether no node can be switched at all, so that there is nothing to be aware of."""
    return not view.nodes.can_sleep.any()
