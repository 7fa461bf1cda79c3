"""How many nodes of which type are right for a job: a small integer programme."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

MAX_STEPS = 20_000
"""Maximum number of partial choices that `can_choose` tries."""


class NodeType(NamedTuple):
    """Nodes that are equal for a job.

    Attributes:
        available: number of nodes that the job may use.
        required: number of nodes that it must use.
        cores: number of cores that it may have on a node.
        meets: which conditions with a least number of nodes the nodes meet.
        devices: number of devices of a node for each resource that the job needs on all nodes
            together.
    """

    available: int
    required: int
    cores: int
    meets: tuple[bool, ...] = ()
    devices: tuple[int, ...] = ()


class Wanted(NamedTuple):
    """What the chosen nodes must have together.

    Attributes:
        cores: number of cores.
        counts: least number of nodes for each condition. A node counts for one condition only.
        devices: number of devices of each resource.
    """

    cores: int
    counts: tuple[int, ...] = ()
    devices: tuple[int, ...] = ()


def can_choose(
    node_types: Sequence[NodeType], wanted: Wanted, *, least: int, most: int, tasks: int
) -> bool:
    """Return whether a choice of nodes is right for a job.

    More nodes never make a choice worse, so the choice has as many as are permitted. With
    conditions or devices, choices are tried one by one; after `MAX_STEPS` the answer is yes.

    Args:
        node_types: the nodes.
        wanted: what the chosen nodes must have together.
        least: least number of nodes.
        most: greatest number of nodes; 0: no limit.
        tasks: number of tasks of the job; each node has at least one.
    """
    types = _merged(each for each in node_types if each.cores > 0 and each.available > 0)
    if any(each.required > (each.available if each.cores > 0 else 0) for each in node_types):
        return False
    available = sum(each.available for each in types)
    number = min(most or available, tasks, available)
    if number < max(least, sum(each.required for each in types)) or not number:
        return False
    if number == available:
        return _suffice(types, [each.available for each in types], wanted)
    types.sort(key=lambda each: -each.cores)
    if not (wanted.counts or wanted.devices):
        return _greatest_cores(types, number) >= wanted.cores
    return _Search(types, wanted).finds(number)


def _merged(node_types: Iterable[NodeType]) -> list[NodeType]:
    """Return the types with equal ones joined."""
    available: Counter[tuple[object, ...]] = Counter()
    required: Counter[tuple[object, ...]] = Counter()
    kinds = {}
    for each in node_types:
        kinds[each[2:]] = each
        available[each[2:]] += each.available
        required[each[2:]] += each.required
    return [
        each._replace(available=available[kind], required=required[kind])
        for kind, each in kinds.items()
    ]


def _greatest_cores(types: Sequence[NodeType], number: int) -> int:
    """Return the greatest number of cores on a number of nodes, with all required ones."""
    cores = sum(each.required * each.cores for each in types)
    left = number - sum(each.required for each in types)
    for each in types:  # by cores, the largest first
        more = min(each.available - each.required, left)
        cores += more * each.cores
        left -= more
    return cores


def _suffice(types: Sequence[NodeType], chosen: Sequence[int], wanted: Wanted) -> bool:
    """Return whether a choice has the cores, the devices and the nodes for each condition."""
    pairs = list(zip(types, chosen, strict=True))
    if sum(each.cores * count for each, count in pairs) < wanted.cores:
        return False
    for resource, needed in enumerate(wanted.devices):
        if sum(each.devices[resource] * count for each, count in pairs) < needed:
            return False
    # Hall's theorem: each condition gets nodes of its own if every set of conditions has enough.
    for size in range(1, len(wanted.counts) + 1):
        for some in combinations(range(len(wanted.counts)), size):
            found = sum(count for each, count in pairs if any(each.meets[i] for i in some))
            if found < sum(wanted.counts[i] for i in some):
                return False
    return True


class _Search:
    """Tries choices of nodes, type by type, with more nodes of a type first."""

    def __init__(self, types: Sequence[NodeType], wanted: Wanted) -> None:
        self._types = types
        self._wanted = wanted
        self._steps = 0

    def finds(self, number: int, chosen: tuple[int, ...] = ()) -> bool:
        """Return whether `number` nodes of the types after `chosen` complete a right choice."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            return True
        rest = self._types[len(chosen) :]
        if not rest:
            return number == 0 and _suffice(self._types, chosen, self._wanted)
        later = rest[1:]
        most = min(rest[0].available, number - sum(each.required for each in later))
        least = max(rest[0].required, number - sum(each.available for each in later))
        return any(
            self.finds(number - count, (*chosen, count)) for count in range(most, least - 1, -1)
        )
