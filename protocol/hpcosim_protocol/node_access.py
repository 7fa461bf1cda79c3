"""Nodes that a job may use: partitions and reservations, as the server and schedulers apply them.

Section 11.11 of the specification has the rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from hpcosim_protocol.errors import ResourceError
from hpcosim_protocol.platform import NodeRanges, NodeReservation, Partition, Platform


def numbers_in(ranges: NodeRanges) -> Iterator[int]:
    """Yield the node numbers of ranges."""
    for first, last in ranges:
        yield from range(first, last + 1)


def partitions_of(platform: Platform, names: Iterable[str]) -> list[Partition]:
    """Return the partitions in which a job may run, in the order that its user named them.

    Args:
        names: names that the user stated; empty: the default partition.

    Returns:
        The partitions. Empty: the job may run on all nodes, because the platform has no partitions
        or the job names none and there is no default.

    Raises:
        ResourceError: the platform has partitions, but none with such a name.
    """
    if not platform.partitions:
        return []
    named = list(names)
    if not named:
        return [each for each in platform.partitions if each.default][:1]
    known = {each.name: each for each in platform.partitions}
    for name in named:
        if name not in known:
            shown = ", ".join(list(known)[:20])
            raise ResourceError(f"unknown partition {name!r}; the partitions are {shown}")
    return [known[name] for name in named]


def first_window(
    reservation: NodeReservation, start_s: float, end_s: float
) -> tuple[float, float] | None:
    """Return the first window of a reservation that overlaps a time span; None: none does.

    Args:
        end_s: end of the time span, s. Spans and windows contain their begin but not their end.
    """
    repeat_s = reservation.repeat_s
    shifts_s = [0.0]
    if repeat_s is not None:
        passed = max(math.floor(min((start_s - reservation.end_s) / repeat_s, 1e15)), 0)
        shifts_s = [number * repeat_s for number in range(passed, passed + 3)]
    for shift_s in shifts_s:
        begin_s, over_s = reservation.start_s + shift_s, reservation.end_s + shift_s
        if over_s > start_s:
            return (begin_s, over_s) if begin_s < end_s or begin_s == start_s else None
    return None


def blocked_by_reservation(
    platform: Platform, start_s: float, end_s: float, own: str = ""
) -> list[tuple[NodeReservation, float, float]]:
    """Return the reservations on whose nodes a job must not run in a time span.

    Args:
        start_s: begin of the run, s.
        end_s: end of the run by the requested time, s.
        own: reservation in which the job runs (`JobRequest.reservation`); empty: none.

    Returns:
        Each such reservation with begin and end of its first window that overlaps, s.
    """
    found = []
    for reservation in platform.reservations:
        if reservation.name != own:
            window = first_window(reservation, start_s, end_s)
            if window is not None:
                found.append((reservation, *window))
    return found


def may_use(reservation: NodeReservation, user: str, account: str) -> bool:
    """Return whether a job of a user and an account may run in a reservation.

    A reservation that names users and accounts is for those users with those accounts.
    """
    if not reservation.users and not reservation.accounts:
        return False
    return (not reservation.users or user in reservation.users) and (
        not reservation.accounts or account in reservation.accounts
    )


def fits_in(reservation: NodeReservation, start_s: float, end_s: float) -> bool:
    """Return whether a job may run in a time span as a job of the reservation.

    Without `flex`, one window must contain the time span.
    """
    if "flex" in reservation.flags:
        return True
    window = first_window(reservation, start_s, end_s)
    return window is not None and window[0] <= start_s and end_s <= window[1]
