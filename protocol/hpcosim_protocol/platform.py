"""The cluster as the server describes it to a scheduler: groups of identical nodes."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from msgspec import Meta, Struct

from hpcosim_protocol.requests import Count, Name

PositiveInt = Annotated[int, Meta(gt=0)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Fraction = Annotated[float, Meta(ge=0, le=1)]


DECIMALS = 9  # the specification rounds speeds, so that equal states have equal speeds


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
        switch_on_s: time of switching on, or its mean if it is random, s.
        switch_off_s: time of switching off, or its mean if it is random, s.
        switch_on_w, switch_off_w: power during the transition, W.
        switch_on_sd_s: standard deviation of the time of switching on, s; 0: constant time.
        switch_off_sd_s: standard deviation of the time of switching off, s; 0: constant time.
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
        memory_mb: memory of each node, MB; 0: unknown. The server limits the memory of jobs if
            `Platform.consumable` contains `memory`.
        power_states: power states of the nodes; None: the nodes are always on.
        names: names of the nodes as a host list of `count` names, such as `n[1-4],b1`; empty: the
            nodes have no names.
        features: features of each node.
        gres: number of devices of each generic resource, by name with type, such as `gpu:a100`.
        weight: weight of the nodes; Slurm allocates nodes of small weight first.
        mtbf_s: mean time between failures of a node as its operator states it, s; None: unknown.
    """

    count: PositiveInt
    processors: Annotated[tuple[Processor, ...], Meta(min_length=1)]
    memory_mb: NotNegative = 0.0
    power_states: PowerStates | None = None
    names: str = ""
    features: tuple[Name, ...] = ()
    gres: dict[Name, Count] = {}
    weight: Count = 1
    mtbf_s: Positive | None = None

    def __hash__(self) -> int:
        return hash((self.count, self.processors, self.memory_mb, self.power_states, self.names))

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


NodeRanges = tuple[tuple[Count, Count], ...]
"""Node numbers: the first and the last number of each range."""


class Partition(Struct, frozen=True, kw_only=True):
    """A named set of nodes for jobs, with limits. The names follow `slurm.conf`.

    The server enforces `nodes` and `exclusive`, and rejects jobs that fit into none of their
    partitions. The other attributes are for the scheduler.

    Attributes:
        name: name of the partition.
        nodes: its nodes.
        default: whether jobs that name no partition are submitted to it.
        state: `up`; `down`: jobs are queued and none starts; `drain`: no jobs are queued, waiting
            jobs start; `inactive`: neither.
        exclusive: whether jobs hold whole nodes (`OverSubscribe=EXCLUSIVE`).
        priority_tier: jobs of a higher tier are considered first and may preempt lower tiers.
        priority_job_factor: factor of the multifactor priority.
        max_time_s: maximum requested run time, s; None: no limit.
        default_time_s: requested run time of a job that states none, s; None: none.
        min_nodes: least number of nodes of a job; 0: no limit.
        max_nodes: greatest number of nodes of a job; 0: no limit.
        max_cores_per_node: maximum number of cores of a job on a node; 0: no limit.
        default_memory_per_core_mb: memory of a job that states none, MB for each core; 0: unknown.
        max_memory_per_core_mb: maximum memory of a job for each core, MB; 0: no limit.
        allow_accounts: accounts whose jobs may run in the partition; empty: all.
        deny_accounts: accounts whose jobs may not run there, if `allow_accounts` is empty.
        allow_groups: groups of users whose jobs may run there; empty: all.
        allow_qos: qualities of service whose jobs may run there; empty: all.
        deny_qos: qualities of service whose jobs may not run there, if `allow_qos` is empty.
        qos: quality of service whose limits hold for all jobs of the partition; empty: none.
        preempt_mode: treatment of preempted jobs of this partition; empty: that of the cluster.
        grace_time_s: time from preemption to the end of a job, s.
    """

    name: Name
    nodes: NodeRanges
    default: bool = False
    state: Literal["up", "down", "drain", "inactive"] = "up"
    exclusive: bool = False
    priority_tier: Count = 1
    priority_job_factor: Count = 1
    max_time_s: Positive | None = None
    default_time_s: Positive | None = None
    min_nodes: Count = 0
    max_nodes: Count = 0
    max_cores_per_node: Count = 0
    default_memory_per_core_mb: NotNegative = 0.0
    max_memory_per_core_mb: NotNegative = 0.0
    allow_accounts: tuple[Name, ...] = ()
    deny_accounts: tuple[Name, ...] = ()
    allow_groups: tuple[Name, ...] = ()
    allow_qos: tuple[Name, ...] = ()
    deny_qos: tuple[Name, ...] = ()
    qos: Name = ""
    preempt_mode: Literal["", "off", "cancel", "requeue", "suspend"] = ""
    grace_time_s: NotNegative = 0.0


ReservationFlag = Literal["maint", "ignore_jobs", "flex"]


