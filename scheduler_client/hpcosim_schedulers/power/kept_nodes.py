"""Sets of nodes of which some stay on, as Slurm's SuspendExcNodes names them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from hpcosim_client.errors import PolicyError
from hpcosim_protocol import HostListError, Platform
from hpcosim_protocol.hosts import NodeNames, expand

if TYPE_CHECKING:
    from hpcosim_client.job import Bools, Ints

NODE_SET = re.compile(r"\s*([^\s:;]+)(?::(\d{1,9}))?\s*", re.ASCII)
NUMBERS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
OUTER_COMMA = re.compile(r",(?![^\[\]]*\])")


class NodeSet(NamedTuple):
    """Some nodes, and how many of them stay on.

    Attributes:
        hosts: a host list; empty: the nodes have numbers.
        first, last: node numbers, if there is no host list.
        kept: number of nodes to keep on; None: all.
    """

    hosts: str
    first: int
    last: int
    kept: int | None


def node_sets(text: str, setting: str) -> Iterator[NodeSet]:
    """Yield the sets of a setting.

    Args:
        text: sets separated by commas: host lists such as `hm[01-04]`, node numbers such as `20`
            and `0-9`; a number after a colon is the number of nodes to keep on.
        setting: name of the setting, for messages.

    Raises:
        ValueError: a set is invalid.
    """
    for part in OUTER_COMMA.split(text) if text.strip() else ():
        match = NODE_SET.fullmatch(part)
        if match is None:
            raise ValueError(
                f"{setting}: expected sets such as 20, 0-9:4 or hm[01-04]:2, got {part.strip()!r}"
            )
        numbers = NUMBERS.fullmatch(match[1])
        if numbers is None:
            hosts, first, size = match[1], 0, len(_expanded(match[1], setting))
        else:
            hosts, first = "", int(numbers[1])
            size = int(numbers[2] or numbers[1]) - first + 1
        kept = None if match[2] is None else int(match[2])
        if size < 1 or kept == 0:
            raise ValueError(f"{setting}: the set {part.strip()!r} is empty")
        yield NodeSet(hosts, first, first + size - 1, kept)


def kept_on(text: str, setting: str, platform: Platform) -> list[tuple[Ints, int]]:
    """Return the nodes of each set of a setting, and how many of them stay on.

    Args:
        text: sets, as `node_sets` takes them.
        setting: name of the setting, for messages.
        platform: the platform that has the nodes.

    Raises:
        PolicyError: a node does not exist.
    """
    import numpy as np  # settings are validated without it

    sets = list(node_sets(text, setting))
    names = NodeNames(platform) if sets else None
    found = [_nodes_of(each, platform.node_count, names, setting) for each in sets]
    return [
        (np.array(nodes), each.kept or len(nodes)) for nodes, each in zip(found, sets, strict=True)
    ]


def without_kept(chosen: Bools, usable: Bools, sets: list[tuple[Ints, int]]) -> Bools:
    """Return bool[nodes]: the chosen nodes but, of each set, the first usable ones that stay on."""
    left = chosen.copy()
    for members, count in sets:
        left[members[usable[members]][:count]] = False
    return left


def _expanded(hosts: str, setting: str) -> list[str]:
    try:
        return expand(hosts)
    except HostListError as error:
        raise ValueError(f"{setting}: {error}") from None


def _nodes_of(nodes: NodeSet, total: int, names: NodeNames | None, setting: str) -> list[int]:
    if nodes.hosts and names is not None:
        try:
            return sorted(set(names.numbers(nodes.hosts)))
        except HostListError as error:
            raise PolicyError(f"{setting}: {error}") from None
    if nodes.last >= total:
        raise PolicyError(
            f"{setting}: expected node numbers from 0 to {total - 1}, got {nodes.last}"
        )
    return list(range(nodes.first, nodes.last + 1))
