"""The nodes that a job gets, as `select/cons_tres` of Slurm chooses them.

Sources: slurm.conf(5), `SelectTypeParameters` and `TopologyPlugin`; topology.conf(5); the topology
guide (https://slurm.schedmd.com/topology.html); `_eval_nodes` and `_eval_nodes_topo` of Slurm's
select plugins. Placements of a real Slurm 22.05 are compared in docs/explanation/slurm-policy.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hpcosim_client.demand import Demand, NodeChoice
from hpcosim_client.free_resources import in_ranges
from hpcosim_client.job import Ints, Job
from hpcosim_protocol import Platform
from hpcosim_schedulers.slurm.settings import Selection


def choose_nodes(
    job: Job, demand: Demand, choice: NodeChoice, cores: Ints, order: NodeOrder
) -> Ints | None:
    """Return the nodes that a job gets, in the order in which it fills them.

    Args:
        job: a job.
        demand: what it demands.
        choice: the nodes that it may use.
        cores: int64[nodes], cores offered to it on each node; 0: none.
        order: what the choice prefers.

    If the greatest number of nodes prevents the choice, the nodes with the fewest cores are left
    out step by step, as Slurm does against a knapsack problem.

    Returns:
        int64[n], node numbers; None: the offered cores are not sufficient.
    """
    nodes = _choose(job, demand, choice, cores, order)
    if nodes is not None or not demand.request.nodes_max:
        return nodes
    required = list(demand.request.required_nodes)
    for few in np.unique(cores[cores > 0]).tolist():
        larger = np.where(cores > few, cores, 0)
        larger[required] = cores[required]
        if larger.sum() < job.cores:
            return None
        nodes = _choose(job, demand, choice, larger, order)
        if nodes is not None:
            return nodes
    return None


def _choose(
    job: Job, demand: Demand, choice: NodeChoice, cores: Ints, order: NodeOrder
) -> Ints | None:
    """Return the nodes of the first try of `choose_nodes`."""
    request = demand.request
    tasks = job.cores // request.cores_per_task
    least = least_nodes(job, demand)
    most = 1 if job.placement == "one_node" else request.nodes_max
    need = Need(job.cores, min(max(least, most), tasks), most or tasks)
    chosen = _stated(demand, choice, cores, order, need)
    if chosen is None:
        return None
    left = cores.copy()
    left[chosen] = 0
    parts = [chosen]
    candidates = left.nonzero()[0]
    for alike in _by_weight(candidates, order):
        if need.met:
            break
        begun = None if order.leaf is None else order.leaf[np.concatenate(parts)]
        parts += take_alike(alike, left, order, need, begun)
    nodes: Ints = np.concatenate(parts)
    return nodes if need.cores <= 0 and len(nodes) >= least else None


def _by_weight(nodes: Ints, order: NodeOrder) -> Iterator[Ints]:
    """Yield nodes of equal weight, the least weight first."""
    if order.weight is None:
        yield nodes
        return
    weights = order.weight[nodes]
    for weight in np.unique(weights).tolist():
        yield nodes[weights == weight]


def least_nodes(job: Job, demand: Demand) -> int:
    """Return the least number of nodes of a job, with that which `--ntasks-per-node` implies."""
    request = demand.request
    least = max(request.nodes_min, len(request.required_nodes), 1)
    if request.tasks_per_node:
        tasks = job.cores // request.cores_per_task
        least = max(least, -(-tasks // request.tasks_per_node))
    return least


def _stated(
    demand: Demand, choice: NodeChoice, cores: Ints, order: NodeOrder, need: Need
) -> Ints | None:
    """Return required nodes and those of counted features; None: some are not offered."""
    chosen: Ints = np.array(sorted(demand.request.required_nodes), dtype=np.int64)
    if len(chosen):
        if (cores[chosen] == 0).any():
            return None
        need.cores -= int(cores[chosen].sum())
        need.nodes -= len(chosen)
        need.most -= len(chosen)
    for nodes, count in choice.quotas:
        left = np.where(nodes, cores, 0)
        missing = count - int(nodes[chosen].sum())
        left[chosen] = 0
        part = Need(0, missing, max(missing, 0))
        found = np.concatenate(
            [chosen[:0], *take_alike(left.nonzero()[0], left, order, part, None)]
        )
        if part.nodes > 0:
            return None
        need.cores -= int(cores[found].sum())
        need.nodes -= len(found)
        need.most -= len(found)
        chosen = np.concatenate([chosen, found])
    return chosen


def tasks_on_nodes(job: Job, cores_per_task: int, cores: Ints) -> Ints:
    """Return the cores of a job on each of its nodes: a task on each, the others fill in order.

    Args:
        cores: int64[n], cores offered on each of its nodes.
    """
    spare = cores - cores_per_task
    before = spare.cumsum() - spare
    rest = job.cores - cores_per_task * len(cores)
    filled: Ints = cores_per_task + np.clip(rest - before, 0, spare)
    return filled


def usable_cores(demand: Demand, job: Job, cores: Ints) -> Ints:
    """Return the offered cores without nodes that offer less than `--ntasks-per-node` tasks.

    Slurm 22.05 starts jobs with `--ntasks-per-node` only on nodes that run as many tasks.
    """
    limit = demand.request.tasks_per_node
    if limit <= 1:
        return cores
    least = min(limit * demand.request.cores_per_task, job.cores)
    return np.where(cores >= least, cores, 0)


@dataclass(frozen=True)
class NodeOrder:
    """What the node choice prefers.

    Attributes:
        leaf: int64[nodes], number of the leaf switch of each node; -1: none. None: no topology.
        weight: int64[nodes], weights of the nodes; None: all are alike.
        capacity: int64[nodes], cores.
        largest: cores of the largest node.
        least_loaded: whether the least loaded nodes come first (`CR_LLN`).
        tree: the switches above the leaves; None: they are alike for all leaves.
    """

    leaf: Ints | None
    leaves: int
    weight: Ints | None
    capacity: Ints
    largest: int
    least_loaded: bool = False
    tree: SwitchTree | None = None

    @property
    def plain(self) -> bool:
        """Whether only the numbers of the nodes matter."""
        return self.leaf is None and self.weight is None and not self.least_loaded

    @cached_property
    def all_on_leaves(self) -> bool:
        """Whether each node has a leaf switch, or there is no topology."""
        return self.leaf is None or bool((self.leaf >= 0).all())

    def leaves_of(self, nodes: Ints) -> Ints | None:
        """Return the numbers of the leaf switches of nodes; None: no topology."""
        return None if self.leaf is None else np.unique(self.leaf[nodes])

    @classmethod
    def of(cls, platform: Platform, selection: Selection) -> NodeOrder:
        """Return the order for a platform."""
        count = platform.node_count
        groups = platform.nodes
        weight = np.repeat([group.weight for group in groups], [group.count for group in groups])
        leaf = tree = None
        switches = [switch for switch in platform.switches if switch.nodes]
        if switches and not selection.ignore_topology:
            leaf = np.full(count, -1, dtype=np.int64)
            for number, switch in enumerate(switches):
                leaf[in_ranges(switch.nodes, count)] = number
            tree = SwitchTree.of(platform)
        return cls(
            leaf,
            len(switches),
            None if (weight == weight[0]).all() else weight,
            np.array(platform.cores_by_node(), dtype=np.int64),
            max(group.cores for group in groups),
            selection.lln,
            tree,
        )


@dataclass(frozen=True)
class SwitchTree:
    """The switches of a network with several levels above the leaves.

    Attributes:
        above: the switch above each, or itself; the leaves are the first ones.
        paths: of each leaf, the switches above it, the nearest first.
        distance: int64[leaves, leaves], number of links between two leaf switches.
    """

    above: tuple[int, ...]
    paths: tuple[tuple[int, ...], ...]
    distance: Ints

    @classmethod
    def of(cls, platform: Platform) -> SwitchTree | None:
        """Return the tree of a platform; None: the leaves are alike, or not all connected."""
        switches = sorted(platform.switches, key=lambda switch: not switch.nodes)
        number = {switch.name: at for at, switch in enumerate(switches)}
        above = list(range(len(switches)))
        for at, switch in enumerate(switches):
            for name in switch.switches:
                above[number[name]] = at
        leaves = sum(bool(switch.nodes) for switch in switches)
        if len({above[leaf] for leaf in range(leaves)}) == 1:
            return None
        paths = tuple(tuple(_path(above, leaf)) for leaf in range(leaves))
        if len({(leaf, *path)[-1] for leaf, path in enumerate(paths)}) > 1:
            return None
        links = [{leaf, *path} for leaf, path in enumerate(paths)]
        distance = np.array([[len(one ^ other) for other in links] for one in links])
        return cls(tuple(above), paths, distance)


def _path(above: list[int], switch: int) -> Iterator[int]:
    """Yield the switches above one, the nearest first."""
    while above[switch] != switch:
        switch = above[switch]
        yield switch


@dataclass(slots=True)
class Need:
    """What is still needed of further nodes while nodes are chosen."""

    cores: int
    nodes: int
    most: int

    @property
    def met(self) -> bool:
        """Whether nothing more is needed."""
        return self.cores <= 0 and self.nodes <= 0

    def take(self, nodes: Ints, cores: Ints) -> Ints:
        """Take the first of some nodes until the need is met, and return them."""
        if not len(nodes) or self.met or self.most <= 0:
            return nodes[:0]
        offered = cores[nodes].cumsum()
        count = max(int(offered.searchsorted(self.cores)) + 1 if self.cores > 0 else 0, self.nodes)
        count = min(count, len(nodes), self.most)
        self.cores -= int(offered[count - 1])
        self.nodes -= count
        self.most -= count
        return nodes[:count]


def take_alike(
    nodes: Ints, cores: Ints, order: NodeOrder, need: Need, begun: Ints | None
) -> list[Ints]:
    """Take nodes of equal weight, and return them in parts.

    Args:
        nodes: int64[n], numbers of free nodes.
        cores: int64[nodes of the cluster], cores offered.
        begun: int64[m], leaf switches of the nodes that the job has; None: no topology.
    """
    if order.least_loaded:
        by_load = np.argsort(-cores[nodes] / order.capacity[nodes], kind="stable")
        return [need.take(nodes[by_load], cores)]
    if order.leaf is None:
        return _consecutive(nodes, cores, need)
    return _of_leaves(nodes, cores, order, need, order.leaf[:0] if begun is None else begun)


def _of_leaves(nodes: Ints, cores: Ints, order: NodeOrder, need: Need, begun: Ints) -> list[Ints]:
    """Take nodes switch by switch (`topology/tree`).

    Leaf switches of which the job has nodes come first. The next one is that with the fewest free
    nodes among those with as many as the job needs, or else the one with most. Of equal ones it is
    the first. Only the number of nodes counts, not their cores: observed with Slurm 22.05. In a
    network of several levels see `_best_leaf`.
    """
    assert order.leaf is not None
    leaf, parts = order.leaf[nodes], []
    counts = np.bincount(leaf[leaf >= 0], minlength=order.leaves)
    used = np.unique(begun[begun >= 0]).tolist()
    tree = order.tree
    below = [] if tree is None else _below(tree, counts, begun)
    for switch in used:
        parts.append(need.take(nodes[leaf == switch], cores))
        counts[switch] = 0
    while not need.met and need.most > 0 and counts.any():
        sufficient = counts >= max(need.nodes, 1)
        if tree is not None:
            best = _best_leaf(tree, counts.tolist(), below, need.nodes, used)
        elif sufficient.any():
            best = int(np.where(sufficient, counts, len(cores) + 1).argmin())
        else:
            best = int(counts.argmax())
        parts.append(need.take(nodes[leaf == best], cores))
        counts[best] = 0
        used.append(best)
    return parts


def _below(tree: SwitchTree, counts: Ints, begun: Ints) -> list[int]:
    """Return the numbers of nodes below each switch: those to choose from, and those of the job."""
    leaves = len(tree.paths)
    found = (counts + np.bincount(begun[begun >= 0], minlength=leaves)).tolist()
    found += [0] * (len(tree.above) - leaves)
    for leaf, path in enumerate(tree.paths):
        for switch in path:
            found[switch] += found[leaf]
    return list(found)


def _best_leaf(
    tree: SwitchTree, counts: list[int], below: list[int], nodes: int, used: list[int]
) -> int:
    """Return the next leaf switch in a network of several levels (`_topo_choose_best_switch`).

    A leaf is better than the best before it if it is closer to the leaves in use and fits as
    well, or if it is as close and fits better.

    Args:
        counts: nodes that are left on each leaf; one has some.
        below: nodes below each switch; only those above leaves are used.
        nodes: number of nodes that the job still needs.
        used: leaf switches in use.
    """
    distance = tree.distance[used].sum(axis=0).tolist()
    best = -1
    for leaf, count in enumerate(counts):
        if count == 0:
            continue
        if best < 0:
            best = leaf
            continue
        better = _fits_better(tree.above, counts, below, nodes, leaf, best)
        closer = distance[best] - distance[leaf]
        if (closer > 0 and better >= 0) or (closer == 0 and better > 0):
            best = leaf
    return best


def _fits_better(
    above: Sequence[int], counts: list[int], below: list[int], nodes: int, one: int, other: int
) -> int:
    """Return 1 if a leaf switch fits a job better than another, -1 if worse, else 0.

    Of two that have enough nodes that with fewer is better. If neither has, the switches above
    them are compared. If those are the same one, or have as many nodes, it is the one with more.
    """
    first, second = counts[one], counts[other]
    while True:
        if first >= nodes and second >= nodes:
            if first != second:
                return 1 if first < second else -1
            break
        if first >= nodes or second >= nodes:
            return 1 if first >= nodes else -1
        if above[one] == above[other]:
            break
        one, other = above[one], above[other]
        first, second = below[one], below[other]
    return (first > second) - (first < second)


def _consecutive(nodes: Ints, cores: Ints, need: Need) -> list[Ints]:
    """Take runs of consecutive nodes: the smallest sufficient one, or else the largest first."""
    if not len(nodes):
        return []
    gaps = (nodes[1:] - nodes[:-1] > 1).nonzero()[0] + 1
    bounds = [0, *gaps.tolist(), len(nodes)]
    first = np.array(bounds[:-1])
    counts = np.array(bounds[1:]) - first
    offered = np.add.reduceat(cores[nodes], first)
    parts = []
    while not need.met and need.most > 0 and offered.any():
        sufficient = (offered > 0) & (offered >= need.cores) & (counts >= need.nodes)
        if sufficient.any():
            best = int(np.where(sufficient, offered, MANY).argmin())
        else:
            best = int(offered.argmax())
        parts.append(need.take(nodes[first[best] : first[best] + counts[best]], cores))
        offered[best] = 0
    return parts


MANY = 2**62
"""More cores than any cluster has."""
