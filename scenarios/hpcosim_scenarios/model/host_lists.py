"""Host lists of a scenario, such as `n[1-4],b1` or `ALL`, as ranges of node numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from hpcosim_protocol import HostListError, NodeGroup, Platform
from hpcosim_protocol.hosts import NodeNames
from hpcosim_protocol.platform import NodeRanges
from hpcosim_scenarios.errors import ScenarioError

NODES = "$.platform.nodes"
LISTING = ("partitions", "reservations", "switches")
"""Sections of a platform whose items list nodes."""


def names_of(platform: Platform) -> NodeNames:
    """Return the names of a platform's nodes.

    Raises:
        ScenarioError: names are invalid; has the field, not file and line.
    """
    try:
        return NodeNames(platform)
    except HostListError as error:
        raise ScenarioError(str(error), field=NODES) from None


def lookup(platform: Platform) -> Callable[[str], NodeRanges]:
    """Return a function that returns the nodes of a host list; it raises HostListError."""
    names = cache(lambda: NodeNames(platform))
    return lambda text: names().ranges(text)


def with_node_numbers(platform: Any) -> Any:
    """Return plain data of a platform with ranges of node numbers instead of host lists.

    Args:
        platform: the data; they are not changed. Data of a wrong type are left as they are, for
            the checks of types.

    Raises:
        ScenarioError: a host list is invalid; has the field, not file and line.
    """
    if not isinstance(platform, dict) or not any(platform.get(name) for name in LISTING):
        return platform
    try:
        groups = msgspec.convert(platform.get("nodes"), tuple[NodeGroup, ...])
    except msgspec.ValidationError:  # the checks of types report it first
        return {key: value for key, value in platform.items() if key not in LISTING}
    names = names_of(Platform(groups))
    sections = [name for name in LISTING if isinstance(platform.get(name), list)]
    return platform | {name: _section(platform[name], names, name) for name in sections}


def _section(items: list[Any], names: NodeNames, section: str) -> list[Any]:
    field = f"$.platform.{section}"
    return [_numbered(item, names, f"{field}[{place}]") for place, item in enumerate(items)]


def _numbered(item: Any, names: NodeNames, field: str) -> Any:
    if not isinstance(item, dict) or not isinstance(item.get("nodes"), str):
        return item
    return item | {"nodes": ranges(item["nodes"], names, f"{field}.nodes")}


def ranges(text: str, names: NodeNames, field: str) -> NodeRanges:
    """Return the nodes of a host list.

    Raises:
        ScenarioError: the text is no host list, or names an unknown node; has the field.
    """
    try:
        return names.ranges(text)
    except HostListError as error:
        raise ScenarioError(str(error), field=field) from None


def check_ranges(nodes: NodeRanges, count: int, field: str) -> None:
    """Check that ranges of node numbers are in order and on the platform.

    Args:
        nodes: the ranges.
        count: number of nodes of the platform.
        field: path of the ranges.

    Raises:
        ScenarioError: a range is not; has the field.
    """
    after = 0
    for first, last in nodes:
        if not after <= first <= last < count:
            what = "expected a host list, or ascending pairs [first, last] of node numbers from 0 "
            raise ScenarioError(f"{what}to {count - 1}, got [{first}, {last}]", field=field)
        after = last + 1
