"""Reservations of nodes as those of the protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from hpcosim_protocol import NodeReservation, Platform
from hpcosim_protocol.hosts import to_ranges
from hpcosim_protocol.platform import ReservationFlag
from hpcosim_slurm.state import ClusterState, LiveReservation

REPEATS_S: Mapping[str, float] = {"HOURLY": 3600.0, "DAILY": 86_400.0, "WEEKLY": 604_800.0}
"""Time between windows, by flag. Of those on weekdays or weekends, one window is known."""
FLAGS: Mapping[str, ReservationFlag] = {
    "MAINT": "maint",
    "IGNORE_JOBS": "ignore_jobs",
    "FLEX": "flex",
}


def reservations_of(
    live: Mapping[str, LiveReservation], number: Mapping[str, int], origin_s: float = 0.0
) -> Iterator[NodeReservation]:
    """Yield the reservations of nodes.

    A reservation of some cores of a node counts as one of the node. With excluded users or
    accounts, it is for nobody: the protocol cannot say who may use it.

    Args:
        live: the reservations of the cluster.
        number: numbers of the nodes by name; others are left out.
        origin_s: Unix time of second 0 of the protocol, s.
    """
    for each in live.values():
        nodes = sorted(number[name] for name in each.nodes if name in number)
        if not nodes or each.end_s <= each.start_s:
            continue
        excludes = any(name.startswith("-") for name in (*each.users, *each.accounts))
        yield NodeReservation(
            name=each.name[:200],
            nodes=to_ranges(nodes),
            start_s=each.start_s - origin_s,
            end_s=each.end_s - origin_s,
            repeat_s=next((REPEATS_S[flag] for flag in each.flags if flag in REPEATS_S), None),
            users=() if excludes else tuple(name[:200] for name in each.users),
            accounts=() if excludes else tuple(name[:200] for name in each.accounts),
            flags=tuple(FLAGS[flag] for flag in each.flags if flag in FLAGS),
        )


def newly_reserved(
    state: ClusterState, platform: Platform, number: Mapping[str, int]
) -> frozenset[str]:
    """Return the nodes of reservations that have begun and that a platform does not have.

    Args:
        state: the cluster.
        platform: what a scheduler was told at the begin of its session.
        number: numbers of the nodes by name.
    """
    known = {_without_window(each) for each in platform.reservations}
    active = {name: each for name, each in state.reservations.items() if each.is_active}
    return frozenset(
        node
        for each in reservations_of(active, number)
        if _without_window(each) not in known
        for node in active[each.name].nodes
    )


def _without_window(reservation: NodeReservation) -> NodeReservation:
    """Return a reservation that repeats without its present window, which moves."""
    if reservation.repeat_s is None:
        return reservation
    first_s = reservation.start_s % reservation.repeat_s
    length_s = reservation.end_s - reservation.start_s
    return replace(reservation, start_s=first_s, end_s=first_s + length_s)
