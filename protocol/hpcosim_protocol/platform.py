"""The platform as a scheduler is told of it: groups of equal nodes."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

PositiveInt = Annotated[int, Meta(gt=0)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Fraction = Annotated[float, Meta(ge=0, le=1)]


class Contention(Struct, frozen=True):
    """How the tasks of a processor slow each other down when they share its memory bandwidth.

    The speed of a task follows from these by section 5.4 of the specification (Lopez, Stafford,
    Bosque 2025, section 3.1; Lopez Rauhut 2023, section 2.3).

    Attributes:
        c_mbps: while all tasks together ask for less, none is slowed, MB/s.
        b_per_mbps: by how much a task's speed changes for each MB/s beyond, below 0.
        da, db_mbps: a task beside k others that asks for up to `(da - k) * db_mbps` is never
            slowed.
        dc_mbps, dd_mbps: over the `dc_mbps - k * dd_mbps` beyond that, the least speed of a task
            falls to its fair share.
    """

    c_mbps: NotNegative
    b_per_mbps: Annotated[float, Meta(lt=0)]
    da: float
    db_mbps: float
    dc_mbps: float
    dd_mbps: float


class Processor(Struct, frozen=True):
    """A processor of a node.

    Its power is `idle_fraction * static_w` while none of its cores has a task, and
    `static_w + dynamic_w * (cores with a task)` otherwise (Lopez, Stafford, Bosque 2025,
    section 3.1).

    Attributes:
        cores: cores of this processor.
        clock_ghz: clock of each core, GHz.
        flops_per_cycle: operations a core does in a cycle.
        static_w: power of the processor as a whole, W.
        dynamic_w: power of each core that has a task, W.
        idle_fraction: the share of `static_w` that an idle processor draws, 0 to 1.
        contention: how its tasks slow each other down; absent: they don't.
    """

    cores: PositiveInt
    clock_ghz: Positive = 1.0
    static_w: NotNegative = 0.0
    dynamic_w: NotNegative = 0.0
    idle_fraction: Fraction = 1.0
    flops_per_cycle: Positive = 1.0
    contention: Contention | None = None

    @property
    def ops_per_s(self) -> float:
        """Operations a core does in a second."""
        return self.clock_ghz * self.flops_per_cycle * 1e9


class PowerStates(Struct, frozen=True):
    """What a node draws, and how long it takes, to be switched off and on again.

    A transition takes its time, or where it has a deviation, a time drawn for it from the normal
    distribution, 0 at least.

    Attributes:
        sleep_w: power while it sleeps, W.
        switch_on_s, switch_off_s: time of a transition, s.
        switch_on_w, switch_off_w: power during it, W.
        switch_on_sd_s, switch_off_sd_s: standard deviation of its time, s.
    """

    sleep_w: NotNegative
    switch_on_s: NotNegative
    switch_on_w: NotNegative
    switch_off_s: NotNegative
    switch_off_w: NotNegative
    switch_on_sd_s: NotNegative = 0.0
    switch_off_sd_s: NotNegative = 0.0

    @property
    def cycle_j(self) -> float:
        """Energy of switching off and on again at once, in the expected times, J."""
        return self.switch_off_s * self.switch_off_w + self.switch_on_s * self.switch_on_w


class NodeGroup(Struct, frozen=True):
    """Equal nodes, numbered on from those of the group before.

    Attributes:
        count: how many nodes.
        processors: the processors of each.
        memory_mb: memory of each node, MB; 0: not told. It limits nothing.
        power_states: how its nodes are switched off and on; absent: they are always on.
    """

    count: PositiveInt
    processors: Annotated[tuple[Processor, ...], Meta(min_length=1)]
    memory_mb: NotNegative = 0.0
    power_states: PowerStates | None = None

    @property
    def cores(self) -> int:
        """Cores of one node of the group."""
        return sum(processor.cores for processor in self.processors)

    @property
    def ops_per_s(self) -> float:
        """Operations that the slowest core of a node does in a second."""
        return min(processor.ops_per_s for processor in self.processors)

    @property
    def static_w(self) -> float:
        """Static power of a node, W: the sum over its processors."""
        return sum(processor.static_w for processor in self.processors)

    @property
    def idle_w(self) -> float:
        """Power of a node that is on and computes nothing, W: the sum over its processors."""
        return sum(processor.static_w * processor.idle_fraction for processor in self.processors)

    @property
    def dynamic_w(self) -> float:
        """Power of a core that has a task, W: the most over the processors."""
        return max(processor.dynamic_w for processor in self.processors)


class Platform(Struct, frozen=True):
    """All nodes of a cluster, numbered from 0 in the order of the groups.

    Attributes:
        nodes: the node groups, at least one.
    """

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

    @property
    def slowest_ops_per_s(self) -> float:
        """Operations that the slowest core of all does in a second; requested times hold there."""
        return min(group.ops_per_s for group in self.nodes)
