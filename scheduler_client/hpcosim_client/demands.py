"""Compares what jobs request with a platform."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hpcosim_client.arrays import Bools
from hpcosim_client.demand import Demand, NodeChoice, Quotas
from hpcosim_client.job import Job
from hpcosim_client.slots import Slots
from hpcosim_protocol import JobRequest, Platform, ProtocolError
from hpcosim_protocol.features import NodeTest
from hpcosim_protocol.features import choices as feature_choices
from hpcosim_protocol.node_access import blocked_by_reservation, fits_in, may_use, partitions_of
from hpcosim_protocol.platform import NodeRanges, NodeReservation, Partition


class Demands:
    """Compares the requests of jobs with a platform.

    Args:
        platform: the cluster's description.
        slots: layout of its resources.

    Attributes:
        is_plain: whether a job without a request requires only cores.
        is_free: whether no nodes are reserved.
    """

    def __init__(self, platform: Platform, slots: Slots) -> None:
        self._platform, self._slots = platform, slots
        self.is_plain = platform.consumable == ("cores",) and not (
            platform.partitions or platform.reservations
        )
        self.is_free = not platform.reservations
        self._choices: dict[object, tuple[NodeChoice, ...]] = {}
        self._reserved = {
            each.name: in_ranges(each.nodes, slots.nodes) for each in platform.reservations
        }

    def of(self, job: Job) -> Demand | None:
        """Return what a job requires beyond cores; None: nothing."""
        request = job.request
        if request is None:
            if self.is_plain:
                return None
            request = NO_REQUEST
        no_licenses = len(self._slots.capacity) - 1  # the slot that is always 0
        return Demand(
            request,
            self._choices_of(job, request),
            request.tasks_per_node * request.cores_per_task,
            tuple(
                (self._slots.licenses.get(name, no_licenses), count)
                for name, count in request.licenses.items()
                if count
            ),
            self._slots.memory is not None,
        )

    def permitted(self, job: Job, demand: Demand, start_s: float, end_s: float) -> Bools | None:
        """Return the nodes on which reservations permit a job to run.

        Args:
            job: the job.
            demand: its demand.
            start_s: begin of the run, simulated seconds.
            end_s: its end.

        Returns:
            bool[nodes]; None: all.
        """
        if not self._reserved:
            return None
        own = demand.request.reservation
        nodes = np.ones(self._slots.nodes, dtype=np.bool_)
        if own:
            nodes = self._nodes_of_own(job, own, start_s, end_s)
        for reservation, _, _ in blocked_by_reservation(self._platform, start_s, end_s, own):
            nodes &= ~self._reserved[reservation.name]
        return nodes

    def window_changes_s(self, after_s: float, until_s: float) -> list[float]:
        """Return when windows of reservations begin or end, simulated seconds, ascending.

        Args:
            after_s: lower bound.
            until_s: upper bound; windows of a repeating reservation that end up to `MOST_WINDOWS`
                periods after it are added, because a job may fit only there.
        """
        changes_s: set[float] = set()
        for reservation in self._platform.reservations:
            for start_s, end_s in _windows(reservation, after_s, until_s):
                changes_s |= {start_s, end_s}
        return sorted(at_s for at_s in changes_s if at_s > after_s)

    def _nodes_of_own(self, job: Job, name: str, start_s: float, end_s: float) -> Bools:
        """Return the nodes of a job's own reservation, if it may run there at that time."""
        nodes = np.zeros(self._slots.nodes, dtype=np.bool_)
        for reservation in self._platform.reservations:
            if reservation.name == name and may_use(reservation, job.user, job.account):
                if "flex" in reservation.flags:
                    return ~nodes
                if fits_in(reservation, start_s, end_s):
                    return self._reserved[name].copy()
        return nodes

    def _choices_of(self, job: Job, request: JobRequest) -> tuple[NodeChoice, ...]:
        whole = job.placement == "whole_nodes" or "cores" not in self._platform.consumable
        key = (job.partitions, request.features, request.excluded_nodes, whole)
        if key not in self._choices:
            try:
                found = tuple(self._make_choices(job.partitions, request, whole))
            except ProtocolError:  # a name that the server does not accept either
                found = ()
            self._choices[key] = found
        return self._choices[key]

    def _make_choices(
        self, partitions: tuple[str, ...], request: JobRequest, whole: bool
    ) -> Iterator[NodeChoice]:
        """Yield a choice for each partition and each alternative of the features."""
        parts: list[Partition | None] = [*partitions_of(self._platform, partitions)]
        taken = np.zeros(self._slots.nodes, dtype=np.bool_)
        for partition in parts or [None]:
            name, exclusive = "", whole
            inside = np.ones(self._slots.nodes, dtype=np.bool_)
            if partition is not None:
                name, exclusive = partition.name, whole or partition.exclusive
                inside = in_ranges(partition.nodes, self._slots.nodes)
            inside[[node for node in request.excluded_nodes if node < len(inside)]] = False
            # The server counts an allocation to the first partition that contains its nodes.
            outside = inside & ~taken if not exclusive and (inside & taken).any() else None
            taken |= inside & exclusive
            for features in feature_choices(request.features):
                nodes = inside & self._with(features.every)
                quotas = tuple((nodes & self._with(test), count) for test, count in features.counts)
                for each in [quotas] if outside is None else _with_one_of(outside, quotas):
                    yield NodeChoice(name, nodes, each, exclusive)

    def _with(self, test: NodeTest) -> Bools:
        """Return bool[nodes]: the nodes whose features meet a condition."""
        groups = self._platform.nodes
        met = [test.holds(group.features) for group in groups]
        return np.repeat(np.array(met, dtype=np.bool_), [group.count for group in groups])


def _with_one_of(nodes: Bools, quotas: Quotas) -> Iterator[Quotas]:
    """Yield quotas with at least one node of a set, which may count for another quota, too."""
    for at, (counted, count) in enumerate(quotas):
        rest = ((counted, count - 1),) if count > 1 else ()
        yield (*quotas[:at], (counted & nodes, 1), *rest, *quotas[at + 1 :])
    yield (*quotas, (nodes, 1))


NO_REQUEST = JobRequest()

MOST_WINDOWS = 16
"""Number of windows of a repeating reservation that are considered after the last known end."""


def in_ranges(ranges: NodeRanges, nodes: int) -> Bools:
    """Return bool[nodes]: whether each node is in the ranges."""
    inside = np.zeros(nodes, dtype=np.bool_)
    for first, last in ranges:
        inside[first : last + 1] = True
    return inside


def _windows(
    reservation: NodeReservation, after_s: float, until_s: float
) -> Iterator[tuple[float, float]]:
    """Yield windows of a reservation that end after `after_s`; see `Demands.window_changes_s`."""
    start_s, end_s, repeat_s = reservation.start_s, reservation.end_s, reservation.repeat_s
    if repeat_s is None:
        yield start_s, end_s
        return
    first = max(int((after_s - end_s) // repeat_s), 0)
    last = max(int((until_s - start_s) // repeat_s), first) + MOST_WINDOWS
    for number in range(first, min(last, first + MOST_CHANGES)):
        yield start_s + number * repeat_s, end_s + number * repeat_s


MOST_CHANGES = 10_000
"""Number of windows of a repeating reservation that are considered at once."""
