"""Memory, devices and licences that jobs hold beside their cores.

Amounts are integers, parts of an MB and thousandths of a device, so that sums are exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hpcosim_protocol import NodeGroup, Platform
from hpcosim_protocol.resources import WHOLE_DEVICE

PARTS_PER_MB = 2**20
"""Parts of an MB in which memory is counted. A power of 2 keeps binary fractions of an MB exact."""

UNLIMITED = 2**62
"""Free memory of a node whose memory is unknown or not consumable, parts of an MB."""

DeviceShares = dict[str, list[tuple[int, int]]]
"""Number and held thousandths of devices of one node, by name of the resource with its type."""


@dataclass(frozen=True, slots=True)
class HeldResources:
    """What a job holds beside its cores.

    Attributes:
        nodes: node numbers.
        memory: memory on each of `nodes`, in parts of an MB; see `PARTS_PER_MB`.
        devices: devices on each of `nodes`; empty: none on any node.
        licenses: number of licences by name.
    """

    nodes: Sequence[int]
    memory: Sequence[int]
    devices: Sequence[DeviceShares] = ()
    licenses: Mapping[str, int] = field(default_factory=dict)

    def device_numbers(self) -> list[dict[str, list[int]]]:
        """Return the numbers of the devices on each node, as `JobStarted.gres` has them."""
        return [
            {name: [number for number, _ in shares] for name, shares in held.items()}
            for held in self.devices
        ]

    def amounts(self) -> Counter[tuple[object, ...]]:
        """Return what the job holds, by the keys of `Resources.balance`."""
        amounts: Counter[tuple[object, ...]] = Counter()
        for node, memory in zip(self.nodes, self.memory, strict=True):
            amounts["memory", node] += memory
        for node, devices in zip(self.nodes, self.devices, strict=False):
            for name, shares in devices.items():
                for number, thousandths in shares:
                    amounts[name, node, number] += thousandths
        for name, count in self.licenses.items():
            amounts["licences", name] += count
        return +amounts


class Resources:
    """Free memory, devices and licences.

    Args:
        platform: description of the cluster.

    Attributes:
        free_memory: memory of each node that no job holds, in parts of an MB.
        free_devices: thousandths of each device that no job holds, by node and name of the
            resource, in the order of the platform.
        free_licenses: number of licences that no job holds, by name.
        limits_memory: whether memory is consumable.
        memory_mb: memory of each node, MB.
    """

    def __init__(self, platform: Platform) -> None:
        self.limits_memory = "memory" in platform.consumable
        self._groups = groups = [group for group in platform.nodes for _ in range(group.count)]
        self.memory_mb = [group.memory_mb for group in groups]
        self.free_memory = [self._memory_of(group) for group in groups]
        self.free_devices = [
            {name: [WHOLE_DEVICE] * count for name, count in group.gres.items()} for group in groups
        ]
        self._licenses = platform.licenses
        self.free_licenses = dict(platform.licenses)

    def balance(self) -> Iterator[tuple[tuple[object, ...], int, int]]:
        """Yield a key, the total and the free amount of everything that jobs can hold."""
        for node, group in enumerate(self._groups):
            yield ("memory", node), self._memory_of(group), self.free_memory[node]
            for name, devices in self.free_devices[node].items():
                for number, free in enumerate(devices):
                    yield (name, node, number), WHOLE_DEVICE, free
        for name, free in self.free_licenses.items():
            yield ("licences", name), self._licenses[name], free

    def _memory_of(self, group: NodeGroup) -> int:
        return (
            memory_parts(group.memory_mb) if self.limits_memory and group.memory_mb else UNLIMITED
        )

    def hold(self, wanted: HeldResources) -> None:
        """Hold resources, all of which are free."""
        self._add(wanted, -1)

    def release(self, held: HeldResources) -> None:
        """Release resources that `hold` took."""
        self._add(held, 1)

    def _add(self, amounts: HeldResources, sign: int) -> None:
        for node, memory in zip(amounts.nodes, amounts.memory, strict=True):
            self.free_memory[node] += sign * memory
        if amounts.devices:
            for node, devices in zip(amounts.nodes, amounts.devices, strict=True):
                free = self.free_devices[node]
                for name, shares in devices.items():
                    for number, thousandths in shares:
                        free[name][number] += sign * thousandths
        for name, count in amounts.licenses.items():
            self.free_licenses[name] += sign * count


def memory_parts(memory_mb: float) -> int:
    """Return an amount of memory in whole parts of an MB; see `PARTS_PER_MB`."""
    return int(memory_mb * PARTS_PER_MB)
