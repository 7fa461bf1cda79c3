"""Slow, obvious rules for allocations of jobs with requests: a reference for the server."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, permutations, product
from typing import Any

from hpcosim_protocol import AllocateJob, JobRequest, NodeGroup, Platform
from hpcosim_protocol.features import satisfied
from hpcosim_workloads.table import JobSpec


def groups_of(platform: Platform) -> list[NodeGroup]:
    """Return the group of each node."""
    return [group for group in platform.nodes for _ in range(group.count)]


class Held:
    """What jobs hold, by node: lists of everything, summed up whenever it is asked for."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.groups = groups_of(platform)
        self.allocations: dict[int, dict[str, Any]] = {}

    def cores(self, node: int) -> int:
        """Return the cores of a node that are free."""
        taken: int = sum(each["cores"].get(node, 0) for each in self.allocations.values())
        return self.groups[node].cores - taken

    def memory(self, node: int) -> Fraction:
        """Return the memory of a node that is free, MB."""
        taken: Fraction = sum(each["memory"].get(node, 0) for each in self.allocations.values())
        return Fraction(self.groups[node].memory_mb) - taken

    def device(self, node: int, name: str, number: int) -> Fraction:
        """Return the part of a device that is free."""
        taken: Fraction = sum(
            share
            for each in self.allocations.values()
            for where, share in each["devices"]
            if where == (node, name, number)
        )
        return Fraction(1) - taken

    def licenses(self, name: str) -> int:
        """Return the number of free licences."""
        taken: int = sum(each["licenses"].get(name, 0) for each in self.allocations.values())
        return self.platform.licenses.get(name, 0) - taken


def allowed_sets(platform: Platform, names: str) -> list[tuple[set[int], bool]]:
    """Return the node sets of a job's partitions, and whether they are exclusive."""
    everything = set(range(platform.node_count))
    if not platform.partitions:
        return [(everything, False)]
    chosen = [
        partition
        for name in names.split(",")
        for partition in platform.partitions
        if (partition.name == name if names else partition.default)
    ]
    if not chosen:
        return [(everything, False)]
    return [
        ({n for a, b in partition.nodes for n in range(a, b + 1)}, partition.exclusive)
        for partition in chosen
    ]


def is_whole(platform: Platform, job: JobSpec, nodes: list[int]) -> bool | None:
    """Return whether the job holds whole nodes; None: no partition contains the nodes."""
    for allowed, exclusive in allowed_sets(platform, job.partition):
        if allowed >= set(nodes):
            return exclusive or job.placement == "whole_nodes" or "cores" not in platform.consumable
    return None


def memory_of(held: Held, job: JobSpec, node: int, cores: int) -> Fraction:
    """Return the memory that a job needs on a node, MB."""
    request = job.request or JobRequest()
    if "memory" not in held.platform.consumable:
        return Fraction(0)
    if request.all_memory:
        return Fraction(held.groups[node].memory_mb)
    if request.memory_per_node_mb:
        return Fraction(request.memory_per_node_mb)
    return Fraction(job.memory_mb) * cores


def fault(held: Held, job: JobSpec, nodes: list[int], tasks: list[int], now_s: float) -> str:
    """Return the rejection code that stated tasks on nodes deserve, devices left out; or empty."""
    platform, request = held.platform, job.request or JobRequest()
    whole = is_whole(platform, job, nodes)
    if whole is None:
        return "constraint_violated"
    if set(request.required_nodes) - set(nodes) or set(request.excluded_nodes) & set(nodes):
        return "constraint_violated"
    if len(nodes) < request.nodes_min or (request.nodes_max and len(nodes) > request.nodes_max):
        return "constraint_violated"
    if not satisfied(request.features, [held.groups[node].features for node in nodes]):
        return "constraint_violated"
    if reserved(platform, job, nodes, now_s):
        return "reserved"
    for node, cores in zip(nodes, tasks, strict=True):
        free = held.cores(node)
        if cores > free or (whole and free < held.groups[node].cores):
            return "node_busy"
    for cores in tasks:
        if cores % request.cores_per_task:
            return "bad_allocation"
        if request.tasks_per_node and cores / request.cores_per_task > request.tasks_per_node:
            return "constraint_violated"
    for node, cores in zip(nodes, tasks, strict=True):
        limited = held.groups[node].memory_mb > 0
        if limited and memory_of(held, job, node, cores) > held.memory(node):
            return "insufficient_memory"
    if any(count > held.licenses(name) for name, count in request.licenses.items()):
        return "insufficient_licenses"
    return ""


