"""The nodes of a run at a time, as Slurm's `sinfo` prints them.

A partition is that of the platform or, without any, a node group. The state is that of Slurm:
`idle`, `mix` (some cores are allocated), `alloc`, `down` for a node that failed, `drain` for one
that is drained, or `drng` while jobs run on it. Its suffix is
`~` for a sleeping node, `#` for one that is being switched on, and `%` for one that is being
switched off.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from hpcosim_sim.record.recording import POWER_STATES
from hpcosim_view.run.frame import Frame
from hpcosim_view.run.moment import moment
from hpcosim_view.runs import clean
from hpcosim_view.terminal.text import (
    Column,
    duration,
    intervals_of,
    lines,
    node_list,
    node_names,
    word,
)

SUFFIXES: Mapping[str, str] = {
    "on": "",
    "sleeping": "~",
    "switching_on": "#",
    "switching_off": "%",
}
"""Suffix of the state by power state of the node."""
ORDER = ("mix", "alloc", "idle", "drng", "drain", "down")
AVAILABLE: Mapping[str, str] = {"up": "up", "down": "down", "drain": "drain", "inactive": "inact"}
"""Slurm's word for the state of a partition."""


class NodesInState(NamedTuple):
    """The nodes of a partition that have the same state.

    Attributes:
        partition: name of the partition or of the node group; `*` marks the default partition.
        state: state with suffix.
        intervals: the nodes; first and last of each interval.
        hosts: the nodes as a host list.
        avail: state of the partition.
        limit_s: longest requested run time, s; infinity: no limit.
    """

    partition: str
    state: str
    intervals: Sequence[tuple[int, int]]
    hosts: str
    avail: str = "up"
    limit_s: float = math.inf

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return sum(last - first + 1 for first, last in self.intervals)


def nodes_at(frame: Frame, at_s: float) -> list[NodesInState]:
    """Return the nodes at a time, by partition and state; nodes that are not on come first.

    Args:
        frame: the run.
        at_s: simulated time, s.
    """
    then = moment(frame, at_s).nodes
    states = []
    for power, cores, allocated, _, drained in zip(
        *(column.tolist() for column in then), strict=True
    ):
        state = "idle" if not allocated else "alloc" if allocated >= cores else "mix"
        if drained:
            state = "drng" if allocated else "drain"
        name = POWER_STATES[power]
        states.append("down" if name == "down" else state + SUFFIXES[name])
    names = node_names(frame)
    return [
        row
        for part in _partitions(frame, then.group.tolist())
        for row in _rows(part, states, names)
    ]


class _Part(NamedTuple):
    """A partition or a node group: its name, nodes, state, and longest requested time, s."""

    name: str
    nodes: Sequence[int]
    avail: str = "up"
    limit_s: float = math.inf


def _partitions(frame: Frame, group: Sequence[int]) -> Iterator[_Part]:
    """Yield the partitions of a run or, without any, its node groups."""
    parts = frame.about.get("node_partitions")
    if not parts:
        for number, (_, _, name) in enumerate(frame.about["nodes"]):
            yield _Part(clean(name), [node for node, each in enumerate(group) if each == number])
        return
    for name, ranges, state, limit_s, default in parts:
        nodes = sorted({node for first, last in ranges for node in range(first, last + 1)})
        title = f"{clean(name)}{'*' if default else ''}"
        limit = math.inf if limit_s is None else float(limit_s)
        yield _Part(title, nodes, AVAILABLE.get(state, "up"), limit)


def _rows(part: _Part, states: Sequence[str], names: Sequence[str]) -> Iterator[NodesInState]:
    """Yield the nodes of a partition by state."""
    members: dict[str, list[int]] = {}
    for node in part.nodes:
        members.setdefault(states[node], []).append(node)
    for state in sorted(members, key=_place):
        intervals = intervals_of(members[state])
        hosts = node_list(intervals, names)
        yield NodesInState(part.name, state, intervals, hosts, part.avail, part.limit_s)


def sinfo(groups: Iterable[NodesInState]) -> list[str]:
    """Return the lines of the table."""
    rows = [
        (
            *(word(each.partition), each.avail),
            "infinite" if each.limit_s == math.inf else duration(each.limit_s),
            *(str(each.nodes), each.state, each.hosts),
        )
        for each in groups
    ]
    width = max([9, *(min(len(row[0]), 30) for row in rows)])
    columns = (
        *(Column("PARTITION", width, left=True), Column("AVAIL", 5), Column("TIMELIMIT", 10)),
        *(Column("NODES", 6), Column("STATE", 6), Column("NODELIST", 0)),
    )
    return lines(columns, rows)


def _place(state: str) -> tuple[bool, int, str]:
    return state in ORDER, ORDER.index(state.rstrip("~#%")), state
