"""What a job requires beyond a number of cores, and amounts of all resources as one vector.

A vector has cores, memory, devices and licences, so that a demand compares with nodes in one step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hpcosim_client.arrays import Bools, Ints
from hpcosim_protocol import JobRequest, Platform
from hpcosim_protocol.resources import WHOLE_DEVICE, gres_of_job, gres_on, provides

Quotas = tuple[tuple[Bools, int], ...]
"""Least number of nodes from each of these sets, bool[nodes]; a node counts once."""


Devices = Sequence[Mapping[str, Sequence[int]]]
"""Numbers of devices on each node of an allocation, by name of the resource with its type."""


PARTS_PER_MB = 2**20
"""Parts of an MB in which memory is counted, as the server does."""

UNLIMITED = 2**62
"""Memory of a node whose memory is unknown, in parts of an MB."""


class NodeChoice(NamedTuple):
    """A set of nodes on which a job may run; a job can have several, of which it takes one.

    Attributes:
        partition: name of the partition; empty: none.
        nodes: bool[nodes], the nodes that the job may use, whatever their state.
        quotas: least numbers of nodes from sets.
        whole: whether the job holds whole nodes.
    """

    partition: str
    nodes: Bools
    quotas: Quotas = ()
    whole: bool = False


@dataclass(slots=True, frozen=True, eq=False)
class Demand:
    """What a job requires beyond a number of cores.

    Attributes:
        choices: the sets of nodes, in the order in which they are tried; empty: the job can never
            run.
        node_cores: maximum number of cores on a node; 0: no limit.
    """

    request: JobRequest
    choices: tuple[NodeChoice, ...]
    node_cores: int = 0
    licenses: tuple[tuple[int, int], ...] = ()
    holds_memory: bool = False

    @property
    def needs_devices(self) -> bool:
        """Whether the job needs generic resources."""
        request = self.request
        return bool(request.gres_per_node or request.gres_per_task or request.gres_per_job)


def device_amounts(
    request: JobRequest, tasks: Sequence[int], chosen: Devices
) -> list[tuple[int, str, int, int]] | None:
    """Return what a job holds of stated devices; None: they are not those of its request.

    Args:
        chosen: numbers of the devices on each node, one for each part.

    Returns:
        Index of the node in `tasks`, name with type, number of the device, and thousandths.
    """
    left = [{name: list(numbers) for name, numbers in node.items()} for node in chosen]
    if len(left) != len(tasks):
        return None
    found: list[tuple[int, str, int, int]] = []
    for at, count in enumerate(tasks):
        for name, part, parts in gres_on(request, count):
            taken = _taken(left[at], name, parts)
            if len(taken) < parts:
                return None
            found += [(at, typed, number, part) for typed, number in taken]
    for name, part, missing in gres_of_job(request):
        for at, node in enumerate(left):
            taken = _taken(node, name, missing)
            missing -= len(taken)
            found += [(at, typed, number, part) for typed, number in taken]
        if missing:
            return None
    return None if any(any(node.values()) for node in left) else found


def _taken(left: Mapping[str, list[int]], name: str, parts: int) -> list[tuple[str, int]]:
    """Remove up to `parts` devices that meet a request from those left, and return them."""
    taken: list[tuple[str, int]] = []
    for typed, numbers in left.items():
        if provides(typed, name):
            count = parts - len(taken)
            taken += [(typed, number) for number in numbers[:count]]
            del numbers[:count]
    return taken


class Slots:
    """The layout of a vector of amounts, int64[slots].

    The first slots are the cores of the nodes by node number, so the number of a node is the slot
    of its cores. The memory of the nodes, in parts of an MB, follows if jobs hold memory, then a
    slot for each device (in thousandths), one for each licence, and one that is always 0.

    Attributes:
        capacity: int64[slots], all amounts of an idle cluster.
        node: int64[slots], number of the node to which each slot belongs; -1: none.
        memory: slot of the memory of node 0; None: jobs hold no memory.
        licenses: slot of each licence by name.
    """

    def __init__(self, platform: Platform) -> None:
        groups, self.nodes = platform.nodes, platform.node_count
        parts = [np.array(platform.cores_by_node(), dtype=np.int64)]
        self.memory: int | None = None
        if "memory" in platform.consumable:
            self.memory = self.nodes
            memory = [int(group.memory_mb * PARTS_PER_MB) or UNLIMITED for group in groups]
            parts.append(np.repeat(np.array(memory, np.int64), [group.count for group in groups]))
        first = sum(map(len, parts))
        self._nothing: Ints = np.zeros((self.nodes, 0), np.int64)
        self._types: dict[str, Ints] = {}
        self._tables: dict[str, Ints] = {}
        devices = self._add_devices(platform, first)
        parts.append(np.full(devices, WHOLE_DEVICE, np.int64))
        first += devices
        self.licenses = {name: first + at for at, name in enumerate(platform.licenses)}
        parts.append(np.array([*platform.licenses.values()], np.int64))
        if first > self.nodes or self.licenses:
            parts.append(np.zeros(1, np.int64))
        self.capacity: Ints = np.concatenate(parts)
        every = np.arange(self.nodes)
        self.node: Ints = np.full(len(self.capacity), -1)
        self.node[: self.nodes] = every
        if self.memory is not None:
            self.node[self.memory : self.memory + self.nodes] = every
        for table in self._types.values():
            there = table != self._no_slot
            self.node[table[there]] = np.broadcast_to(every[:, None], table.shape)[there]

    def devices(self, requested: str) -> Ints:
        """Return the devices of each node that meet a request.

        Args:
            requested: name of a resource, with or without type.

        Returns:
            int64[nodes, devices], slots, in the platform's order of types and then by number; the
            slot that is always 0 where a node has fewer devices.
        """
        if requested not in self._tables:
            fitting = [table for name, table in self._types.items() if provides(name, requested)]
            table = np.concatenate([self._nothing, *fitting], axis=1)
            # A node has few of the types: its devices move to the first columns.
            there = table != self._no_slot
            first = np.argsort(~there, axis=1, kind="stable")
            most = int(there.sum(axis=1).max(initial=0))
            self._tables[requested] = np.take_along_axis(table, first, axis=1)[:, :most].copy()
        return self._tables[requested]

    def devices_of(self, node: int) -> dict[str, Ints]:
        """Return the slots of the devices of a node by number, for each resource with its type."""
        found = {}
        for name, table in self._types.items():
            there = table[node]
            there = there[there != self._no_slot]
            if len(there):
                found[name] = there
        return found

    def _add_devices(self, platform: Platform, first: int) -> int:
        """Number the devices from slot `first` on, and return how many there are."""
        names = dict.fromkeys(name for group in platform.nodes for name in group.gres)
        total = sum(group.count * sum(group.gres.values()) for group in platform.nodes)
        self._no_slot = first + total + len(platform.licenses)
        for name in names:
            most = max(group.gres.get(name, 0) for group in platform.nodes)
            self._types[name] = np.full((self.nodes, most), self._no_slot, np.int64)
        node, slot = 0, first
        for group in platform.nodes:
            for name, count in group.gres.items():
                slots = slot + np.arange(group.count * count).reshape(group.count, count)
                self._types[name][node : node + group.count, :count] = slots
                slot += group.count * count
            node += group.count
        return total
