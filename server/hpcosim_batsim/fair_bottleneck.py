"""Rates of tasks that share resources: SimGrid's solver `fairbottleneck` for parallel tasks.

Source: SimGrid 3.32, `FairBottleneck::bottleneck_solve`, which Batsim uses. The solver works in
rounds. In each round every resource divides its remaining capacity into equal parts, one for each
task on it whose rate may still grow (on a host: for each process), and the rate of a task grows as
far as its parts permit. A rate is final when it reaches the limit of the task, or when one of its
resources has no capacity left. Each task therefore gets at least an equal part of every resource.

As in SimGrid, the capacity that a task took in its last round is subtracted again in each later
round. With three or more rounds a resource may thus keep unused capacity.

Unlike SimGrid, the capacity of a fatpipe link is a limit of each task: SimGrid lets a task grow
above it in later rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

_DUST = 1e-12  # relative: a rate this close to its limit has reached it
_PRECISION = 1e-5  # SimGrid's `precision/work-amount`: less remaining capacity is none


class Amount(NamedTuple):
    """Amount of a task on a resource, in the unit of the resource.

    Attributes:
        total: amount of all parts, above 0.
        largest: amount of the largest part.
        parts: number of parts: processes on a host, 1 on a link.
    """

    total: float
    largest: float
    parts: int = 1


class Claim(Struct, frozen=True):
    """What a task claims of resources.

    Attributes:
        limit_per_s: largest rate, tasks per second: that of the task alone on its resources.
        amounts: amount on each shared resource for the whole task.
    """

    limit_per_s: float
    amounts: Mapping[int, Amount]


def fair_rates(claims: Sequence[Claim], capacities: Mapping[int, float]) -> list[float]:
    """Return the rate of each task, tasks per second.

    Args:
        capacities: capacity of each resource of several tasks or processes, in units of its amounts
            per s. The others need none, because `limit_per_s` respects them.
    """
    rates, steps = [0.0] * len(claims), [0.0] * len(claims)
    growing = set(range(len(claims)))
    remaining = dict(capacities)
    users: dict[int, list[tuple[int, Amount]]] = {resource: [] for resource in capacities}
    shared = [[item for item in claim.amounts.items() if item[0] in capacities] for claim in claims]
    for task, amounts in enumerate(shared):
        for resource, amount in amounts:
            users[resource].append((task, amount))
    while growing:
        parts = _parts(remaining, users, growing)
        remaining = {resource: remaining[resource] for resource in parts}
        for task in list(growing):
            claim = claims[task]
            step = claim.limit_per_s - rates[task]
            for resource, amount in shared[task]:
                step = min(step, parts[resource] / amount.largest)
            steps[task] = step
            rates[task] += step
            if claim.limit_per_s - rates[task] <= _DUST * claim.limit_per_s:
                growing.discard(task)
        for resource in parts:
            taken = math.fsum(amount.total * steps[task] for task, amount in users[resource])
            remaining[resource] -= taken
            if remaining[resource] < max(_PRECISION, _DUST * capacities[resource]):
                del remaining[resource]
                growing.difference_update(task for task, _ in users[resource])
    return rates


def _parts(
    remaining: Mapping[int, float],
    users: Mapping[int, Sequence[tuple[int, Amount]]],
    growing: set[int],
) -> dict[int, float]:
    """Return the capacity of a part of each resource, without resources of no growing task."""
    parts = {}
    for resource, capacity in remaining.items():
        count = sum(amount.parts for task, amount in users[resource] if task in growing)
        if count:
            parts[resource] = capacity / count
    return parts


class SharedRates:
    """The tasks that run now and the resources they claim.

    Args:
        capacity_of: returns the capacity of a resource, in units of the amounts per second.
    """

    def __init__(self, capacity_of: Callable[[int], float]) -> None:
        self._capacity_of = capacity_of
        self._claims: dict[int, Claim] = {}
        self._users: dict[int, dict[int, None]] = {}

    def update(self, begun: Mapping[int, Claim], ended: Iterable[int]) -> dict[int, float]:
        """Add and remove tasks, and return the rates that may have changed.

        Args:
            begun: claims of the tasks that begin, by a number that no other task has.

        Returns:
            Rate of each task that shares a resource with one of these, directly or through other
            tasks, and of those that begin, tasks per second.
        """
        touched: dict[int, None] = {}  # resources
        for task in ended:
            for resource in self._claims.pop(task).amounts:
                users = self._users[resource]
                del users[task]
                if users:
                    touched[resource] = None
                else:
                    del self._users[resource]
                    touched.pop(resource, None)
        for task, claim in begun.items():
            self._claims[task] = claim
            for resource in claim.amounts:
                self._users.setdefault(resource, {})[task] = None
                touched[resource] = None
        tasks = self._connected(touched)
        claims = [self._claims[task] for task in tasks]
        if len(claims) == 1:
            return {tasks[0]: claims[0].limit_per_s}
        resources = {
            resource
            for claim in claims
            for resource, amount in claim.amounts.items()
            if amount.parts > 1 or len(self._users[resource]) > 1
        }
        rates = fair_rates(claims, {each: self._capacity_of(each) for each in resources})
        return dict(zip(tasks, rates, strict=True))

    def _connected(self, touched: Iterable[int]) -> list[int]:
        """Return the tasks that use the resources, or share a resource with such a task."""
        found: dict[int, None] = {}
        known = set(touched)
        open_ = list(known)
        while open_:
            for task in self._users[open_.pop()]:
                if task not in found:
                    found[task] = None
                    new = [each for each in self._claims[task].amounts if each not in known]
                    known.update(new)
                    open_ += new
        return sorted(found)
