"""The resources that are free now and after running jobs end, by their time limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hpcosim_client.demand import Demand, NodeChoice
from hpcosim_client.job import Allocation, Ints, Job
from hpcosim_client.placing import Placing, offered
from hpcosim_client.slots import Slots
from hpcosim_client.slurm.node_sets import NodeSet, mask_of, set_of
from hpcosim_client.slurm.select import NodeOrder, choose_nodes, usable_cores

FIRST_WINDOW_S = 30
"""Running jobs whose ends are this close are taken away together; doubled each time (`_will_run_
test` of select/cons_tres). It is the time within which planned starts are imprecise."""

MOST_TOGETHER = 200
"""Maximum number of running jobs that are taken away together."""


@dataclass(frozen=True, slots=True)
class RunningEnd:
    """A running job and its end.

    Attributes:
        end: end by the time limit, seconds of the site's clock.
        nodes: its nodes.
        allocation: what it holds.
    """

    end: int
    nodes: NodeSet
    allocation: Allocation


@dataclass(frozen=True, slots=True)
class Candidate:
    """A waiting job in one of its partitions.

    Attributes:
        job: the job.
        demand: what it demands.
        choices: the sets of nodes of this partition, of which the job uses one.
        partition: name of the partition; empty: none.
        kind: equal for jobs to which each node offers the same.
        suitable: nodes whose features, cores and memory suit the job, whatever is free.
        limit: time limit, s.
    """

    job: Job
    demand: Demand
    choices: tuple[NodeChoice, ...]
    partition: str
    kind: object
    suitable: NodeSet
    limit: int


class Future:
    """Free resources after the first running jobs have ended, in the order of their ends.

    Args:
        amounts: int64[slots], free now.
        running: the running jobs.
        slots: layout of the amounts.
        order: what the node choice prefers.
    """

    def __init__(
        self, amounts: Ints, running: Sequence[RunningEnd], slots: Slots, order: NodeOrder
    ) -> None:
        self._running = running
        self._ends: list[RunningEnd] | None = None
        self._slots, self._order = slots, order
        self._amounts = [amounts.copy()]
        self._cores: list[int] = []
        self._offers: dict[tuple[object, int, int], Ints] = {}

    @property
    def ends(self) -> list[RunningEnd]:
        """The running jobs in the order of their ends."""
        if self._ends is None:
            self._ends = sorted(self._running, key=lambda each: each.end)
        return self._ends

    def amounts(self, ended: int) -> Ints:
        """Return int64[slots]: what is free once the first `ended` running jobs have ended."""
        while len(self._amounts) <= ended:
            free = self._amounts[-1].copy()
            add(free, self.ends[len(self._amounts) - 1].allocation, 1)
            self._amounts.append(free)
        return self._amounts[ended]

    def cores(self, ended: int = 0) -> int:
        """Return the number of cores free once the first `ended` running jobs have ended."""
        while len(self._cores) <= ended:
            if not self._cores:
                self._cores.append(int(self._amounts[0][: self._slots.nodes].sum()))
            else:
                allocation = self.ends[len(self._cores) - 1].allocation
                self._cores.append(self._cores[-1] + allocation.cores)
        return self._cores[ended]

    def find(self, candidate: Candidate, nodes: NodeSet, ended: int = 0) -> Found | None:
        """Return nodes for a job among `nodes` after the first `ended` running jobs; None: none."""
        if self.cores(ended) < candidate.job.cores:
            return None
        mask = None
        for number, choice in enumerate(candidate.choices):
            cores = self._offered(candidate, choice, number, ended)
            if mask is None:
                mask = mask_of(nodes, len(cores))
            cores = cores * mask
            if int(cores.sum()) < candidate.job.cores:
                continue
            chosen = choose_nodes(candidate.job, candidate.demand, choice, cores, self._order)
            if chosen is not None:
                return Found(choice, chosen, cores[chosen])
        return None

    def earliest(
        self, candidate: Candidate, nodes: NodeSet, now: int, kill_wait: int
    ) -> tuple[int, Found] | None:
        """Return when and where a job could start on some nodes if no other job started.

        The model is `_will_run_test` of Slurm's select/cons_tres: running jobs are taken away in
        groups by the time of their ends; the start is the end of the last of a group.

        Args:
            candidate: the job.
            nodes: the nodes that it may use.
            now: time of the pass.
            kill_wait: time that is added to the end of a job beyond its limit, s.

        Returns:
            Time and nodes; None: never on these nodes.
        """
        found = self.find(candidate, nodes)
        if found is not None:
            return now, found
        window, at = FIRST_WINDOW_S, 0
        while at < len(self.ends):
            first = last = None
            removed = 0
            while at < len(self.ends):
                each = self.ends[at]
                at += 1
                if not each.nodes & nodes:
                    continue
                first = first or each
                last = each
                removed += 1
                following = self.ends[at] if at < len(self.ends) else None
                if removed > MOST_TOGETHER or (
                    following is not None and following.end > first.end + window
                ):
                    break
            if last is None:
                return None
            window *= 2
            found = self.find(candidate, nodes, at)
            if found is not None:
                start = last.end if last.end > now else max(last.end + kill_wait, now + 1)
                return start, found
        return None

    def _offered(self, candidate: Candidate, choice: NodeChoice, number: int, ended: int) -> Ints:
        key = (candidate.kind, number, ended)
        cores = self._offers.get(key)
        if cores is None:
            amounts = self.amounts(ended)
            placing = Placing(candidate.job, candidate.demand, choice, amounts, self._slots)
            cores = offered(placing)
            cores = usable_cores(candidate.demand, candidate.job, cores)
            self._offers[key] = cores
        return cores


@dataclass(frozen=True, slots=True)
class Found:
    """Nodes for a job.

    Attributes:
        choice: the set of nodes from which they are.
        nodes: int64[n], node numbers, in the order in which the job fills them.
        cores: int64[n], cores offered on each of them.
    """

    choice: NodeChoice
    nodes: Ints
    cores: Ints

    @property
    def node_set(self) -> NodeSet:
        """The nodes as a set."""
        return set_of(self.nodes.tolist())


def add(amounts: Ints, allocation: Allocation, sign: int) -> None:
    """Add what a job holds to free amounts, or subtract it with a sign of -1."""
    amounts[allocation.nodes] += sign * allocation.cores_per_node
    if allocation.held is not None:
        amounts[allocation.held.slots] += sign * allocation.held.amounts
