"""Shortest paths over the routes of a zone, as in SimGrid's zones `Floyd` and `Dijkstra`.

The length of a route is its number of links. Of several shortest paths, each rule takes the one
that SimGrid 3.32 takes, which depends on the order of the members and of the routes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

Pair = tuple[str, str]

Paths = Callable[[str, str], list[Pair]]
"""Returns the path between two members as pairs that have a route; empty: there is none."""

_FAR = 2**40  # length of a path that does not exist


def floyd_paths(members: Sequence[str], lengths: Mapping[Pair, int]) -> Paths:
    """Return the shortest paths between all members by the rule of Floyd and Warshall.

    Ways over each member are tried in the order of the members, and taken if they are shorter.

    Args:
        members: the members in the order of the platform file.
        lengths: length of each route.
    """
    number = {name: place for place, name in enumerate(members)}
    count = len(members)
    cost = np.full((count, count), _FAR, np.int64)
    before: NDArray[np.int64] = np.full((count, count), -1, np.int64)
    for (source, target), length in lengths.items():
        cost[number[source], number[target]] = length
        before[number[source], number[target]] = number[source]
    for over in range(count):
        by_way = cost[:, over, None] + cost[None, over, :]
        shorter = by_way < cost
        cost = np.where(shorter, by_way, cost)
        before = np.where(shorter, before[None, over, :], before)

    def path(source: str, target: str) -> list[Pair]:
        first, place = number[source], number[target]
        if cost[first, place] >= _FAR:
            return []
        found = []
        while True:
            previous = int(before[first, place])
            found.append((members[previous], members[place]))
            if previous == first:
                return found[::-1]
            place = previous

    return path


def dijkstra_paths(lengths: Mapping[Pair, int]) -> Paths:
    """Return the shortest paths from one member to all others by the rule of Dijkstra.

    Of members at the same distance, the one that a route names first goes first.

    Args:
        lengths: length of each route, in the order of the platform file.
    """
    number: dict[str, int] = {}
    routes: dict[str, list[str]] = {}
    for source, target in lengths:
        routes.setdefault(source, []).append(target)
        for name in (source, target):
            number.setdefault(name, len(number))
    known: dict[str, dict[str, str]] = {}  # previous member by source and target

    def previous_of(source: str) -> dict[str, str]:
        distance, previous = {source: 0}, dict[str, str]()
        queue = [(0, number[source], source)]
        while queue:
            length, _, name = heappop(queue)
            if length > distance[name]:
                continue
            for target in routes.get(name, ()):
                way = length + lengths[name, target]
                if way < distance.get(target, _FAR):
                    distance[target], previous[target] = way, name
                    heappush(queue, (way, number[target], target))
        return previous

    def path(source: str, target: str) -> list[Pair]:
        if source not in number:
            return []
        if source not in known:
            known[source] = previous_of(source)
        found = []
        while target != source:
            if target not in known[source]:
                return []
            found.append((known[source][target], target))
            target = found[-1][0]
        return found[::-1]

    return path
