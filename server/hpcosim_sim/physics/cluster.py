"""State of the nodes: free cores, tasks on each processor, energy meters, and the site's rules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct

from hpcosim_protocol import JobRequest, NodeGroup, NodeReservation, Platform, Processor
from hpcosim_protocol.node_access import first_window, numbers_in, partitions_of
from hpcosim_sim.physics.power import GroupMeter, RecordedState

NO_REQUEST = JobRequest()
"""The request of a job that requires nothing beyond cores and time."""


class AllocationPart(Struct, eq=False, gc=False):
    """The part of an allocation on the nodes of one kind.

    Attributes:
        meter: energy meter of the node kind.
        by_processor: `by_processor[slot][i]` is the number of tasks on processor `slot` of
            `nodes[i]`.
    """

    meter: GroupMeter
    nodes: list[int]
    by_processor: list[list[int]]


def places(parts: list[AllocationPart]) -> Iterator[tuple[int, Processor, int, int]]:
    """Yield slot, processor, node and number of tasks for every processor with tasks."""
    for part in parts:
        columns = zip(part.meter.processors, part.by_processor, strict=True)
        for slot, (processor, column) in enumerate(columns):
            for node, tasks in zip(part.nodes, column, strict=True):
                if tasks:
                    yield slot, processor, node, tasks


class Cluster:
    """The state of every node.

    The state is in plain lists indexed by node, because an event touches few nodes. Energy depends
    on counts of nodes and tasks, so each node kind has one meter (`GroupMeter`).

    A node may change its kind, and with it its speed and power. The first kinds are the node groups
    of the platform; `add_kind` appends further ones.

    Args:
        kinds: further node kinds beside the groups of the platform.

    Attributes:
        free: number of cores of each node that no allocation holds.
        largest_node: number of cores of the largest node.
        group_of: kind of each node, an index into `kinds`.
        meters: energy meter of each kind.
        peak_w: greatest power of all nodes up to the last change, W. Power that is drawn for no
            time, between two changes of one instant, does not count.
    """

    def __init__(self, platform: Platform, start_s: float, kinds: Sequence[NodeGroup] = ()) -> None:
        self.platform = platform
        self.capacity = platform.cores_by_node()
        self.numbers = frozenset(range(len(self.capacity)))
        self.free = list(self.capacity)
        self.core_count = sum(self.capacity)
        self.largest_node = max(self.capacity)
        self.kinds = list(platform.nodes)
        self.meters = [GroupMeter(group, start_s) for group in platform.nodes]
        for kind in kinds:
            self.add_kind(kind, start_s)
        self.group_of = [i for i, group in enumerate(platform.nodes) for _ in range(group.count)]
        slots = max(len(group.processors) for group in platform.nodes)
        self._tasks = [[0] * len(self.capacity) for _ in range(slots)]
        self.site = SiteRules(platform)
        self.peak_w = 0.0
        self._in_use = dict(enumerate(self.meters[: len(platform.nodes)]))  # kinds with nodes
        self._energy_j = 0.0
        self._changed_s = start_s

    def add_kind(self, kind: NodeGroup, now_s: float) -> int:
        """Add a node kind without nodes and return its index in `kinds`."""
        self.kinds.append(kind)
        self.meters.append(GroupMeter(kind, now_s, 0))
        return len(self.kinds) - 1

    def change_kind(self, now_s: float, nodes: Iterable[int], kind: int) -> None:
        """Change the kind of nodes.

        The nodes are on. Both kinds have one processor with the same number of cores.
        """
        self._integrate(now_s)
        after, tasks = self.meters[kind], self._tasks[0]
        by_kind: dict[int, list[int]] = {}
        for node in nodes:
            by_kind.setdefault(self.group_of[node], []).append(node)
            self.group_of[node] = kind
        self._in_use[kind] = after
        for left, its_nodes in by_kind.items():
            before = self.meters[left]
            busy = [tasks[node] for node in its_nodes if tasks[node]]
            before.change_one(now_s, -len(busy), -sum(busy))
            before.add_idle(now_s, -len(its_nodes))
            after.add_idle(now_s, len(its_nodes))
            after.change_one(now_s, len(busy), sum(busy))
            if not before.has_nodes:
                del self._in_use[left]

    def hold(self, nodes: list[int], tasks: list[int], whole: bool) -> list[int]:
        """Hold cores for a job.

        Args:
            tasks: number of tasks on each of `nodes`, at most its free cores.
            whole: whether to hold all cores of the nodes.

        Returns:
            Number of held cores on each of `nodes`: the argument of `release`.
        """
        free = self.free
        if self.largest_node == 1:
            for node in nodes:
                free[node] = 0
            return tasks
        held = [self.capacity[node] for node in nodes] if whole else tasks
        for node, cores in zip(nodes, held, strict=True):
            free[node] -= cores
        return held

    def release(self, nodes: list[int], held: list[int]) -> None:
        """Release cores that `hold` took."""
        free = self.free
        if self.largest_node == 1:
            for node in nodes:
                free[node] = 1
            return
        for node, cores in zip(nodes, held, strict=True):
            free[node] += cores

    def occupy(self, now_s: float, nodes: list[int], tasks: list[int]) -> list[AllocationPart]:
        """Start tasks on nodes.

        On a node with several processors, tasks fill the processors in order.

        Args:
            tasks: number of tasks on each of `nodes`.

        Returns:
            Placement of the tasks on processors: the argument of `vacate`.
        """
        if now_s > self._changed_s:
            self._integrate(now_s)
        parts = []
        one_kind = ((self.meters[0], nodes, tasks),) if len(self.meters) == 1 else None
        for meter, its_nodes, its_tasks in one_kind or self._by_group(nodes, tasks):
            if len(meter.processors) == 1:
                if self.largest_node == 1:
                    newly_active = count = len(its_nodes)
                    busy = self._tasks[0]
                    for node in its_nodes:
                        busy[node] = 1
                else:
                    newly_active = _start(self._tasks[0], its_nodes, its_tasks)
                    count = sum(its_tasks)
                meter.change_one(now_s, newly_active, count)
                parts.append(AllocationPart(meter, its_nodes, [its_tasks]))
                continue
            columns = self._by_processor(meter.processors, its_nodes, its_tasks)
            computing = self._count_idle(its_nodes)
            active = [
                _start(busy, its_nodes, column)
                for busy, column in zip(self._tasks, columns, strict=False)
            ]
            meter.change(now_s, computing, active, [sum(column) for column in columns])
            parts.append(AllocationPart(meter, its_nodes, columns))
        return parts

    def vacate(self, now_s: float, parts: list[AllocationPart]) -> None:
        """End tasks that `occupy` started."""
        if now_s > self._changed_s:
            self._integrate(now_s)
        if len(self.kinds) > len(self.platform.nodes):
            parts = self._by_current_kind(parts)
        for part in parts:
            columns = part.by_processor
            if len(columns) == 1:
                if self.largest_node == 1:
                    newly_idle = count = len(part.nodes)
                    busy = self._tasks[0]
                    for node in part.nodes:
                        busy[node] = 0
                else:
                    newly_idle = _stop(self._tasks[0], part.nodes, columns[0])
                    count = sum(columns[0])
                part.meter.change_one(now_s, -newly_idle, -count)
                continue
            active = [
                -_stop(busy, part.nodes, column)
                for busy, column in zip(self._tasks, columns, strict=False)
            ]
            computing = -self._count_idle(part.nodes)
            part.meter.change(now_s, computing, active, [-sum(column) for column in columns])

    def switch(self, now_s: float, node: int, before: RecordedState, after: RecordedState) -> None:
        """Move a node without tasks from one power state to another."""
        self._integrate(now_s)
        self.meters[self.group_of[node]].switch(now_s, before, after)

    def levels(self, nodes: Sequence[int]) -> list[tuple[int, ...]]:
        """Return for each of `nodes` the number of tasks on each of its processors."""
        return list(zip(*([busy[node] for node in nodes] for busy in self._tasks), strict=True))

    def power_w(self, node: int, power: RecordedState, level: tuple[int, ...]) -> float:
        """Return the power of a node, W."""
        return self.meters[self.group_of[node]].node_power_w(power, level)

    def settle(self, now_s: float) -> None:
        """Integrate the energy of every node up to `now_s`."""
        self._integrate(now_s)
        for meter in self._in_use.values():
            meter.settle(now_s)

    def energy_j(self, now_s: float) -> float:
        """Return the energy of all nodes from the start to `now_s`, J."""
        self._integrate(now_s)
        return self._energy_j

    @property
    def idle_power_w(self) -> float:
        """Power of all nodes if those that compute were idle, W."""
        return math.fsum(meter.idle_power_w for meter in self._in_use.values())

    def _integrate(self, now_s: float) -> None:
        """Integrate the power of all nodes since the last change, and note the peak."""
        if now_s > self._changed_s:
            power_w = 0.0
            for meter in self._in_use.values():
                power_w += meter.power_w
            self._energy_j += power_w * (now_s - self._changed_s)
            self._changed_s = now_s
            if power_w > self.peak_w:
                self.peak_w = power_w

    def _by_current_kind(self, parts: list[AllocationPart]) -> list[AllocationPart]:
        """Return the parts grouped by the current kinds of their nodes, which have changed."""
        return [
            AllocationPart(meter, nodes, [tasks])
            for part in parts
            for meter, nodes, tasks in self._by_group(part.nodes, part.by_processor[0])
        ]

    def _count_idle(self, nodes: list[int]) -> int:
        return sum(not any(level) for level in self.levels(nodes))

    def _by_group(
        self, nodes: list[int], tasks: list[int]
    ) -> Iterable[tuple[GroupMeter, list[int], list[int]]]:
        """Return nodes and their tasks, grouped by node kind."""
        parts: dict[int, tuple[GroupMeter, list[int], list[int]]] = {}
        for node, count in zip(nodes, tasks, strict=True):
            group = self.group_of[node]
            if group not in parts:
                parts[group] = (self.meters[group], [], [])
            parts[group][1].append(node)
            parts[group][2].append(count)
        return parts.values()

    def _by_processor(
        self, processors: Sequence[Processor], nodes: list[int], tasks: list[int]
    ) -> list[list[int]]:
        """Return the number of tasks for each processor (row) of each node (column)."""
        columns: list[list[int]] = [[] for _ in processors]
        for node, left in zip(nodes, tasks, strict=True):
            for column, busy, processor in zip(columns, self._tasks, processors, strict=False):
                column.append(min(left, processor.cores - busy[node]))
                left -= column[-1]
        return columns


def _start(busy: list[int], nodes: list[int], tasks: list[int]) -> int:
    """Add tasks to processors and return the number of processors that become active."""
    newly_active = 0
    for node, count in zip(nodes, tasks, strict=True):
        if count:
            before = busy[node]
            if not before:
                newly_active += 1
            busy[node] = before + count
    return newly_active


def _stop(busy: list[int], nodes: list[int], tasks: list[int]) -> int:
    """Remove tasks from processors and return the number of processors that become idle."""
    newly_idle = 0
    for node, count in zip(nodes, tasks, strict=True):
        if count:
            left = busy[node] - count
            if not left:
                newly_idle += 1
            busy[node] = left
    return newly_idle


class NodeSet(NamedTuple):
    """The nodes of a partition.

    Attributes:
        name: name of the partition; empty: all nodes of a cluster without partitions.
        exclusive: whether its jobs hold whole nodes.
        by_group: number of `nodes` in each node group of the platform.
    """

    name: str
    nodes: frozenset[int]
    exclusive: bool
    by_group: tuple[int, ...]


class SiteRules:
    """Partitions, reservations and features of a cluster. They do not change.

    Attributes:
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