class NodeReservation(Struct, frozen=True, kw_only=True):
    """Nodes that are reserved for users, or for maintenance, during a time window.

    A job outside the reservation must not run on its nodes in the window, by its requested time. A
    job in it (`JobRequest.reservation`) runs on its nodes, from the begin to the end of the window.
    Jobs that overrun their requested time are not ended by a reservation.

    Attributes:
        name: name of the reservation.
        nodes: its nodes.
        start_s: begin of the first window, s.
        end_s: end of the first window, s.
        repeat_s: time from one window to the next, s; None: one window.
        users: users whose jobs may use it; empty: all users, if `accounts` is not empty.
        accounts: accounts whose jobs may use it; empty: all accounts, if `users` is not empty. With
            both, a job must match both; with neither, nobody may use it.
        flags: `maint`: maintenance; `ignore_jobs`: it may begin while jobs run there; `flex`: its
            jobs may begin before, end after it and use other nodes.
    """

    name: Name
    nodes: NodeRanges
    start_s: float
    end_s: float
    repeat_s: Positive | None = None
    users: tuple[Name, ...] = ()
    accounts: tuple[Name, ...] = ()
    flags: tuple[ReservationFlag, ...] = ()


class Switch(Struct, frozen=True, kw_only=True):
    """A switch of the network; see Slurm's `topology.conf`.

    Attributes:
        name: name of the switch.
        nodes: nodes of a leaf switch; empty: the switch connects switches.
        switches: names of the switches that it connects.
    """

    name: Name
    nodes: NodeRanges = ()
    switches: tuple[Name, ...] = ()


class Platform(Struct, frozen=True):
    """All nodes of a cluster, numbered from 0 in the order of the groups.

    Attributes:
        nodes: the node groups, at least one.
        consumable: resources of nodes that jobs hold. Without `cores`, jobs hold whole nodes; with
            `memory`, the server limits the memory of jobs. Generic resources and licences are
            always consumable. See Slurm's `SelectTypeParameters`.
        partitions: the partitions; empty: every job may use every node.
        reservations: the reservations.
        licenses: number of licences by name.
        switches: the switches; empty: the network is unknown.
    """

    nodes: Annotated[tuple[NodeGroup, ...], Meta(min_length=1)]
    consumable: tuple[Literal["cores", "memory"], ...] = ("cores",)
    partitions: tuple[Partition, ...] = ()
    reservations: tuple[NodeReservation, ...] = ()
    licenses: dict[Name, Count] = {}
    switches: tuple[Switch, ...] = ()

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


def bandwidth_mbps(volume_mb: float, alone_s: float) -> float:
    """Return the bandwidth demand of a task, MB/s. It is constant while the task runs.

    Args:
        volume_mb: total data that the task moves to and from memory, MB.
        alone_s: run time of the task without contention, s; above 0.
    """
    return volume_mb / alone_s


def task_speed(model: Contention, total_mbps: float, own_mbps: float, active_tasks: int) -> float:
    """Return the speed of a task as a fraction of its full speed, above 0 and at most 1.

    Model of Lopez, Stafford, Bosque 2025, section 3.1; Lopez Rauhut 2023, section 2.3.

    Args:
        total_mbps: bandwidth demand of all tasks on the processor, MB/s (`X`).
        own_mbps: bandwidth demand of the task, MB/s (`y`).
        active_tasks: number of tasks on the processor with operations left, this one included.
    """
    c_mbps, b_per_mbps, da = model.c_mbps, model.b_per_mbps, model.da
    db_mbps, dc_mbps, dd_mbps = model.db_mbps, model.dc_mbps, model.dd_mbps
    speed = speed_of_task(
        c_mbps, b_per_mbps, da, db_mbps, dc_mbps, dd_mbps, total_mbps, own_mbps, active_tasks
    )
    return round(speed, DECIMALS)


def speed_of_task(
    c_mbps: float,
    b_per_mbps: float,
    da: float,
    db_mbps: float,
    dc_mbps: float,
    dd_mbps: float,
    total_mbps: float,
    own_mbps: float,
    active_tasks: int,
) -> float:
    """Return what `task_speed` rounds, from numbers alone: the compiled engine compiles it."""
    if total_mbps < c_mbps:
        return 1.0
    others = active_tasks - 1
    width_mbps = dc_mbps - others * dd_mbps
    u = (own_mbps - (da - others) * db_mbps) / width_mbps
    fair_share = 1.0 / (1.0 + 0.6 * others)
    step = 1.0  # a smooth step that falls from 1 at u = 0 to 0 at u = 1
    if u > 1.0:
        step = 0.0
    elif u >= 0.0:
        step = 1.0 - (6.0 * math.pow(u, 5.0) - 15.0 * math.pow(u, 4.0) + 10.0 * math.pow(u, 3.0))
    floor = step * 0.6 * others * fair_share + fair_share
    if total_mbps > c_mbps + (floor - 1.0) / b_per_mbps:
        return floor
    return 1.0 + b_per_mbps * (total_mbps - c_mbps)


def energy_estimate_j(
    platform: Platform, group: int, cores: int, requested_s: float, jobs: int
) -> float:
    """Return the estimated energy of a job on a node, J.

    Equation 1 of Lopez, Stafford, Bosque 2025.

    Args:
        group: index of the node's group in the platform.
        cores: requested cores of the job.
        requested_s: requested run time of the job, on the slowest node, s.
        jobs: number of other jobs on the node now.
    """
    node = platform.nodes[group]
    run_s = requested_s * (platform.slowest_ops_per_s / node.ops_per_s)
    return run_s * (node.static_w / (jobs + 1) + cores * node.dynamic_w)
