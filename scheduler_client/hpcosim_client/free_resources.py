"""The free resources of a cluster, and the places of a job in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from hpcosim_client.demand import Demand, Devices, NodeChoice, Quotas, Slots
from hpcosim_client.job import Allocation, Bools, Floats, Ints, Job
from hpcosim_client.placing import Placing, allocation_of, fits_on_one, offered, place
from hpcosim_protocol import JobRequest, Platform, ProtocolError
from hpcosim_protocol.features import NodeTest
from hpcosim_protocol.features import choices as feature_choices
from hpcosim_protocol.node_access import blocked_by_reservation, fits_in, may_use, partitions_of
from hpcosim_protocol.platform import NodeRanges, NodeReservation, Partition


class FreeResources:
    """Free cores, memory, devices and licences.

    A job that only needs cores (`Job.demand` is None) is placed by counting cores. For the others,
    `offered` has the cores that the job could use on each node, with regard to its partitions,
    features, memory, generic resources and reservations.

    Attributes:
        slots: layout of `amounts`.
        capacity: int64[nodes], number of cores.
        amounts: int64[slots], free amounts of all resources; the first are `free`.
        free: int64[nodes], cores that can be allocated now.
        free_cores: the sum of `free`.
        single_core: whether every node has one core.
    """

    def __init__(self, platform: Platform) -> None:
        self.slots = Slots(platform)
        self.demands = Demands(platform, self.slots)
        self.capacity: Ints = self.slots.capacity[: self.slots.nodes].copy()
        self.amounts: Ints = self.slots.capacity.copy()
        self.free: Ints = self.amounts[: self.slots.nodes]
        self.free_cores = int(self.free.sum())
        self.now_s = 0.0
        self._every: Ints = np.arange(self.slots.nodes)
        self.single_core = bool((self.capacity == 1).all())
        self._ones: Ints = np.ones(self.slots.nodes, dtype=np.int64)
        self._ones.flags.writeable = False

    def expected_on_s(self, now_s: float) -> Floats:
        """Return when each node would be on if it were switched on now; see `NodePool`."""
        return np.full(len(self.free), now_s)

    def permitted(
        self, job: Job, start_s: float, end_s: float | None = None, nodes: Ints | None = None
    ) -> Bools | None:
        """Return the nodes on which reservations permit a job that is allocated at a time.

        A job starts when its last node is on, so nodes that must be switched on delay its end.

        Args:
            start_s: time of the allocation, simulated seconds.
            end_s: earliest end of the job; None: by the requested time.
            nodes: int64[n], all nodes of the job; None: the job has one node.

        Returns:
            bool[nodes]; None: all.
        """
        if job.demand is None or self.demands.is_free:
            return None
        on_s = self.expected_on_s(start_s)
        ends_s = on_s + job.requested_s
        if end_s is not None:
            ends_s = np.maximum(ends_s, end_s)
        if nodes is not None:
            return self.demands.permitted(job, job.demand, start_s, float(ends_s[nodes].max()))
        every = np.zeros(len(on_s), dtype=np.bool_)
        for until_s in np.unique(ends_s).tolist():
            found = self.demands.permitted(job, job.demand, start_s, until_s)
            if found is None:
                return None
            every |= found & (ends_s == until_s)
        return every

    def permits(self, job: Job, nodes: Ints, start_s: float, end_s: float | None = None) -> bool:
        """Return whether reservations permit a job on all of its nodes; see `permitted`."""
        permitted = self.permitted(job, start_s, end_s, nodes)
        return permitted is None or bool(permitted[nodes].all())

    def find(self, job: Job) -> Allocation | None:
        """Return the lowest-numbered free cores for a job; None: there are too few."""
        if job.cores > self.free_cores:
            return None
        if job.demand is not None:
            return self.place(job, self._every)
        if self.single_core and job.placement != "one_node":
            one_each = self._ones[: job.cores]
            return Allocation(self.free.nonzero()[0][: job.cores], one_each, one_each, job.cores)
        return find_cores(job, self.free, self.capacity)

    def offered(self, job: Job, choice: NodeChoice | None = None) -> Ints:
        """Return how many cores a job could use on each node now.

        Args:
            choice: one of `job.demand.choices`; None: the maximum over all of them.

        Returns:
            int64[nodes]; 0 for nodes that the job must not use now.
        """
        return self.offered_of(job, self.amounts, self.now_s, choice)

    def offered_of(
        self,
        job: Job,
        amounts: Ints,
        start_s: float,
        choice: NodeChoice | None = None,
        end_s: float | None = None,
    ) -> Ints:
        """Return what `offered` does, for given free amounts and a given time.

        Args:
            amounts: int64[slots].
            choice: see `offered`.
            end_s: its earliest end; None: by the requested time.
        """
        if job.demand is None:
            cores = np.zeros_like(self.free)
            usable = usable_nodes(job, amounts[: len(cores)], self.capacity)
            cores[usable] = amounts[usable]
            return cores
        cores = np.zeros_like(self.free)
        for each in job.demand.choices if choice is None else (choice,):
            found = offered(Placing(job, job.demand, each, amounts, self.slots))
            cores = np.maximum(cores, found)
        permitted = self.permitted(job, start_s, end_s)
        return cores if permitted is None else np.where(permitted, cores, 0)

    def place(self, job: Job, order: Ints) -> Allocation | None:
        """Return free resources for a job that fills nodes in a given order; None: too few.

        Args:
            order: node numbers, each once. The job uses those that it may.
        """
        return self.place_of(job, order, self.amounts, self.now_s)

    def place_of(
        self,
        job: Job,
        order: Ints,
        amounts: Ints,
        start_s: float,
        end_s: float | None = None,
    ) -> Allocation | None:
        """Return what `place` does, for given free amounts and a given time; see `offered_of`."""
        if job.demand is None:
            free = amounts[: len(self.free)]
            usable = usable_nodes(job, free, self.capacity)
            return fill(job, order[np.isin(order, usable)], free)
        for choice in job.demand.choices:
            placing = Placing(job, job.demand, choice, amounts, self.slots)
            cores = self.offered_of(job, amounts, start_s, choice, end_s)
            for offer in self._on_by(cores, start_s):
                if offer[order].sum() >= job.cores:
                    found = place(placing, order, offer)
                    if found is not None and self.permits(job, found.nodes, start_s, end_s):
                        return found
        return None

    def _on_by(self, cores: Ints, start_s: float) -> Iterator[Ints]:
        """Yield offered cores: those of all nodes, then of the nodes that are on the soonest.

        The others of a job's nodes may be on so late that a reservation begins before its end.
        """
        yield cores
        if not self.demands.is_free:
            on_s = self.expected_on_s(start_s)
            for by_s in np.unique(on_s[cores > 0])[:-1].tolist():
                yield np.where(on_s <= by_s, cores, 0)

    def alone(self, job: Job, order: Ints) -> Allocation | None:
        """Return what `place` does on an idle cluster without reservations, with all nodes up."""
        if job.demand is None:
            usable = usable_nodes(job, self.capacity, self.capacity)
            return fill(job, order[np.isin(order, usable)], self.capacity)
        for choice in job.demand.choices:
            placing = Placing(job, job.demand, choice, self.slots.capacity, self.slots)
            found = place(placing, order, offered(placing))
            if found is not None:
                return found
        return None

    def suits(self, job: Job) -> Bools:
        """Return bool[nodes]: whether the node alone suits a job if nothing else runs."""
        if job.demand is None:
            return self.capacity >= job.cores
        capacity = self.slots.capacity
        return self._on_one(
            job,
            capacity,
            lambda demand, choice: offered(Placing(job, demand, choice, capacity, self.slots)),
        )

    def holds(self, job: Job) -> Bools:
        """Return bool[nodes]: whether a job can start on the node alone now."""
        if job.demand is None:
            return self.offered(job) >= job.cores
        return self._on_one(job, self.amounts, lambda _, choice: self.offered(job, choice))

    def _on_one(
        self, job: Job, amounts: Ints, cores: Callable[[Demand, NodeChoice], Ints]
    ) -> Bools:
        """Return the nodes on which a job with a demand fits as a whole."""
        fits = np.zeros(len(self.free), dtype=np.bool_)
        demand = job.demand
        if demand is None or demand.request.nodes_min > 1 or len(demand.request.required_nodes) > 1:
            return fits
        for choice in demand.choices:
            if sum(count for _, count in choice.quotas) <= 1:
                placing = Placing(job, demand, choice, amounts, self.slots)
                fits |= fits_on_one(placing, cores(demand, choice))
        return fits

    def complete(self, job: Job, nodes: Ints, tasks: Ints, gres: Devices = ()) -> Allocation | None:
        """Return the allocation of stated nodes and cores; None: a resource is not free there.

        Args:
            nodes: int64[n], node numbers, each once.
            tasks: int64[n], cores that the job requests on each node.
            gres: numbers of the devices on each node, by name of the resource with its type; empty:
                those that the server would choose.
        """
        if job.demand is None:
            held = self.capacity[nodes] if job.placement == "whole_nodes" else tasks
            if (self.free[nodes] < held).any():
                return None
            return Allocation(nodes, tasks, held, int(held.sum()))
        for choice in job.demand.choices:
            if (self.offered(job, choice)[nodes] >= tasks).all():
                placing = Placing(job, job.demand, choice, self.amounts, self.slots)
                found = allocation_of(placing, nodes, tasks, gres)
                if found is not None:
                    return found if self.permits(job, nodes, self.now_s) else None
        return None


def find_cores(job: Job, free: Ints, capacity: Ints) -> Allocation | None:
    """Return the lowest-numbered free cores for a job; None: there are too few.

    Args:
        free: int64[nodes], free cores of each node.
        capacity: int64[nodes], all cores of each node.
    """
    return fill(job, usable_nodes(job, free, capacity), free)


def usable_nodes(job: Job, free: Ints, capacity: Ints) -> Ints:
    """Return the numbers of nodes with a core that the job may use, ascending; see `find_cores`."""
    if job.placement == "one_node":
        usable = free >= job.cores
    elif job.placement == "whole_nodes":
        usable = free == capacity
    else:
        usable = free > 0
    found: Ints = usable.nonzero()[0]
    return found


def fill(job: Job, nodes: Ints, free: Ints) -> Allocation | None:
    """Return the cores of a job that fills nodes in the given order; None: there are too few.

    Args:
        nodes: numbers of nodes with free cores. The last ones are left out if not needed.
        free: int64[nodes of the cluster], free cores.
    """
    nodes = nodes[: job.cores]
    offered = free[nodes]
    total = offered.cumsum()
    if len(total) and total[-1] == job.cores:  # the usual case on nodes of one core
        return Allocation(nodes, offered, offered, job.cores)
    last = int(total.searchsorted(job.cores))
    if last == len(total):
        return None
    nodes, held = nodes[: last + 1], offered[: last + 1]
    tasks = held.copy()
    tasks[last] -= total[last] - job.cores
    if job.placement == "whole_nodes":
        return Allocation(nodes, tasks, held, int(total[last]))
    return Allocation(nodes, tasks, tasks, job.cores)


class Demands:
    """Compares the requests of jobs with a platform.

    Attributes:
        is_plain: whether a job without a request requires only cores.
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
