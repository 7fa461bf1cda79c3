"""The resources that are free now and after running jobs end, and the places of a job in them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from operator import or_
from typing import NamedTuple

import numpy as np
from msgspec import Struct, structs

from hpcosim_client.demand import Demand, NodeChoice, Slots
from hpcosim_client.job import Allocation, Bools, Ints, Job
from hpcosim_client.placing import Placing, allocation_of, devices_of_job, offered
from hpcosim_schedulers.slurm.select import (
    NodeOrder,
    choose_nodes,
    least_nodes,
    tasks_on_nodes,
    usable_cores,
)

# Sets of nodes as integers, whose bit `n` is set if the set contains node `n`.

NodeSet = int
"""A set of nodes."""


NEVER = 2**62
"""Number of ended jobs that a node never reaches."""


class Generations(NamedTuple):
    """What the nodes have free: generation 0 is now, `n` is after `n` jobs of the node have ended.

    Attributes:
        amounts: int64[generations, slots]; those of the last generation of a node are repeated.
        ended: int64[generations, nodes], number of running jobs of the cluster that must end until
            the node is in a generation; `NEVER`: it has fewer jobs.
    """

    amounts: Ints
    ended: Ints

    @classmethod
    def of(cls, amounts: Ints, ends: Sequence[RunningEnd], slots: Slots) -> Generations:
        """Return the generations for int64[slots], free now, and running jobs in their order."""
        if not ends:
            return cls(amounts[None], np.zeros((1, slots.nodes), dtype=np.int64))
        held = [each.allocation for each in ends]
        nodes = np.concatenate([each.nodes for each in held])
        job = np.repeat(np.arange(len(held)), [len(each.nodes) for each in held])
        order = np.argsort(nodes, kind="stable")
        node, job = nodes[order], job[order]
        number = np.arange(len(node)) - node.searchsorted(node) + 1
        ended = np.full((int(number.max()) + 1, slots.nodes), NEVER)
        ended[0] = 0
        ended[number, node] = job + 1
        freed = np.zeros((len(ended), len(amounts)), dtype=np.int64)
        freed[0] = amounts
        freed[number, node] = np.concatenate([each.cores_per_node for each in held])[order]
        other = [(at, each.held) for at, each in enumerate(held) if each.held is not None]
        if other:
            slot = np.concatenate([each.slots for _, each in other])
            amount = np.concatenate([each.amounts for _, each in other])
            job_of = np.repeat([at for at, _ in other], [len(each.slots) for _, each in other])
            of_node = slots.node[slot] >= 0
            slot, amount, job_of = slot[of_node], amount[of_node], job_of[of_node]
            at = (node * len(held) + job).searchsorted(slots.node[slot] * len(held) + job_of)
            freed[number[at], slot] = amount
        return cls(freed.cumsum(axis=0), ended)


class Offers:
    """The cores that each node offers to a job, now and after running jobs have ended.

    More ended jobs never offer less.

    Args:
        cores: int64[generations, nodes]; see `Generations`.
        ended: int64[generations, nodes].
    """

    def __init__(self, cores: Ints, ended: Ints) -> None:
        self._cores, self._ended = cores, ended
        gain = cores[1:] - cores[:-1]
        at, node = gain.nonzero()
        ends = ended[at + 1, node]
        order = ends.argsort(kind="stable")
        self._ends, self._node = ends[order], node[order]
        self._gain = gain[at, node][order]
        self._begun = (cores[at, node] == 0)[order]  # whether the node offered nothing before
        self._alone: dict[int, Ints] = {}

    def after(self, ended: int) -> Ints:
        """Return int64[nodes]: the cores offered once `ended` running jobs have ended."""
        generation = (self._ended <= ended).sum(axis=0) - 1
        offered: Ints = self._cores[generation, np.arange(len(generation))]
        return offered

    def first(self, mask: Bools, cores: int, least: int) -> int:
        """Return after how many ends some nodes, bool[nodes], offer enough; `NEVER`: they never do.

        Args:
            cores: number of cores.
            least: least number of nodes that offer them.
        """
        free = self._cores[0][mask]
        found = self._reached(cores - int(free.sum()), self._gain, mask)
        if least > 1:
            more = self._reached(least - int((free > 0).sum()), self._begun, mask)
            found = max(found, more)
        return found

    def first_alone(self, mask: Bools, cores: int) -> int:
        """Return after how many ends one of some nodes offers enough cores; see `first`."""
        if cores not in self._alone:
            ends = np.where(self._cores >= cores, self._ended, NEVER)
            self._alone[cores] = ends.min(axis=0)
        return int(self._alone[cores].min(where=mask, initial=NEVER))

    def _reached(self, missing: int, gain: Ints | Bools, mask: Bools) -> int:
        """Return after how many ends the gains of some nodes have reached an amount."""
        if missing <= 0:
            return 0
        gained = (gain * mask[self._node]).cumsum()
        at = int(gained.searchsorted(missing))
        return int(self._ends[at]) if at < len(gained) else NEVER


def consecutive_nodes(nodes: NodeSet, count: int) -> tuple[list[int], NodeSet]:
    """Return `count` nodes that offer one core each, as `select.choose_nodes` chooses them.

    The smallest sufficient run of consecutive nodes, or else the largest runs first.

    Returns:
        The nodes in the order in which the job fills them, and their set.
    """
    runs = []  # length and first node
    begin = 0
    while nodes:
        gap = (nodes & -nodes).bit_length() - 1
        nodes >>= gap
        length = (~nodes & (nodes + 1)).bit_length() - 1
        runs.append((length, begin + gap))
        nodes >>= length
        begin += gap + length
    chosen: list[int] = []
    as_set = 0
    while count > 0:
        sufficient = [run for run in runs if run[0] >= count]
        run = min(sufficient) if sufficient else max(runs, key=_length)
        taken = min(run[0], count)
        chosen += range(run[1], run[1] + taken)
        as_set |= ((1 << taken) - 1) << run[1]
        count -= taken
        runs.remove(run)
    return chosen, as_set


def _length(run: tuple[int, int]) -> int:
    return run[0]


def choose_for_devices(placing: Placing, cores: Ints, order: NodeOrder) -> Ints | None:
    """Return the nodes of a job with `gres_per_job`, in the order in which it fills them.

    They are the fewest that `choose_nodes` returns and that have the devices. If the limits of
    their number prevent that, nodes with few devices are left out step by step.

    Args:
        cores: int64[nodes], cores offered to it on each node; 0: none.

    Returns:
        int64[n], node numbers; None: what is offered is not sufficient.
    """
    job, request = placing.job, placing.demand.request
    devices = devices_of_job(placing.demand, placing.amounts, placing.slots)
    most = job.cores // request.cores_per_task
    if job.placement == "one_node":
        most = 1
    most = min(most, request.nodes_max or most)
    fewest = np.minimum.reduce([free for free, _ in devices])
    required = np.isin(np.arange(len(cores)), request.required_nodes)
    for few in [0, *np.unique(fewest[(cores > 0) & (fewest > 0)]).tolist()]:
        left = np.where((fewest > few) | required, cores, 0)
        usable = left > 0
        least = least_nodes(job, placing.demand)
        for free, needed in devices:
            best = np.sort(free[usable])[::-1].cumsum()
            least = max(least, int(best.searchsorted(needed)) + 1)
        for count in range(least, min(most, int(usable.sum())) + 1):
            nodes = _chosen(placing, left, order, count)
            if nodes is not None:
                return nodes
    return None


def _chosen(placing: Placing, cores: Ints, order: NodeOrder, count: int) -> Ints | None:
    """Return at least `count` nodes with the devices of a job; None: those have too few."""
    job, demand, choice = placing.job, placing.demand, placing.choice
    if int(cores.sum()) < job.cores:
        return None
    larger = replace(demand, request=structs.replace(demand.request, nodes_min=count))
    nodes = choose_nodes(job, larger, choice, cores, order)
    if nodes is None:
        return None
    tasks = tasks_on_nodes(job, demand.request.cores_per_task, cores[nodes])
    return nodes if allocation_of(placing, nodes, tasks) is not None else None


FIRST_WINDOW_S = 30
"""Running jobs are taken away in groups. They reach to `latest` plus once, twice, four times, ...
this time, s, where `latest` is the multiple of it that follows the first end. Planned starts are
imprecise by this time."""

MOST_TOGETHER = 201
"""Number of running jobs that are taken away together; of more, the next ones follow untested."""


class RunningEnd(Struct, frozen=True, eq=False, gc=False):
    """A running job and its end.

    Attributes:
        end: end by the time limit, seconds of the site's clock.
        number: the number of the job. Of jobs with one end, the first submitted ends first.
    """

    end: int
    number: int
    nodes: NodeSet
    allocation: Allocation


class Future:
    """Free resources after the first running jobs have ended, in the order of their ends.

    Args:
        amounts: int64[slots], free now.
        waits_for_switches: tells by the number of a job whether it still waits for the number of
            leaf switches that it prefers; None: no job does.
    """

    def __init__(
        self,
        amounts: Ints,
        running: Sequence[RunningEnd],
        slots: Slots,
        order: NodeOrder,
        waits_for_switches: Callable[[int], bool] | None = None,
    ) -> None:
        self._running = running
        self._waits_for_switches = waits_for_switches
        self._ends: list[RunningEnd] | None = None
        self._slots, self._order = slots, order
        self._amounts = amounts.copy()
        self._offered_now: dict[tuple[object, int], Ints] = {}
        self._offers: dict[tuple[object, int], Offers] = {}
        self._needed: dict[object, int] = {}
        self._one_core = order.largest == 1 and order.all_on_leaves
        self._free: list[NodeSet] = []  # free nodes of one core by number of ended jobs

    @property
    def ends(self) -> list[RunningEnd]:
        """The running jobs in the order of their ends."""
        if self._ends is None:
            self._ends = sorted(self._running, key=_end_and_number)
        return self._ends

    @cached_property
    def free_cores(self) -> int:
        """The number of cores free now."""
        return int(self._amounts[: self._slots.nodes].sum())

    @cached_property
    def _generations(self) -> Generations:
        return Generations.of(self._amounts, self.ends, self._slots)

    def amounts(self, ended: int) -> Ints:
        """Return int64[slots]: what is free once the first `ended` running jobs have ended."""
        free = self._amounts.copy()
        for each in self.ends[:ended]:
            add(free, each.allocation, 1)
        return free

    def _free_nodes(self, ended: int) -> NodeSet:
        """Return the free nodes of a cluster whose nodes have one core."""
        free = self._free
        while len(free) <= ended:
            if free:
                free.append(free[-1] | self.ends[len(free) - 1].nodes)
            else:
                free.append(set_of_mask(self._amounts[: self._slots.nodes] > 0))
        return free[ended]

    def not_before(self, candidate: Candidate, now: int) -> int | None:
        """Return a time before which a job cannot start, whatever is planned; None: it never can.

        It is the end of the running job after which the job may fit if it gets all that is free.
        """
        job = candidate.job
        key = (
            candidate.kind,
            candidate.suitable,
            job.cores,
            candidate.least_nodes,
            candidate.alone,
        )
        if key not in self._needed:
            self._needed[key] = self._may_fit_after(candidate, candidate.suitable, len(self.ends))
        ended = self._needed[key]
        if ended > len(self.ends):
            return None
        return max(self.ends[ended - 1].end, now) if ended else now

    def _may_fit_after(self, candidate: Candidate, nodes: NodeSet, most: int) -> int:
        """Return how many running jobs must end before enough cores and nodes are free.

        Fewer are never sufficient. With more, the job fits if it only counts them; see `fits`.

        Args:
            most: number of ends of interest; more may be returned if they are not sufficient.
        """
        cores = candidate.job.cores
        if self._one_core and candidate.cores_only:
            if not self.fits(candidate, nodes, most):
                return NEVER
            return bisect_left(
                range(most),
                cores,
                key=lambda ended: (self._free_nodes(ended) & nodes).bit_count(),
            )
        mask = mask_of(nodes, self._slots.nodes)
        found = NEVER
        for number in range(len(candidate.choices)):
            offers = self._offers_of(candidate, number)
            if candidate.alone:
                found = min(found, offers.first_alone(mask, cores))
            else:
                found = min(found, offers.first(mask, cores, candidate.least_nodes))
        return found

    def find(self, candidate: Candidate, nodes: NodeSet, ended: int = 0) -> Found | None:
        """Return nodes for a job among `nodes` after the first `ended` running jobs; None: none."""
        if self._one_core and candidate.cores_only and self._order.plain:
            free = self._free_nodes(ended) & nodes
            if free.bit_count() < candidate.job.cores:
                return None
            return _one_each(candidate.choices[0], free, candidate.job.cores)
        for choice, offer in self._sufficient(candidate, nodes, ended):
            if self._order.plain and candidate.single and offer.max(initial=0) <= 1:
                return _one_each(choice, set_of_mask(offer > 0), candidate.job.cores)
            chosen = self._chosen(candidate, choice, offer, ended)
            if chosen is not None and not self._too_many_switches(candidate, chosen):
                return Found(choice, chosen, offer[chosen], set_of(chosen.tolist()))
        return None

    def _too_many_switches(self, candidate: Candidate, nodes: Ints) -> bool:
        """Return whether a job waits, because these nodes are on too many leaf switches."""
        if not candidate.switches or self._waits_for_switches is None:
            return False
        leaves = self._order.leaves_of(nodes)
        if leaves is None or len(leaves) <= candidate.switches:
            return False
        return self._waits_for_switches(candidate.job.job_id)

    def _chosen(
        self, candidate: Candidate, choice: NodeChoice, cores: Ints, ended: int
    ) -> Ints | None:
        job, demand = candidate.job, candidate.demand
        if not demand.request.gres_per_job:
            return choose_nodes(job, demand, choice, cores, self._order)
        placing = Placing(job, demand, choice, self.amounts(ended), self._slots)
        return choose_for_devices(placing, cores, self._order)

    def earliest(
        self,
        candidate: Candidate,
        nodes: NodeSet,
        now: int,
        kill_wait: int,
        latest: int | None = None,
    ) -> tuple[int, int] | None:
        """Return when a job could start on some nodes if no other job started.

        The model is `_will_run_test` of Slurm's select/cons_tres: running jobs are taken away in
        groups by the time of their ends; the start is the end of the last of a group.

        Args:
            kill_wait: time that is added to the end of a job beyond its limit, s.
            latest: latest start of interest, after `now`; None: any.

        Returns:
            Time, and number of running jobs that have ended then, for `find`; None: never on these
            nodes, or after `latest`.
        """
        if nodes.bit_count() * self._order.largest < candidate.job.cores:
            return None
        ends = self.ends
        most = len(ends) if latest is None else bisect_right(ends, latest, key=_end)
        needed = self._may_fit_after(candidate, nodes, most)
        counts_only = self._counts_only(candidate)
        if needed == 0 and (counts_only or self.fits(candidate, nodes)):
            return now, 0
        if not ends or needed > most:
            return None
        if not counts_only and not self.fits(candidate, nodes, len(ends)):
            return None
        for end, at in self._groups(nodes):
            if at >= needed and (counts_only or self.fits(candidate, nodes, at)):
                return (end if end > now else max(end + kill_wait, now + 1)), at
        return None

    def _groups(self, nodes: NodeSet) -> Iterator[tuple[int, int]]:
        """Yield the last end of each group of jobs on some nodes, and the number of ended jobs.

        A job on other nodes is passed without a look at its end, so that the one after it belongs
        to the group, whenever it ends.
        """
        ends, last, latest, window, removed = self.ends, 0, 0, FIRST_WINDOW_S, 0
        for at, each in enumerate(ends, 1):
            if not each.nodes & nodes:
                continue
            if not latest:
                latest = (each.end // FIRST_WINDOW_S + 1) * FIRST_WINDOW_S
            last, removed = each.end, removed + 1
            if at < len(ends) and ends[at].end > latest + window:
                yield last, at
                window, removed = 2 * window, 0
                while ends[at].end > latest + window:
                    window *= 2
            elif removed > MOST_TOGETHER:
                removed = 0
        if removed:
            yield last, len(ends)

    def fits(self, candidate: Candidate, nodes: NodeSet, ended: int = 0) -> bool:
        """Return whether `find` finds nodes."""
        if self._one_core and candidate.cores_only:
            return (self._free_nodes(ended) & nodes).bit_count() >= candidate.job.cores
        if not self._counts_only(candidate):
            return self.find(candidate, nodes, ended) is not None
        for _, offer in self._sufficient(candidate, nodes, ended):
            if candidate.alone:
                if offer.max() >= candidate.job.cores:
                    return True
            elif np.count_nonzero(offer) >= candidate.least_nodes:
                return True
        return False

    def _counts_only(self, candidate: Candidate) -> bool:
        """Return whether a job fits wherever the numbers of cores and nodes are sufficient."""
        return self._order.all_on_leaves and (candidate.counts_only or candidate.alone)

    def _sufficient(
        self, candidate: Candidate, nodes: NodeSet, ended: int
    ) -> Iterator[tuple[NodeChoice, Ints]]:
        """Yield the choices of a job with enough free cores, and int64[nodes], those offered."""
        if not ended and self.free_cores < candidate.job.cores:
            return
        for number, choice in enumerate(candidate.choices):
            offer = self._offered(candidate, number, ended) * mask_of(nodes, self._slots.nodes)
            if offer.sum() >= candidate.job.cores:
                yield choice, offer

    def _offered(self, candidate: Candidate, number: int, ended: int) -> Ints:
        """Return the cores that each node offers for a choice of a job, int64[nodes]."""
        if ended:
            return self._offers_of(candidate, number).after(ended)
        key = (candidate.kind, number)
        if key not in self._offered_now:
            self._offered_now[key] = self._offered_of(candidate, number, self._amounts)
        return self._offered_now[key]

    def _offers_of(self, candidate: Candidate, number: int) -> Offers:
        """Return the offers to jobs of this kind for a choice."""
        key = (candidate.kind, number)
        if key not in self._offers:
            amounts, ended = self._generations
            self._offers[key] = Offers(self._offered_of(candidate, number, amounts), ended)
        return self._offers[key]

    def _offered_of(self, candidate: Candidate, number: int, amounts: Ints) -> Ints:
        job, demand, choice = candidate.job, candidate.demand, candidate.choices[number]
        cores = offered(Placing(job, demand, choice, amounts, self._slots))
        return usable_cores(demand, job, cores)


def _one_each(choice: NodeChoice, nodes: NodeSet, count: int) -> Found:
    """Return a place for one core on each of `count` nodes among at least as many."""
    numbers, chosen = consecutive_nodes(nodes, count)
    return Found(choice, np.array(numbers), np.ones(count, dtype=np.int64), chosen)


def _end(running: RunningEnd) -> int:
    return running.end


def _end_and_number(running: RunningEnd) -> tuple[int, int]:
    return running.end, running.number


def add(amounts: Ints, allocation: Allocation, sign: int) -> None:
    """Add what a job holds to free amounts, or subtract it with a sign of -1."""
    amounts[allocation.nodes] += sign * allocation.cores_per_node
    if allocation.held is not None:
        amounts[allocation.held.slots] += sign * allocation.held.amounts


def set_of(nodes: Iterable[int]) -> NodeSet:
    """Return the set of the given node numbers."""
    return reduce(or_, map((1).__lshift__, nodes), 0)


def set_of_mask(mask: Bools) -> NodeSet:
    """Return the set of the nodes whose element of a bool[nodes] is true."""
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


@lru_cache(maxsize=4096)
def mask_of(nodes: NodeSet, count: int) -> Bools:
    """Return bool[nodes], read-only: whether a set contains each of `count` nodes."""
    data = np.frombuffer(nodes.to_bytes((count + 7) // 8, "little"), dtype=np.uint8)
    mask = np.unpackbits(data, count=count, bitorder="little").view(np.bool_)
    mask.setflags(write=False)
    return mask


@dataclass(frozen=True, slots=True)
class Candidate:
    """A waiting job in one of its partitions.

    Attributes:
        choices: the sets of nodes of this partition, of which the job uses one.
        partition: name of the partition; empty: none.
        kind: equal for jobs to which each node offers the same.
        least_nodes: least number of nodes; see `select.least_nodes`.
        suitable: nodes whose features, cores and memory suit the job, whatever is free.
        limit: time limit, s.
        counts_only: whether it fits on any nodes with as many cores and nodes as it needs.
        cores_only: whether it may use every free core, on any number of nodes.
        alone: whether it fits on one node that offers all its cores, and only there.
        switches: preferred maximum number of leaf switches; 0: no preference.
    """

    job: Job
    demand: Demand
    choices: tuple[NodeChoice, ...]
    partition: str
    kind: object
    least_nodes: int
    suitable: NodeSet
    limit: int
    counts_only: bool = False
    cores_only: bool = False
    alone: bool = False
    switches: int = 0

    @property
    def single(self) -> bool:
        """Whether it gets as many nodes as cores if each node offers one core."""
        return self.counts_only and self.least_nodes <= self.job.cores


class Found(Struct, frozen=True, eq=False, gc=False):
    """Nodes for a job.

    Attributes:
        choice: the set of nodes from which they are.
        nodes: int64[n], node numbers, in the order in which the job fills them.
        cores: int64[n], cores offered on each of them.
    """

    choice: NodeChoice
    nodes: Ints
    cores: Ints
    node_set: NodeSet
