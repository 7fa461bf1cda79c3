"""The nodes of a cluster as the node choice sees them, and the resources that are free on them.

Sets of nodes are integers whose bit `n` stands for node `n`: the backfill plan intersects many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from hpcosim_client.job import Bools, Floats, Ints
from hpcosim_protocol import NodeRanges, Platform

NodeSet = int
"""A set of nodes: bit `n` is set if it contains node `n`."""

SHARES = 1000
"""Shares of a device, the unit of generic resources."""


def node_set(nodes: Iterable[int]) -> NodeSet:
    """Return the set of the given node numbers."""
    result = 0
    for node in nodes:
        result |= 1 << node
    return result


def ranges_set(ranges: NodeRanges) -> NodeSet:
    """Return the set of the nodes of ranges."""
    result = 0
    for first, last in ranges:
        result |= ((1 << (last - first + 1)) - 1) << first
    return result


def set_of_mask(mask: Bools) -> NodeSet:
    """Return the set of the nodes whose element of a bool[nodes] is true."""
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def mask_of_set(nodes: NodeSet, count: int) -> Bools:
    """Return bool[nodes]: whether a set contains each node."""
    data = np.frombuffer(nodes.to_bytes((count + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(data, count=count, bitorder="little").astype(np.bool_)


@dataclass(frozen=True)
class ClusterNodes:
    """What does not change about the nodes of a cluster.

    Attributes:
        count: number of nodes.
        cores: int64[nodes], cores of each node.
        memory_mb: float64[nodes], memory that jobs can hold, MB; infinity: not limited.
        devices: int64[nodes] for each typed name of a generic resource: shares of all devices.
        features: features of each node.
        weight: int64[nodes], Slurm's weights: small ones first.
        leaves: nodes of each leaf switch, in the platform's order; empty: no topology.
        partitions: nodes of each partition, by name.
        all: all nodes.
    """

    count: int
    cores: Ints
    memory_mb: Floats
    devices: Mapping[str, Ints]
    features: tuple[frozenset[str], ...]
    weight: Ints
    leaves: tuple[NodeSet, ...]
    partitions: Mapping[str, NodeSet]
    all: NodeSet

    @classmethod
    def of(cls, platform: Platform, *, ignore_topology: bool = False) -> ClusterNodes:
        """Return the nodes of a platform."""
        groups = platform.nodes
        group_of = np.repeat(np.arange(len(groups)), [group.count for group in groups])
        memory = np.array([group.memory_mb for group in groups], dtype=np.float64)[group_of]
        if "memory" not in platform.consumable:
            memory = np.full(len(group_of), np.inf)
        names = dict.fromkeys(name for group in groups for name in group.gres)
        leaves = () if ignore_topology else tuple(
            ranges_set(switch.nodes) for switch in platform.switches if switch.nodes
        )
        return cls(
            count=len(group_of),
            cores=np.array(platform.cores_by_node(), dtype=np.int64),
            memory_mb=np.where(memory > 0, memory, np.inf),
            devices={
                name: SHARES
                * np.array([group.gres.get(name, 0) for group in groups], dtype=np.int64)[group_of]
                for name in names
            },
            features=tuple(frozenset(groups[index].features) for index in group_of.tolist()),
            weight=np.array([group.weight for group in groups], dtype=np.int64)[group_of],
            leaves=leaves,
            partitions={part.name: ranges_set(part.nodes) for part in platform.partitions},
            all=(1 << len(group_of)) - 1,
        )


@dataclass(frozen=True)
class Holding:
    """What a job holds.

    Attributes:
        nodes: int64[n], node numbers.
        cores: int64[n], cores on each of them.
        memory_mb: float64[n], memory on each of them, MB.
        devices: int64[n] for each typed name, shares of devices on each of them.
    """

    nodes: Ints
    cores: Ints
    memory_mb: Floats
    devices: Mapping[str, Ints]

    @property
    def node_set(self) -> NodeSet:
        """The nodes as a set."""
        return node_set(self.nodes.tolist())


class FreeResources:
    """The resources of each node that no job holds.

    Attributes:
        cores: int64[nodes].
        memory_mb: float64[nodes]; infinity: not limited.
        devices: int64[nodes] for each typed name, shares of devices.
        jobs: int64[nodes], number of jobs on each node.
    """

    __slots__ = ("cores", "devices", "jobs", "memory_mb")

    def __init__(
        self, cores: Ints, memory_mb: Floats, devices: Mapping[str, Ints], jobs: Ints
    ) -> None:
        self.cores = cores
        self.memory_mb = memory_mb
        self.devices = devices
        self.jobs = jobs

    @classmethod
    def of(cls, cluster: ClusterNodes) -> FreeResources:
        """Return the resources of an empty cluster."""
        devices = {name: shares.copy() for name, shares in cluster.devices.items()}
        jobs = np.zeros(cluster.count, dtype=np.int64)
        return cls(cluster.cores.copy(), cluster.memory_mb.copy(), devices, jobs)

    def copy(self) -> FreeResources:
        """Return an independent copy."""
        devices = {name: shares.copy() for name, shares in self.devices.items()}
        return FreeResources(self.cores.copy(), self.memory_mb.copy(), devices, self.jobs.copy())

    def take(self, held: Holding) -> None:
        """Subtract what a job holds."""
        self._add(held, -1)

    def release(self, held: Holding) -> None:
        """Add what a job held; undoes `take`."""
        self._add(held, 1)

    def _add(self, held: Holding, sign: int) -> None:
        self.cores[held.nodes] += sign * held.cores
        self.memory_mb[held.nodes] += sign * held.memory_mb
        self.jobs[held.nodes] -= sign
        for name, shares in held.devices.items():
            self.devices[name][held.nodes] += sign * shares
