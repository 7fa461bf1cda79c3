"""A waiting job in a partition, and a place for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import or_

import numpy as np
from msgspec import Struct

from hpcosim_client.demand import Demand, NodeChoice
from hpcosim_client.job import Bools, Ints, Job

# Sets of nodes as integers, whose bit `n` is set if the set contains node `n`.

NodeSet = int
"""A set of nodes."""


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
        job: the job.
        demand: what it demands.
        choices: the sets of nodes of this partition, of which the job uses one.
        partition: name of the partition; empty: none.
        kind: equal for jobs to which each node offers the same.
        least_nodes: least number of nodes; see `select.least_nodes`.
        suitable: nodes whose features, cores and memory suit the job, whatever is free.
        limit: time limit, s.
        counts_only: whether it fits on any nodes with as many cores and nodes as it needs.
        cores_only: whether it may use every free core, on any number of nodes.
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
        node_set: the same nodes as a set.
    """

    choice: NodeChoice
    nodes: Ints
    cores: Ints
    node_set: NodeSet
