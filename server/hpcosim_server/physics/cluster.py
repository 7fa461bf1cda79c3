"""Which cores of which nodes are taken, and by how many tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hpcosim_protocol import NodeGroup, Platform, PowerState, Processor
from hpcosim_server.physics.power import GroupMeter


@dataclass(slots=True)
class Part:
    """The part of an allocation that lies in one node group.

    Attributes:
        meter: the group's.
        nodes: the nodes.
        by_processor: `by_processor[slot][i]` tasks run on processor `slot` of `nodes[i]`.
    """

    meter: GroupMeter
    nodes: list[int]
    by_processor: list[list[int]]


def places(parts: list[Part]) -> Iterator[tuple[int, Processor, int, int]]:
    """Yield slot, processor, node and number of tasks, for every processor an allocation uses."""
    for part in parts:
        columns = zip(part.meter.processors, part.by_processor, strict=True)
        for slot, (processor, column) in enumerate(columns):
            for node, tasks in zip(part.nodes, column, strict=True):
                if tasks:
                    yield slot, processor, node, tasks


class Cluster:
    """The state of every node.

    Flat lists indexed by node: an event touches few nodes, and plain lists are then the
    fastest. What only depends on how many nodes do what is counted by group (`GroupMeter`).

    A node may turn into one of another kind, with another speed and power. The kinds are first
    the platform's groups, then those that came with such a change.

    Args:
        platform: the description.
        start_s: from when.
        kinds: those there are beside the platform's groups.

    Attributes:
        platform: the description.
        capacity: cores of each node.
        free: cores of each node that can still be given to a job.
        kinds: what a node may be.
        group_of: the kind of each node, an index into `kinds`.
        meters: one for each kind.
    """

    def __init__(self, platform: Platform, start_s: float, kinds: Sequence[NodeGroup] = ()) -> None:
        self.platform = platform
        self.capacity = platform.cores_by_node()
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

    def add_kind(self, kind: NodeGroup, now_s: float) -> int:
        """Let there be another kind of nodes, which has none yet, and return its number."""
        self.kinds.append(kind)
        self.meters.append(GroupMeter(kind, now_s, 0))
        return len(self.kinds) - 1

    def turn_into(self, now_s: float, node: int, kind: int) -> None:
        """Turn a node, which is on, into one of another kind; both have one processor, alike."""
        before, after = self.meters[self.group_of[node]], self.meters[kind]
        tasks = self._tasks[0][node]
        if tasks:
            before.change(now_s, -1, [-1], [-tasks])
        before.join(now_s, -1)
        after.join(now_s, 1)
        if tasks:
            after.change(now_s, 1, [1], [tasks])
        self.group_of[node] = kind

    def hold(self, nodes: list[int], tasks: list[int], whole: bool) -> list[int]:
        """Keep cores for a job, and return how many of each node, to be given to `release`.

        Args:
            nodes: each once.
            tasks: how many on each of `nodes`, no more than it has free cores.
            whole: take the nodes whole.
        """
        held = [self.capacity[node] for node in nodes] if whole else tasks
        for node, cores in zip(nodes, held, strict=True):
            self.free[node] -= cores
        return held

    def release(self, nodes: list[int], held: list[int]) -> None:
        """Undo a `hold`."""
        for node, cores in zip(nodes, held, strict=True):
            self.free[node] += cores

    def occupy(self, now_s: float, nodes: list[int], tasks: list[int]) -> list[Part]:
        """Let tasks begin, and return where they are, to be given to `vacate`.

        On a node of several processors the first with cores without a task is filled first.

        Args:
            now_s: when.
            nodes: each once.
            tasks: how many on each of `nodes`.
        """
        parts = []
        for meter, its_nodes, its_tasks in self._by_group(nodes, tasks):
            if len(meter.processors) == 1:
                woken = _start(self._tasks[0], its_nodes, its_tasks)
                meter.change(now_s, woken, (woken,), (sum(its_tasks),))
                parts.append(Part(meter, its_nodes, [its_tasks]))
                continue
            columns = self._by_processor(meter.processors, its_nodes, its_tasks)
            computing = self._count_idle(its_nodes)
            active = [
                _start(busy, its_nodes, column)
                for busy, column in zip(self._tasks, columns, strict=False)
            ]
            meter.change(now_s, computing, active, [sum(column) for column in columns])
            parts.append(Part(meter, its_nodes, columns))
        return parts

    def vacate(self, now_s: float, parts: list[Part]) -> None:
        """Undo an `occupy`."""
        for part in self._by_present_kind(parts):
            columns = part.by_processor
            if len(columns) == 1:
                stilled = _stop(self._tasks[0], part.nodes, columns[0])
                part.meter.change(now_s, -stilled, (-stilled,), (-sum(columns[0]),))
                continue
            active = [
                -_stop(busy, part.nodes, column)
                for busy, column in zip(self._tasks, columns, strict=False)
            ]
            computing = -self._count_idle(part.nodes)
            part.meter.change(now_s, computing, active, [-sum(column) for column in columns])

    def levels(self, nodes: Sequence[int]) -> list[tuple[int, ...]]:
        """Return for each of the nodes how many tasks each of its processors has."""
        return list(zip(*([busy[node] for node in nodes] for busy in self._tasks), strict=True))

    def power_w(self, node: int, power: PowerState, level: tuple[int, ...]) -> float:
        """Return what a node draws in a power state, its processors with so many tasks each, W."""
        return self.meters[self.group_of[node]].node_power_w(power, level)

    def settle(self, now_s: float) -> None:
        """Integrate the energy of every node up to `now_s`."""
        for meter in self.meters:
            meter.settle(now_s)

    def _by_present_kind(self, parts: list[Part]) -> list[Part]:
        """Return parts by the kinds that their nodes have now; some kinds may have changed."""
        if len(self.kinds) == len(self.platform.nodes):
            return parts
        return [
            Part(meter, nodes, [tasks])
            for part in parts
            for meter, nodes, tasks in self._by_group(part.nodes, part.by_processor[0])
        ]

    def _count_idle(self, nodes: list[int]) -> int:
        return sum(not any(level) for level in self.levels(nodes))

    def _by_group(
        self, nodes: list[int], tasks: list[int]
    ) -> Iterable[tuple[GroupMeter, list[int], list[int]]]:
        """Return nodes, and the tasks on them, apart by node group."""
        if len(self.meters) == 1:
            return [(self.meters[0], nodes, tasks)]
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
        """Return how many tasks go on each of these processors, which each of the nodes has."""
        columns: list[list[int]] = [[] for _ in processors]
        for node, left in zip(nodes, tasks, strict=True):
            for column, busy, processor in zip(columns, self._tasks, processors, strict=False):
                column.append(min(left, processor.cores - busy[node]))
                left -= column[-1]
        return columns


def _start(busy: list[int], nodes: list[int], tasks: list[int]) -> int:
    """Add tasks to processors and return how many of these were idle before."""
    woken = 0
    for node, count in zip(nodes, tasks, strict=True):
        if count:
            before = busy[node]
            if not before:
                woken += 1
            busy[node] = before + count
    return woken


def _stop(busy: list[int], nodes: list[int], tasks: list[int]) -> int:
    """Take tasks from processors and return how many of these are idle then."""
    stilled = 0
    for node, count in zip(nodes, tasks, strict=True):
        if count:
            left = busy[node] - count
            if not left:
                stilled += 1
            busy[node] = left
    return stilled
