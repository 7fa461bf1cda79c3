"""Routes in clusters with a topology: torus, fat tree and dragonfly, as in SimGrid 3.32.

A topology numbers its hosts from 0. It has cables, each with a link in both directions. A limiter
is a link of a host or a switch that the messages through it share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

MAX_CABLES = 1_000_000

Links = tuple[int, ...]

Route = Callable[[int, int], Links]
"""Returns the links of a message between two hosts by their numbers."""


class Cable(NamedTuple):
    """The links of a cable in both directions; one link if the directions share it."""

    up: int
    down: int


class Parts(NamedTuple):
    """What a topology is built of.

    Attributes:
        cable: adds a cable by its name and the number of its parallel strands.
        limiter: adds the limiter of a host or switch by its name; no link: there are no limiters.
    """

    cable: Callable[[str, int], Cable]
    limiter: Callable[[str], Links]


class TopologyError(ValueError):
    """The parameters of a topology are invalid."""


def torus(parameters: str, hosts: int, parts: Parts) -> Route:
    """Return the routes of a torus, which go through one dimension after the other.

    Args:
        parameters: sizes of the dimensions, such as `3,2,2`.
    """
    sizes = _numbers(parameters)
    _check_size(math.prod(sizes), hosts, hosts * len(sizes))
    strides = [math.prod(sizes[:place]) for place in range(len(sizes))]
    dimensions = list(zip(sizes, strides, strict=True))

    def beside(node: int, size: int, stride: int, step: int) -> int:
        place = node // stride % size
        return node + ((place + step) % size - place) * stride

    limiters = [parts.limiter(f"limiter_{node}") for node in range(hosts)]
    cables = [
        [
            parts.cable(f"link_from_{node}_to_{beside(node, size, stride, 1)}", 1)
            for size, stride in dimensions
        ]
        for node in range(hosts)
    ]

    def route(source: int, target: int) -> Links:
        links: Links = ()
        node = source
        for number, (size, stride) in enumerate(dimensions):
            begin, end = source // stride % size, target // stride % size
            half = size // 2
            forward = begin < end <= begin + half or (begin > half and (begin + half) % size >= end)
            while node // stride % size != end:
                after = beside(node, size, stride, 1 if forward else -1)
                taken = cables[node][number].up if forward else cables[after][number].down
                links += (*limiters[node], taken)
                node = after
        return (*links, *limiters[target])

    return route


class _Switch(NamedTuple):
    """A host (level 0) or a switch of a fat tree.

    Attributes:
        digits: its label, a digit for each level.
    """

    level: int
    digits: tuple[int, ...]


def fat_tree(parameters: str, hosts: int, parts: Parts, first: int = 0) -> Route:
    """Return the routes of a fat tree; the host of a message determines its way up (d mod k).

    Args:
        parameters: number of levels, and for each level the numbers of children of a switch, of
            parents of a node below it, and of parallel cables, such as `2;4,4;1,2;1,2`.
        first: position of the first host: the number of hosts of other fat trees before.
    """
    fields = parameters.split(";")
    if len(fields) != 4:
        raise TopologyError("expected 'LEVELS;CHILDREN;PARENTS;CABLES'")
    (levels,) = _numbers(fields[0], 1)
    children, parents, strands = (_numbers(field, levels) for field in fields[1:])
    counts = [
        math.prod(parents[:level]) * math.prod(children[level:]) for level in range(levels + 1)
    ]
    per_level = zip(counts[:-1], parents, strands, strict=True)
    _check_size(math.prod(children), hosts, sum(map(math.prod, per_level)))

    def label(level: int, position: int) -> tuple[int, ...]:
        digits = []
        for place in range(levels):
            base = parents[place] if place < level else children[place]
            digits.append(position % base)
            position //= base
        return tuple(digits)

    cables: dict[tuple[_Switch, _Switch, int], Cable] = {}
    limiters: dict[_Switch, Links] = {}
    for level in range(levels + 1):
        for position in range(counts[level]):
            node = _Switch(level, label(level, position))
            limiters[node] = parts.limiter(f"limiter_{level}_{position}")
            for digit in range(parents[level]) if level < levels else ():
                above = _above(node, digit)
                for strand in range(strands[level]):
                    name = f"link_from_{level}_{position}_by_{digit}_{strand}"
                    cables[node, above, strand] = parts.cable(name, 1)

    def route(source: int, target: int) -> Links:
        links: Links = ()
        node, end = _Switch(0, label(0, source)), _Switch(0, label(0, target))
        while node.level == 0 or node.digits[node.level :] != end.digits[node.level :]:
            port = (first + target) // math.prod(parents[: node.level])
            port %= parents[node.level] * strands[node.level]
            strand, digit = divmod(port, parents[node.level])
            above = _above(node, digit)
            links += (*limiters[node], cables[node, above, strand].up)
            node = above
        while node.level:
            # SimGrid looks for the port of the next level after the port of this level.
            port = (first + source) % strands[node.level - 1] * children[node.level - 1]
            while node.level and port < children[node.level - 1] * strands[node.level - 1]:
                strand, digit = divmod(port, children[node.level - 1])
                if digit == end.digits[node.level - 1]:
                    below = _below(node, digit)
                    links += (cables[below, node, strand].down, *limiters[node])
                    node = below
                port += 1
        return (*links, *limiters[end])

    return route


def _above(node: _Switch, digit: int) -> _Switch:
    return _Switch(node.level + 1, _with_digit(node.digits, node.level, digit))


def _below(node: _Switch, digit: int) -> _Switch:
    return _Switch(node.level - 1, _with_digit(node.digits, node.level - 1, digit))


def _with_digit(digits: tuple[int, ...], place: int, digit: int) -> tuple[int, ...]:
    return (*digits[:place], digit, *digits[place + 1 :])


class _Router(NamedTuple):
    group: int
    chassis: int
    blade: int


def dragonfly(parameters: str, hosts: int, parts: Parts) -> Route:
    """Return the routes of a dragonfly through as few groups, chassis and blades as possible.

    The blade `n` of the first chassis of a group has the cable to group `n`.

    Args:
        parameters: number of groups, of chassis in a group and of blades in a chassis, each with
            the number of parallel cables, and of hosts on a blade, such as `3,4;2,1;3,2;2`.
    """
    fields = parameters.split(";")
    if len(fields) != 4:
        raise TopologyError("expected 'GROUPS,CABLES;CHASSIS,CABLES;BLADES,CABLES;HOSTS'")
    (groups, blue), (racks, black), (blades, green) = (_numbers(field, 2) for field in fields[:3])
    (nodes,) = _numbers(fields[3], 1)
    beside = blades - 1 + racks - 1  # of a router
    cables = hosts + groups * racks * blades * beside // 2 + groups * (groups - 1) // 2
    _check_size(groups * racks * blades * nodes, hosts, cables)

    def router_of(host: int) -> _Router:
        group, rest = divmod(host // nodes, racks * blades)
        return _Router(group, *divmod(rest, blades))

    limiters = [parts.limiter(f"limiter_{host}") for host in range(hosts)]
    local = [parts.cable(f"local_link_{host}", 1) for host in range(hosts)]
    routers = [router_of(host) for host in range(0, hosts, nodes)]
    guards = {router: parts.limiter("limiter_" + "_".join(map(str, router))) for router in routers}
    ways: dict[tuple[_Router, _Router], int] = {}

    def connect(kind: str, one: _Router, other: _Router, strands: int) -> None:
        ends = "_".join(map(str, (*one, *other)))
        cable = parts.cable(f"{kind}_link_{ends}", strands)
        ways[one, other], ways[other, one] = cable

    for one in routers:
        for blade in range(one.blade + 1, blades):
            connect("green", one, one._replace(blade=blade), green)
        for rack in range(one.chassis + 1, racks):
            connect("black", one, one._replace(chassis=rack), black)
    for group in range(min(groups, blades)):
        for other in range(group + 1, min(groups, blades)):
            connect("blue", _Router(group, 0, other), _Router(other, 0, group), blue)

    def route(source: int, target: int) -> Links:
        router, end = router_of(source), router_of(target)
        links: Links = (*limiters[source], local[source].up)

        def go(after: _Router) -> None:
            nonlocal router, links
            if after == router:
                return
            way = (ways[router, after],)
            is_blue = after.group != router.group
            links += way + guards[router] if is_blue else guards[router] + way
            router = after

        if router.group != end.group:
            if max(router.group, end.group) >= blades:
                raise ValueError(
                    f"{groups} groups of a dragonfly need {groups} blades, got {blades}"
                )
            go(router._replace(blade=end.group))
            go(router._replace(chassis=0))
            go(_Router(end.group, 0, router.group))
        if router.blade != end.blade:
            go(router._replace(blade=end.blade))
            router = router._replace(chassis=0)  # SimGrid goes on there from any chassis
        go(router._replace(chassis=end.chassis))
        return (*links, *guards[end], local[target].down, *limiters[target])

    return route


def _numbers(text: str, count: int | None = None) -> Sequence[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise TopologyError(f"expected numbers separated by commas, got {text[:40]!r}") from None
    if min(numbers) < 1 or (count is not None and len(numbers) != count):
        many = "" if count is None else f"{count} "
        raise TopologyError(f"expected {many}numbers above 0, got {text[:40]!r}")
    return numbers


def _check_size(needed: int, hosts: int, cables: int) -> None:
    if needed != hosts:
        raise TopologyError(f"has {needed} hosts, but the radical has {hosts}")
    if cables > MAX_CABLES:
        raise TopologyError(f"has {cables} cables; expected at most {MAX_CABLES}")