def reserved(platform: Platform, job: JobSpec, nodes: list[int], now_s: float) -> bool:
    """Return whether a reservation forbids a job on nodes from now on."""
    end_s = now_s + job.requested_s
    own = job.request.reservation if job.request else ""
    for reservation in platform.reservations:
        its_nodes = {n for a, b in reservation.nodes for n in range(a, b + 1)}
        windows = [
            (
                reservation.start_s + k * (reservation.repeat_s or 0.0),
                reservation.end_s + k * (reservation.repeat_s or 0.0),
            )
            for k in range(200 if reservation.repeat_s else 1)
        ]
        if reservation.name == own:
            inside = any(a <= now_s and end_s <= b for a, b in windows)
            if "flex" not in reservation.flags and not (inside and its_nodes >= set(nodes)):
                return True
        elif its_nodes & set(nodes) and any(a < end_s and b > now_s for a, b in windows):
            return True
    return False


def parts_on(request: JobRequest, tasks: int) -> list[tuple[str, Fraction]]:
    """Return the parts of devices that a job needs on a node: name and size."""
    parts = []
    for amounts, times in ((request.gres_per_node, 1), (request.gres_per_task, tasks)):
        for name, amount in amounts.items():
            size = Fraction(round(amount * 1000), 1000)
            if size < 1:
                parts += [(name, size)] * times
            else:
                parts += [(name, Fraction(1))] * (int(size) * times)
    return parts


def stated_devices_are_right(
    held: Held, request: JobRequest, nodes: list[int], counts: list[int], gres: list[dict[str, Any]]
) -> list[tuple[tuple[int, str, int], Fraction]] | None:
    """Return what a job holds of the stated devices; None: they are not those of its request.

    Every assignment of stated devices to parts of the request is tried.
    """
    entries = [
        (node, name, number)
        for node, devices in zip(nodes, gres or [{}] * len(nodes), strict=True)
        for name, numbers in devices.items()
        for number in numbers
    ]
    parts: list[tuple[int | None, str, Fraction]] = [
        (node, name, size)
        for node, count in zip(nodes, counts, strict=True)
        for name, size in parts_on(request, count)
    ]
    for name, amount in request.gres_per_job.items():
        size = Fraction(round(amount * 1000), 1000)
        one = min(size, Fraction(1))
        parts += [(None, name, one)] * max(int(size), 1)
    if len(parts) != len(entries):
        return None
    for order in permutations(entries):
        taken = list(zip(order, parts, strict=True))
        if all(
            place in (None, entry[0]) and (entry[1] == name or entry[1].startswith(name + ":"))
            for entry, (place, name, _) in taken
        ) and all(
            sum((size for other, (_, _, size) in taken if other == entry), Fraction(0))
            <= held.device(*entry)
            for entry in entries
        ):
            return [(entry, size) for entry, (_, _, size) in taken]
    return None


def allocations(held: Held, job: JobSpec) -> Iterator[tuple[list[int], list[int]]]:
    """Yield every set of nodes with every split of the cores of a job."""
    numbers = range(len(held.groups))
    for size in range(1, len(numbers) + 1):
        if job.placement == "one_node" and size > 1:
            return
        for nodes in combinations(numbers, size):
            for split in product(*(range(1, held.groups[node].cores + 1) for node in nodes)):
                if sum(split) == job.cores:
                    yield list(nodes), list(split)


def can_ever_run(platform: Platform, job: JobSpec) -> bool:
    """Return whether any allocation on the empty cluster is right; reservations apply by name."""
    held, request = Held(platform), job.request or JobRequest()
    if request.reservation:
        raise NotImplementedError("reservations have tests of their own")
    free = Platform(platform.nodes, platform.consumable, platform.partitions, (), platform.licenses)
    held.platform = free
    return any(
        not fault(held, job, nodes, tasks, 0.0) and _devices_exist(held, job, nodes, tasks)
        for nodes, tasks in allocations(held, job)
    )


def _devices_exist(held: Held, job: JobSpec, nodes: list[int], tasks: list[int]) -> bool:
    """Return whether some devices of the nodes meet the request of a job."""
    request = job.request or JobRequest()
    needed = [
        (place, name, size)
        for place, cores in enumerate(tasks)
        for name, size in parts_on(request, cores // request.cores_per_task)
    ]
    for name, amount in request.gres_per_job.items():
        size = Fraction(round(amount * 1000), 1000)
        needed += [(-1, name, min(size, Fraction(1)))] * max(int(size), 1)
    left = {
        (place, name, number): Fraction(1)
        for place, node in enumerate(nodes)
        for name, count in held.groups[node].gres.items()
        for number in range(count)
    }
    return _assign(needed, left)


def _assign(needed: list[tuple[int, str, Fraction]], left: dict[Any, Fraction]) -> bool:
    if not needed:
        return True
    place, name, size = needed[0]
    for device, part in left.items():
        fits = place in (-1, device[0]) and part >= size
        if fits and (device[1] == name or device[1].startswith(name + ":")):
            left[device] -= size
            if _assign(needed[1:], left):
                return True
            left[device] += size
    return False


def stated(job_id: int, nodes: list[int], tasks: list[int]) -> AllocateJob:
    """Return the decision for an allocation."""
    return AllocateJob(job_id, nodes, tasks)
