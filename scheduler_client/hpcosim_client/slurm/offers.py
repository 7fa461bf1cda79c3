"""The cores that nodes offer to a job, as sets of nodes whose sums cost little."""

from __future__ import annotations

from dataclasses import dataclass

from hpcosim_client.job import Ints
from hpcosim_client.slurm.node_sets import NodeSet, set_of_mask


@dataclass(frozen=True, slots=True)
class Offer:
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

    def total(self, nodes: NodeSet) -> int:
        """Return the number of cores that some nodes offer together."""
        total = 0
        for weight, plane in self.planes:
            total += weight * (plane & nodes).bit_count()
        return total

    def count(self, nodes: NodeSet) -> int:
        """Return the number of nodes among `nodes` that offer cores."""
        return (self.nodes & nodes).bit_count()
