"""The order in which `select/cons_tres` takes nodes of equal weight for a job.

Sources: slurm.conf(5), `SelectTypeParameters` and `TopologyPlugin`; topology.conf(5); the topology
guide (https://slurm.schedmd.com/topology.html).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpcosim_client.demands import in_ranges
from hpcosim_client.job import Ints
from hpcosim_protocol import Platform
from hpcosim_schedulers.slurm.settings import Selection


@dataclass(frozen=True)
class NodeOrder:
    """What the node choice prefers.

    Attributes:
        leaf: int64[nodes], number of the leaf switch of each node; -1: none. None: no topology.
        leaves: number of leaf switches.
        weight: int64[nodes], weights of the nodes; None: all are alike.
        capacity: int64[nodes], cores.
        largest: cores of the largest node.
        least_loaded: whether the least loaded nodes come first (`CR_LLN`).
    """

    leaf: Ints | None
    leaves: int
    weight: Ints | None
    capacity: Ints
    largest: int
    least_loaded: bool = False

    @property
    def plain(self) -> bool:
        """Whether only the numbers of the nodes matter."""
        return self.leaf is None and self.weight is None and not self.least_loaded

    def leaves_of(self, nodes: Ints) -> Ints | None:
        """Return the numbers of the leaf switches of nodes; None: no topology."""
        return None if self.leaf is None else np.unique(self.leaf[nodes])

    @classmethod
    def of(cls, platform: Platform, selection: Selection) -> NodeOrder:
        """Return the order for a platform."""
        count = platform.node_count
        groups = platform.nodes
        weight = np.repeat([group.weight for group in groups], [group.count for group in groups])
        leaf = None
        switches = [switch for switch in platform.switches if switch.nodes]
        if switches and not selection.ignore_topology:
            leaf = np.full(count, -1, dtype=np.int64)
            for number, switch in enumerate(switches):
                leaf[in_ranges(switch.nodes, count)] = number
        return cls(
            leaf,
            len(switches),
            None if (weight == weight[0]).all() else weight,
            np.array(platform.cores_by_node(), dtype=np.int64),
            max(group.cores for group in groups),
            selection.lln,
        )


@dataclass(slots=True)
class Need:
    """What is still needed of further nodes while nodes are chosen.

    Attributes:
        cores: cores.
        nodes: nodes.
        most: greatest number of further nodes.
    """

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
        order: what the choice prefers.
        need: what is needed.
        begun: leaf switches of which the job has nodes; None: none.
    """
    if order.least_loaded:
        by_load = np.argsort(-cores[nodes] / order.capacity[nodes], kind="stable")
        return [need.take(nodes[by_load], cores)]
    if order.leaf is None:
        return _consecutive(nodes, cores, need)
    return _of_leaves(nodes, cores, order.leaf[nodes], order.leaves, need, begun)


def _of_leaves(
    nodes: Ints, cores: Ints, leaf: Ints, leaves: int, need: Need, begun: Ints | None
) -> list[Ints]:
    """Take nodes switch by switch (`topology/tree`).

    Leaf switches of which the job has nodes come first. The next one is that with the fewest free
    nodes among those with as many as the job needs, or else the one with most. Of equal ones it is
    the first. Only the number of nodes counts, not their cores: observed with Slurm 22.05.

    Args:
        nodes: int64[n], numbers of free nodes.
        cores: int64[nodes of the cluster], cores offered.
        leaf: int64[n], leaf switch of each of `nodes`; -1: none.
        leaves: number of leaf switches.
        need: what is needed.
        begun: leaf switches of which the job has nodes; None: none.
    """
    parts = []
    counts = np.bincount(leaf[leaf >= 0], minlength=leaves)
    for switch in () if begun is None else begun.tolist():
        if switch >= 0:
            parts.append(need.take(nodes[leaf == switch], cores))
            counts[switch] = 0
    while not need.met and need.most > 0 and counts.any():
        sufficient = counts >= max(need.nodes, 1)
        if sufficient.any():
            best = int(np.where(sufficient, counts, len(cores) + 1).argmin())
        else:
            best = int(counts.argmax())
        parts.append(need.take(nodes[leaf == best], cores))
        counts[best] = 0
    return parts


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
