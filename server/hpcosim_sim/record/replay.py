"""Replay of a recording: its changes in order, applied to a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from hpcosim_protocol import Platform
from hpcosim_sim.physics.cluster import AllocationPart, Cluster
from hpcosim_sim.physics.power import RecordedState
from hpcosim_sim.record.recording import POWER_STATES, Recording


class JobChange(NamedTuple):
    """The tasks of a job began or stopped to compute: a computing period began or ended."""

    time_s: float
    row: int
    starts: bool
    period: int


class PowerChange(NamedTuple):
    """Nodes entered a power state at the same instant."""

    time_s: float
    nodes: list[int]
    state: RecordedState


class KindChange(NamedTuple):
    """Nodes changed their kind at the same instant.

    Attributes:
        nodes: node numbers, in the order of their changes.
        kind: the new kind, an index into `Cluster.kinds`.
    """

    time_s: float
    nodes: list[int]
    kind: int


NodeChange = PowerChange | KindChange
Change = JobChange | NodeChange


class Position(NamedTuple):
    """The number of changes of a recording that were replayed, by the columns of the recording."""

    changes: int = 0
    power: int = 0
    kinds: int = 0


BEGIN = Position()


def position_of(recording: Recording) -> Position:
    """Return the position after all changes so far."""
    return Position(len(recording.changes), len(recording.power_at), len(recording.kind_at))


def changes_of(
    recording: Recording, since: Position = BEGIN, off: Iterable[int] = ()
) -> Iterator[Change]:
    """Yield the changes of jobs and nodes in chronological order.

    Args:
        recording: the recording; it must not change meanwhile.
        since: position after the changes to leave out.
        off: nodes that were in a state other than `on` at that position.
    """
    of_nodes, periods = _node_changes(recording, since, set(off)), recording.periods
    at, change = next(of_nodes, _NO_MORE)
    for index, code in enumerate(recording.changes[since.changes :], since.changes):
        while at <= index and change is not None:
            yield change
            at, change = next(of_nodes, _NO_MORE)
        if code >= 0:
            yield JobChange(periods.start_s[code], periods.row[code], True, code)
        else:
            yield JobChange(periods.end_s[~code], periods.row[~code], False, ~code)
    while change is not None:
        yield change
        at, change = next(of_nodes, _NO_MORE)


class Replay:
    """The state of the cluster during a replay.

    Attributes:
        power: power state of each node, or `down`.
        parts: placement of the tasks of each running job, by row.
    """

    def __init__(self, platform: Platform, recording: Recording, start_s: float = 0.0) -> None:
        self._periods = recording.periods
        self.cluster = Cluster(platform, start_s, recording.kinds)
        self.power: list[RecordedState] = ["on"] * len(self.cluster.capacity)
        self.parts: dict[int, list[AllocationPart]] = {}

    def apply(self, change: Change) -> None:
        """Apply the next change of `changes_of` to the cluster."""
        cluster, now_s = self.cluster, change.time_s
        if isinstance(change, JobChange):
            row = change.row
            if change.starts:
                nodes = self._periods.nodes_of(change.period)
                tasks = self._periods.tasks_of(change.period)
                self.parts[row] = cluster.occupy(now_s, nodes, tasks)
            else:
                cluster.vacate(now_s, self.parts.pop(row))
        elif isinstance(change, PowerChange):
            for node in change.nodes:
                cluster.switch(now_s, node, self.power[node], change.state)
                self.power[node] = change.state
        else:
            cluster.change_kind(now_s, change.nodes, change.kind)


_NO_MORE = (0, None)


def _node_changes(
    recording: Recording, since: Position, off: set[int]
) -> Iterator[tuple[int, NodeChange]]:
    """Yield every change of nodes, with the index of the next entry of `recording.changes`.

    The recording does not contain the order of changes of kind and changes of power at one instant.
    A node changes its kind only while it is on, which determines the order.
    """
    powers = _power_changes(recording, since.power)
    kinds = _kind_changes(recording, since.kinds)
    power, kind = next(powers, None), next(kinds, None)
    while power is not None or kind is not None:
        if kind is not None and (power is None or _is_first(kind, power, off)):
            yield kind
            kind = next(kinds, None)
        elif power is not None:
            yield power
            (off.difference_update if power[1].state == "on" else off.update)(power[1].nodes)
            power = next(powers, None)


def _is_first(kind: tuple[int, KindChange], power: tuple[int, PowerChange], off: set[int]) -> bool:
    kind_at, power_at = (kind[0], kind[1].time_s), (power[0], power[1].time_s)
    return kind_at < power_at or (kind_at == power_at and off.isdisjoint(kind[1].nodes))


def _power_changes(recording: Recording, first: int) -> Iterator[tuple[int, PowerChange]]:
    of = recording
    parts = (of.power_at, of.power_s, of.power_state, of.power_node)
    columns = zip(*(part[first:] for part in parts), strict=True)
    for (at, time_s, code), together in groupby(columns, key=itemgetter(0, 1, 2)):
        yield at, PowerChange(time_s, [node for *_, node in together], POWER_STATES[code])


def _kind_changes(recording: Recording, first: int) -> Iterator[tuple[int, KindChange]]:
    of = recording
    parts = (of.kind_at, of.kind_s, of.kind_number, of.kind_node)
    columns = zip(*(part[first:] for part in parts), strict=True)
    for (at, time_s, kind), together in groupby(columns, key=itemgetter(0, 1, 2)):
        yield at, KindChange(time_s, [node for *_, node in together], kind)
