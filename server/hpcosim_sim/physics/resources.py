"""Memory, devices and licences that jobs hold beside their cores, and what fits on a node.

Amounts are integers, parts of an MB and thousandths of a device, so that sums are exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from hpcosim_protocol import JobRequest, NodeGroup, Platform, ResourceError
from hpcosim_protocol.resources import (
    WHOLE_DEVICE,
    DeviceDemand,
    choose_devices,
    gres_of_job,
    gres_on,
    memory_on,
    provides,
)
from hpcosim_sim.errors import Rejection

PARTS_PER_MB = 2**20
"""Parts of an MB in which memory is counted. A power of 2 keeps binary fractions of an MB exact."""

UNLIMITED = 2**62
"""Free memory of a node whose memory is unknown or not consumable, parts of an MB."""

DeviceShares = dict[str, list[tuple[int, int]]]
"""Number and held thousandths of devices of one node, by name of the resource with its type."""


FreeDevices = Mapping[str, Sequence[int]]
"""Free thousandths of each device of a node, by name of the resource with its type."""


@dataclass(frozen=True, slots=True)
class HeldResources:
    """What a job holds beside its cores.

    Attributes:
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


class NodeRoom(NamedTuple):
    """What is free on a node.

    Attributes:
        memory: free memory, in parts of an MB.
        all_memory: memory of the node, in parts of an MB.
        devices: free thousandths of each device, by name of the resource with its type.
    """

    cores: int
    memory: int
    all_memory: int
    devices: Mapping[str, Sequence[int]]


def room_on(request: JobRequest, memory_mb: float, free: NodeRoom, *, limits_memory: bool) -> int:
    """Return the number of cores that a job may have on a node, a multiple of its cores per task.

    The devices of `gres_per_job` do not count: they may be on other nodes.

    Args:
        memory_mb: memory for each core, MB.
    """
    each = request.cores_per_task
    tasks = free.cores // each
    if request.tasks_per_node:
        tasks = min(tasks, request.tasks_per_node)
    if limits_memory:
        tasks = _fitting_memory(request, memory_mb, free, tasks)
    if request.gres_per_node or request.gres_per_task:
        while tasks > 0 and not _devices_suffice(request, tasks, free.devices):
            tasks -= 1
    return tasks * each


def _fitting_memory(request: JobRequest, memory_mb: float, free: NodeRoom, tasks: int) -> int:
    """Return the greatest number of tasks, at most `tasks`, whose memory is free."""
    each = request.cores_per_task
    node_mb = free.all_memory / PARTS_PER_MB
    if memory_parts(memory_on(request, memory_mb, tasks * each, node_mb)) <= free.memory:
        return tasks
    if request.all_memory or request.memory_per_node_mb > 0 or memory_mb <= 0:
        return 0
    tasks = min(tasks, int(free.memory / (memory_mb * PARTS_PER_MB * each)) + 1)
    while tasks and memory_parts(memory_mb * tasks * each) > free.memory:
        tasks -= 1
    return tasks


def _devices_suffice(request: JobRequest, tasks: int, devices: Mapping[str, Sequence[int]]) -> bool:
    """Return whether the free devices of a node are sufficient for a number of tasks."""
    if request.gres_per_job:
        request = replace(request, gres_per_job={})
    try:
        choose_devices(request, [tasks], [devices])
    except ResourceError:
        return False
    return True


class _Entry(NamedTuple):
    """A stated part of a device: place of its node in the allocation, name and number."""

    place: int
    name: str
    number: int


