"""When and where a job can start, for backfilling that is aware of power states.

`Awareness` defines `aware` and `planned`. Both also delay a job where that saves more energy than
the wait costs, see `PowerExchange.wait_price_w`. `planned` also switches nodes on for reservations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from hpcosim_client.job import Floats, Job
from hpcosim_client.profiles import NodeProfile, Reservation, node_profile
from hpcosim_client.view import PolicyAlarm, View
from hpcosim_schedulers.power.settings import Awareness


def power_profile(view: View, awareness: Awareness) -> NodeProfile:
    """Return the profile of when each node can be allocated (`aware`) or is on (`planned`).

    Overdue ends of jobs and boots are expected a moment from now, so cores that are free now in the
    profile are free.
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
    """Return the next time after `now_s` that a float64 can represent."""
    return math.nextafter(now_s, math.inf)


def cheapest_start(
    view: View,
    profile: NodeProfile,
    awareness: Awareness,
    job: Job,
    after_s: float,
    until_s: float = math.inf,
) -> Reservation | None:
    """Return the earliest start of a job, or a later one that switches no node on if it is cheaper.

    The later start is cheaper if the longer wait, at `PowerExchange.wait_price_w`, costs less
    energy than one cycle off and on of the nodes that the earliest start would switch on.

    Args:
        until_s: upper bound of the earliest start, simulated seconds.

    Returns:
        None: no start is within the bounds.
    """
    earliest = _earliest_given if awareness == "aware" else _earliest_on
    soonest = earliest(view, profile, job, after_s, until_s)
    if soonest is None or view.power_exchange.wait_price_w == math.inf:
        return soonest
    assert soonest.allocation is not None
    woken = soonest.allocation.nodes[view.nodes.must_be_woken()[soonest.allocation.nodes]]
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
    """Return the earliest start on nodes that are on by then; sleeping nodes go last."""
    asleep = view.nodes.must_be_woken()
    order, only = asleep.astype(np.float64), None if waking else ~asleep
    for start_s in profile.starts_s(job, after_s):
        if start_s > until_s:
            break
        allocation = profile.find(job, start_s, start_s + job.requested_s, order=order, only=only)
        if allocation is not None:
            return Reservation(start_s, allocation)
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
    """Return the reservation with which the job runs the earliest, counting the boots it causes."""
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
        if found is not None:
            best = min(best or found, found, key=lambda one: (one.runs_s, one.boot_s))
    return best


def _soonest_boot(
    profile: NodeProfile, job: Job, start_s: float, boot_s: Floats, most_s: float
) -> Reservation | None:
    """Return the reservation at a start with the shortest wait for boots; None: there is none."""
    for longest_s in np.unique(boot_s[(boot_s <= most_s) & (boot_s < math.inf)]).tolist():
        end_s = start_s + longest_s + job.requested_s
        allocation = profile.find(job, start_s, end_s, order=boot_s, only=boot_s <= longest_s)
        if allocation is not None:
            return Reservation(start_s, allocation, float(boot_s[allocation.nodes].max()))
    return None


def with_boots(view: View, reservation: Reservation) -> Reservation:
    """Return a reservation with the boot time that its nodes need in their present states."""
    start_s, allocation, _ = reservation
    assert allocation is not None
    on_s = view.nodes.expected_on_s(start_s)[allocation.nodes]
    return Reservation(start_s, allocation, float(on_s.max()) - start_s)


def nothing_sleeps(view: View) -> bool:
    """Return whether no node of the platform can be switched."""
    return not view.nodes.can_sleep.any()


class WakeAhead:
    """Keeps the nodes of reservations on and, if `planned`, switches them on in time."""

    def __init__(self, awareness: Awareness) -> None:
        self._wakes = awareness == "planned"
        self._alarm = PolicyAlarm()  # next time at which a node must be switched on

    def follow(
        self,
        view: View,
        reservations: Sequence[Reservation],
        uncertain: Sequence[Reservation] = (),
    ) -> None:
        """Apply the reservations that remain after all starts of a call.

        Args:
            uncertain: further ones that an event will move: no alarm is set for their nodes.
        """
        _leave_on(view, [*reservations, *uncertain])
        if self._wakes:
            next_s = _wake_ahead(view, reservations)
            _wake_ahead(view, uncertain)
            self._alarm.set_or_cancel(view, next_s)


def _wake_ahead(view: View, reservations: Iterable[Reservation]) -> float:
    """Switch on the nodes whose reservations begin within their boot time."""
    nodes, next_s = view.nodes, math.inf
    for start_s, allocation, _ in reservations:
        assert allocation is not None
        for node in allocation.nodes.tolist():
            if nodes.power[node] != "sleeping":
                continue
            wake_s = start_s - float(nodes.switch_on_s[node])
            if wake_s <= a_moment_after(view.now_s):
                view.set_node_power(node, on=True)
            else:
                next_s = min(next_s, wake_s)
    return next_s


def _leave_on(view: View, reservations: Iterable[Reservation]) -> None:
    """Mark the nodes of reservations as planned, so that power managers leave them on."""
    nodes, planned = view.nodes, view.power_exchange.planned
    planned[:] = False
    back_s = view.now_s + nodes.switch_off_s + nodes.switch_on_s
    back_s = np.maximum(back_s, math.nextafter(a_moment_after(view.now_s), math.inf))
    for start_s, allocation, _ in reservations:
        assert allocation is not None
        planned[allocation.nodes[start_s < back_s[allocation.nodes]]] = True
