"""What a cluster has beyond cores, looked up fast: partitions, reservations, features."""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

from hpcosim_protocol import JobRequest, NodeGroup, NodeReservation, Platform
from hpcosim_protocol.node_access import first_window, numbers_in, partitions_of

NO_REQUEST = JobRequest()
"""The request of a job that requires nothing beyond cores and time."""


class NodeSet(NamedTuple):
    """The nodes of a partition.

    Attributes:
        name: name of the partition; empty: all nodes of a cluster without partitions.
        nodes: the nodes.
        exclusive: whether its jobs hold whole nodes.
        by_group: number of `nodes` in each node group of the platform.
    """

    name: str
    nodes: frozenset[int]
    exclusive: bool
    by_group: tuple[int, ...]


class Site:
    """Partitions, reservations and features of a cluster. They do not change.

    Args:
        platform: description of the cluster.

    Attributes:
        platform: description of the cluster.
        is_plain: whether jobs without a request need nothing but cores: there are no partitions
            and reservations, and cores alone are consumable.
        verdicts: reasons of `feasibility`, by the properties of a job that they depend on.
        repeated: for jobs of a reservation (empty: of none), the nodes with repeated reservations
            and the longest gap between windows there, s; see `windows`.
    """

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.is_plain = (
            not platform.partitions
            and not platform.reservations
            and platform.consumable == ("cores",)
        )
        self.verdicts: dict[tuple[object, ...], str] = {}
        self.repeated: dict[
            str, dict[tuple[NodeReservation, ...], tuple[frozenset[int], float]]
        ] = {}
        self._partitions: dict[str, list[NodeSet]] = {}

    @cached_property
    def group_of(self) -> list[int]:
        """Number of the node group of each node."""
        groups = self.platform.nodes
        return [number for number, group in enumerate(groups) for _ in range(group.count)]

    @cached_property
    def features(self) -> list[frozenset[str]]:
        """Features of the nodes of each group."""
        return [frozenset(group.features) for group in self.platform.nodes]

    @cached_property
    def reservations(self) -> dict[str, NodeReservation]:
        """The reservations by name."""
        return {each.name: each for each in self.platform.reservations}

    @cached_property
    def reserved_nodes(self) -> dict[str, frozenset[int]]:
        """Nodes of each reservation, by its name."""
        return {name: frozenset(numbers_in(each.nodes)) for name, each in self.reservations.items()}

    def next_window_s(self, after_s: float) -> float:
        """Return when the next window of a reservation begins or ends, s; infinity: never."""
        windows = (first_window(each, after_s, math.inf) for each in self.platform.reservations)
        times_s = (at_s for window in windows if window for at_s in window if at_s > after_s)
        return min(times_s, default=math.inf)

    def group(self, node: int) -> NodeGroup:
        """Return the node group of a node."""
        return self.platform.nodes[self.group_of[node]]

    def partitions(self, names: str) -> list[NodeSet]:
        """Return the partitions of a job, in the order that its user named them.

        Args:
            names: names separated by commas; empty: the default partition, or all nodes.

        Raises:
            ResourceError: the platform has partitions, but none with such a name.
        """
        if names not in self._partitions:
            found = partitions_of(self.platform, names.split(",") if names else ())
            self._partitions[names] = [
                self._node_set(each.name, frozenset(numbers_in(each.nodes)), each.exclusive)
                for each in found
            ] or [self._node_set("", frozenset(range(self.platform.node_count)), False)]
        return self._partitions[names]

    def _node_set(self, name: str, nodes: frozenset[int], exclusive: bool) -> NodeSet:
        by_group = [0] * len(self.platform.nodes)
        for node in nodes:
            by_group[self.group_of[node]] += 1
        return NodeSet(name, nodes, exclusive, tuple(by_group))