def devices_of(
    request: JobRequest,
    tasks: Sequence[int],
    free: Sequence[FreeDevices],
    stated: Sequence[Mapping[str, Sequence[int]]] = (),
) -> list[DeviceShares]:
    """Return the devices that a job holds on each node of its allocation.

    Args:
        stated: numbers of the devices on each node, as in `AllocateJob.gres`; empty: the server
            chooses.

    Returns:
        The devices on each node; an empty list if the job needs none.

    Raises:
        Rejection: devices are not free, or the stated devices are not those of the request.
    """
    if not (request.gres_per_node or request.gres_per_task or request.gres_per_job):
        if any(stated):
            raise Rejection("insufficient_gres", "allocate_job.gres: the job requests no devices")
        return []
    if stated and len(stated) != len(tasks):
        raise Rejection(
            "bad_allocation",
            f"allocate_job.gres has {len(stated)} entries; expected {len(tasks)}, one per node",
        )
    if stated:
        _check_count(request, tasks, stated)
    else:
        try:
            stated = choose_devices(request, tasks, free)
        except ResourceError as error:
            raise Rejection("insufficient_gres", f"allocate_job: {error}") from None
    return _Assignment(stated, free).of(request, tasks)


def _check_count(
    request: JobRequest, tasks: Sequence[int], stated: Sequence[Mapping[str, Sequence[int]]]
) -> None:
    """Check that there are not more stated devices than parts: a message may have millions."""
    parts = sum(demand.parts for count in tasks for demand in gres_on(request, count))
    parts += sum(demand.parts for demand in gres_of_job(request))
    entries = sum(len(numbers) for node in stated for numbers in node.values())
    if entries > parts:
        raise Rejection(
            "insufficient_gres",
            f"allocate_job.gres names {entries} devices; the job does not request more than "
            f"{parts}",
        )


class _Assignment:
    """Assigns the stated parts of devices to the demands of a job."""

    def __init__(
        self, stated: Sequence[Mapping[str, Sequence[int]]], free: Sequence[FreeDevices]
    ) -> None:
        self._left: dict[_Entry, int] = {}
        self._entries: list[_Entry] = []
        self._held: list[DeviceShares] = [{} for _ in stated]
        for place, devices in enumerate(stated):
            for name, numbers in devices.items():
                for number in numbers:
                    entry = _Entry(place, name, number)
                    known = free[place].get(name, ())
                    if not 0 <= number < len(known):
                        raise Rejection(
                            "insufficient_gres",
                            f"allocate_job.gres[{place}]: the node has no device {number} of "
                            f"{name[:200]!r}",
                        )
                    self._left[entry] = known[number]
                    self._entries.append(entry)

    def of(self, request: JobRequest, tasks: Sequence[int]) -> list[DeviceShares]:
        """Return the devices with the thousandths that the job holds of each."""
        demands = [
            (place, demand)
            for place, count in enumerate(tasks)
            for demand in gres_on(request, count)
        ]
        # Exact types and large parts first: they have the fewest devices to choose from.
        demands.sort(key=lambda each: (":" not in each[1].name, -each[1].thousandths))
        for place, demand in demands:
            self._assign(demand, place)
        for demand in gres_of_job(request):
            self._assign(demand, None)
        if self._entries:
            entry = self._entries[0]
            raise Rejection(
                "insufficient_gres",
                f"allocate_job.gres[{entry.place}]: the job does not request device "
                f"{entry.number} of {entry.name!r}",
            )
        return self._held

    def _assign(self, demand: DeviceDemand, place: int | None) -> None:
        """Assign the parts of a demand on one node, or on any node, to the fullest devices."""
        for _ in range(demand.parts):
            here = [entry for entry in self._entries if place in (None, entry.place)]
            provided = [entry for entry in here if provides(entry.name, demand.name)]
            fitting = [entry for entry in provided if self._left[entry] >= demand.thousandths]
            if not fitting:
                raise Rejection(
                    "insufficient_gres",
                    f"allocate_job.gres: {demand.name} is needed"
                    f"{'' if place is None else f' on node {place} of the allocation'}; "
                    "the stated devices are too few or not free",
                )
            entry = min(fitting, key=self._left.__getitem__)
            self._entries.remove(entry)
            self._left[entry] -= demand.thousandths
            held = self._held[entry.place].setdefault(entry.name, [])
            held.append((entry.number, demand.thousandths))
