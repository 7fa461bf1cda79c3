"""Nodes whose repeated reservations never leave a job enough time."""

from __future__ import annotations

import math
from collections import defaultdict

from hpcosim_protocol import NodeReservation
from hpcosim_protocol.node_access import first_window, numbers_in
from hpcosim_sim.physics.site import Site
from hpcosim_workloads.table import JobSpec

MAX_WINDOWS = 10_000
"""Maximum number of windows to look at for a set of reservations. Beyond it, a job is admitted."""

Reservations = tuple[NodeReservation, ...]


def closed_nodes(site: Site, job: JobSpec) -> frozenset[int]:
    """Return the nodes on which a job can never run, by its requested time.

    These are nodes with reservations other than the job's own whose repeated windows leave too
    little time between each other, and the job is too late to run before them.

    Args:
        site: the cluster.
        job: the job.
    """
    if all(each.repeat_s is None for each in site.platform.reservations):
        return frozenset()
    own = job.request.reservation if job.request is not None else ""
    if own not in site.repeated:
        site.repeated[own] = _nodes_by_reservations(site, own)
    closed = [
        nodes
        for reservations, (nodes, gap_s) in site.repeated[own].items()
        if job.requested_s > gap_s and not _fits_before(reservations, job)
    ]
    return frozenset().union(*closed)


def _nodes_by_reservations(
    site: Site, own: str
) -> dict[Reservations, tuple[frozenset[int], float]]:
    """Return the nodes with repeated reservations, and the longest gap between windows there, s.

    Args:
        site: the cluster.
        own: name of a reservation that does not count.
    """
    others = [each for each in site.platform.reservations if each.name != own]
    of_node: dict[int, list[NodeReservation]] = defaultdict(list)
    for reservation in others:
        for node in numbers_in(reservation.nodes):
            of_node[node].append(reservation)
    nodes_of: dict[Reservations, list[int]] = defaultdict(list)
    for node, reservations in of_node.items():
        if any(each.repeat_s is not None for each in reservations):
            nodes_of[tuple(reservations)].append(node)
    return {each: (frozenset(nodes), longest_gap_s(each)) for each, nodes in nodes_of.items()}


def longest_gap_s(reservations: Reservations) -> float:
    """Return the longest time between windows of repeated reservations, once all have begun, s.

    It is exact if the times of repetition are whole seconds with a common multiple of at most
    `MAX_WINDOWS` windows. If they are not, it is the shortest of the reservations' own gaps, which
    is at least as long. Reservations with one window do not count.
    """
    spans = [
        (each.start_s, each.end_s - each.start_s, each.repeat_s)
        for each in reservations
        if each.repeat_s is not None
    ]
    own_s = min(max(repeat_s - length_s, 0.0) for _, length_s, repeat_s in spans)
    if len(spans) == 1 or not all(repeat_s.is_integer() for *_, repeat_s in spans):
        return own_s
    period_s = math.lcm(*(int(repeat_s) for *_, repeat_s in spans))
    if sum(period_s // int(repeat_s) for *_, repeat_s in spans) > MAX_WINDOWS:
        return own_s
    windows = sorted(
        (start_s % repeat_s + number * repeat_s, length_s)
        for start_s, length_s, repeat_s in spans
        for number in range(-1, 2 * period_s // int(repeat_s) + 1)
    )
    longest_s, over_s = 0.0, windows[0][0]
    for begin_s, length_s in windows:
        longest_s = max(longest_s, begin_s - over_s)
        over_s = max(over_s, begin_s + length_s)
    return min(longest_s, own_s)


def _fits_before(reservations: Reservations, job: JobSpec) -> bool:
    """Return whether a job could run on nodes before all their reservations have begun."""
    start_s, last_s = job.submit_s, max(each.start_s for each in reservations)
    for _ in range(MAX_WINDOWS):
        if start_s >= last_s:
            return False
        windows = [first_window(each, start_s, start_s + job.requested_s) for each in reservations]
        ends_s = [window[1] for window in windows if window is not None]
        if not ends_s:
            return True
        start_s = max(ends_s)
    return True
