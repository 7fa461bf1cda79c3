"""The cores that nodes offer to a job, as sets of nodes whose sums cost little."""

from __future__ import annotations

from msgspec import Struct

from hpcosim_client.job import Ints
from hpcosim_schedulers.slurm.node_sets import NodeSet, set_of_mask


class Offer(Struct, frozen=True, eq=False, gc=False):
    """The cores that each node offers to a job.

    Attributes:
        cores: int64[nodes], cores.
        nodes: nodes that offer any.
        planes: powers of two, and the nodes whose number of cores has that bit.
    """

    cores: Ints
    nodes: NodeSet
    planes: tuple[tuple[int, NodeSet], ...]

    @classmethod
    def of(cls, cores: Ints) -> Offer:
        """Return the offer of the given int64[nodes]."""
        nodes = set_of_mask(cores > 0)
        most = int(cores.max(initial=0))
        if most <= 1:
            return cls(cores, nodes, ((1, nodes),))
        bits = [1 << bit for bit in range(most.bit_length())]
        return cls(cores, nodes, tuple((bit, set_of_mask(cores & bit > 0)) for bit in bits))

    @property
    def single(self) -> bool:
        """Whether no node offers more than one core."""
        return len(self.planes) == 1

    def total(self, nodes: NodeSet) -> int:
        """Return the number of cores that some nodes offer together."""
        total = 0
        for weight, plane in self.planes:
            total += weight * (plane & nodes).bit_count()
        return total

    def count(self, nodes: NodeSet) -> int:
        """Return the number of nodes among `nodes` that offer cores."""
        return (self.nodes & nodes).bit_count()


def consecutive_nodes(nodes: NodeSet, count: int) -> tuple[list[int], NodeSet]:
    """Return `count` nodes that offer one core each, as `select.choose_nodes` chooses them.

    The smallest sufficient run of consecutive nodes, or else the largest runs first.

    Args:
        nodes: free nodes, at least `count`.
        count: number of nodes.

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
