"""The nodes of a run at a time, as Slurm's `sinfo` prints them.

A partition is a node group. The state is that of Slurm: `idle`, `mix` (some cores are allocated) or
`alloc`; the suffix is `~` for a sleeping node, `#` for one that is being switched on, and `%` for
one that is being switched off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hpcosim_results.frame import Frame
from hpcosim_results.moment import moment
from hpcosim_server.record.recording import POWER_STATES
from hpcosim_view.runs import clean
from hpcosim_view.terminal.text import Column, intervals_of, lines, node_list, word

SUFFIXES: Mapping[str, str] = {
    "on": "",
    "sleeping": "~",
    "switching_on": "#",
    "switching_off": "%",
    "down": "*",
}
"""Suffix of the state by power state of the node."""
ORDER = ("mix", "alloc", "idle")


class NodesInState(NamedTuple):
    """The nodes of a partition that have the same state.

    Attributes:
        partition: name of the node group.
        state: state with suffix.
        intervals: the nodes; first and last of each interval.
    """

    partition: str
    state: str
    intervals: Sequence[tuple[int, int]]

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
    members: dict[tuple[int, str], list[int]] = {}
    rows = zip(*(column.tolist() for column in then), strict=True)
    for node, (power, cores, allocated, group) in enumerate(rows):
        state = "idle" if not allocated else "alloc" if allocated >= cores else "mix"
        key = (group, state + SUFFIXES[POWER_STATES[power]])
        members.setdefault(key, []).append(node)
    names = [clean(name) for _, _, name in frame.about["nodes"]]
    return [
        NodesInState(names[group], state, intervals_of(members[group, state]))
        for group, state in sorted(members, key=lambda key: (key[0], _place(key[1])))
    ]


def sinfo(groups: Iterable[NodesInState]) -> list[str]:
    """Return the lines of the table."""
    rows = [
        (word(each.partition), str(each.nodes), each.state, node_list(each.intervals))
        for each in groups
    ]
    width = max([9, *(min(len(row[0]), 30) for row in rows)])
    columns = (
        *(Column("PARTITION", width, left=True), Column("AVAIL", 5), Column("TIMELIMIT", 10)),
        *(Column("NODES", 6), Column("STATE", 6), Column("NODELIST", 0)),
    )
    return lines(columns, ((row[0], "up", "infinite", *row[1:]) for row in rows))


def _place(state: str) -> tuple[bool, int, str]:
    return state in ORDER, ORDER.index(state.rstrip("~#%")), state
