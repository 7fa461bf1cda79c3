"""Rates of running tasks. A change affects only tasks that share resources, also through others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hpcosim_batsim.network.fair_bottleneck import Claim, fair_rates


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
            ended: numbers of the tasks that end.

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
