"""The cluster as the server describes it to a scheduler: groups of identical nodes."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

PositiveInt = Annotated[int, Meta(gt=0)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Fraction = Annotated[float, Meta(ge=0, le=1)]


class Contention(Struct, frozen=True):
    """Constants of the memory contention between the tasks of a processor.

    Section 5.4 of the specification defines the speed of a task from them (Lopez, Stafford,
    Bosque 2025, section 3.1; Lopez Rauhut 2023, section 2.3). `k` is the number of other tasks on
    the processor.

    Attributes:
        c_mbps: total bandwidth demand below which no task is slowed, MB/s.
        b_per_mbps: change of a task's speed for each MB/s of total demand above `c_mbps`; below 0.
        da, db_mbps: a task with a demand of at most `(da - k) * db_mbps` MB/s is not slowed.
        dc_mbps, dd_mbps: above that demand, the minimum speed of a task falls to its fair share
            over `dc_mbps - k * dd_mbps` MB/s.
    """

    c_mbps: NotNegative
    b_per_mbps: Annotated[float, Meta(lt=0)]
    da: float
    db_mbps: float
    dc_mbps: float
    dd_mbps: float


class Processor(Struct, frozen=True):
    """A processor of a node.

    Its power is `idle_fraction * static_w` while none of its cores has a task, and otherwise
    `static_w + dynamic_w * (cores with a task)` (Lopez, Stafford, Bosque 2025, section 3.1).

    Attributes:
        cores: number of cores.
        clock_ghz: clock frequency of each core, GHz.
        flops_per_cycle: operations of a core in each clock cycle.
        static_w: static power of the processor, W.
        dynamic_w: additional power of each core that has a task, W.
        idle_fraction: fraction of `static_w` that an idle processor draws, 0 to 1.
        contention: memory contention between the tasks of the processor; None: no contention.
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
        """Operations of a core per second."""
        return self.clock_ghz * self.flops_per_cycle * 1e9


class PowerStates(Struct, frozen=True):
    """Power and transition times of a node that can be switched off and on.

    A transition with a standard deviation above 0 takes a random time from the normal
    distribution; a negative sample counts as 0.

    Attributes:
        sleep_w: power in state `sleeping`, W.
        switch_on_s, switch_off_s: time of the transition, or its mean if it is random, s.
        switch_on_w, switch_off_w: power during the transition, W.
        switch_on_sd_s, switch_off_sd_s: standard deviation of the time, s; 0: constant time.
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
        """Energy of switching off and directly on again, with the mean transition times, J."""
        return self.switch_off_s * self.switch_off_w + self.switch_on_s * self.switch_on_w


class NodeGroup(Struct, frozen=True):
    """Identical nodes. Their numbers follow those of the previous group.

    Attributes:
        count: number of nodes.
        processors: the processors of each node.
        memory_mb: memory of each node, MB; 0: unknown. The server does not limit the memory of
            jobs.
        power_states: power states of the nodes; None: the nodes are always on.
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
        """Operations per second of the slowest core of a node."""
        return min(processor.ops_per_s for processor in self.processors)

    @property
    def static_w(self) -> float:
        """Static power of a node: the sum over its processors, W."""
        return sum(processor.static_w for processor in self.processors)

    @property
    def idle_w(self) -> float:
        """Power of an idle node: the sum over its processors, W."""
        return sum(processor.static_w * processor.idle_fraction for processor in self.processors)

    @property
    def dynamic_w(self) -> float:
        """Additional power of a core that has a task: the maximum over the processors, W."""
        return max(processor.dynamic_w for processor in self.processors)


class Platform(Struct, frozen=True):
    """All nodes of a cluster, numbered from 0 in the order of the groups.

    Attributes:
        nodes: the node groups, at least one.
    """

    nodes: Annotated[tuple[NodeGroup, ...], Meta(min_length=1)]

    @property
    def node_count(self) -> int:
        """Number of nodes."""
        return sum(group.count for group in self.nodes)

    @property
    def core_count(self) -> int:
        """Number of cores."""
        return sum(group.count * group.cores for group in self.nodes)

    def cores_by_node(self) -> list[int]:
        """Return the number of cores of each node, by node number."""
        return [group.cores for group in self.nodes for _ in range(group.count)]

    @property
    def slowest_ops_per_s(self) -> float:
        """Operations per second of the slowest core, to which requested run times apply."""
        return min(group.ops_per_s for group in self.nodes)
