"""The platform as a scheduler is told of it: groups of equal nodes."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

PositiveInt = Annotated[int, Meta(gt=0)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Fraction = Annotated[float, Meta(ge=0, le=1)]


class Processor(Struct, frozen=True):
    """A processor of a node.

    Its power is `idle_fraction * static_w` while none of its cores has a task, and
    `static_w + dynamic_w * (cores with a task)` otherwise (Lopez, Stafford, Bosque 2025,
    section 3.1).

    Attributes:
        cores: cores of this processor.
        clock_ghz: clock of each core, GHz.
        static_w: power of the processor as a whole, W.
        dynamic_w: power of each core that has a task, W.
        idle_fraction: the share of `static_w` that an idle processor draws, 0 to 1.
    """

    cores: PositiveInt
    clock_ghz: Positive = 1.0
    static_w: NotNegative = 0.0
    dynamic_w: NotNegative = 0.0
    idle_fraction: Fraction = 1.0


class NodeGroup(Struct, frozen=True):
    """Equal nodes, numbered on from those of the group before.

    Attributes:
        count: how many nodes.
        processors: the processors of each.
    """

    count: PositiveInt
    processors: Annotated[tuple[Processor, ...], Meta(min_length=1)]

    @property
    def cores(self) -> int:
        """Cores of one node of the group."""
        return sum(processor.cores for processor in self.processors)


class Platform(Struct, frozen=True):
    """All nodes of a cluster, numbered from 0 in the order of the groups."""

    nodes: Annotated[tuple[NodeGroup, ...], Meta(min_length=1)]

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return sum(group.count for group in self.nodes)

    @property
    def core_count(self) -> int:
        """How many cores there are."""
        return sum(group.count * group.cores for group in self.nodes)

    def cores_by_node(self) -> list[int]:
        """Return the cores of each node, by node number."""
        return [group.cores for group in self.nodes for _ in range(group.count)]
