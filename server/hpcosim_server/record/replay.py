"""The one replay of a recording: its changes in order, and the cluster they lead to."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from hpcosim_protocol import Platform, PowerState
from hpcosim_server.physics.cluster import Cluster, Part
from hpcosim_server.record.recording import POWER_STATES, Recording


class JobChange(NamedTuple):
    """A job started or ended.

    Attributes:
        time_s: when.
        row: the job's row in the recording.
        starts: True if the job started, False if it ended.
    """

    time_s: float
    row: int
    starts: bool


class PowerChange(NamedTuple):
    """Nodes entered a power state at the same instant, one after the other.

    Attributes:
        time_s: when.
        nodes: the nodes.
        state: the state they entered.
    """

    time_s: float
    nodes: list[int]
    state: PowerState


class KindChange(NamedTuple):
    """Nodes changed into another kind at the same instant, one after the other.

    Attributes:
        time_s: when.
        nodes: the nodes.
        kind: the kind they are from then on, an index into `Cluster.kinds`.
    """

    time_s: float
    nodes: list[int]
    kind: int


NodeChange = PowerChange | KindChange
Change = JobChange | NodeChange


def changes_of(recording: Recording) -> Iterator[Change]:
    """Yield every change of jobs and nodes, in the order they happened."""
    of_nodes = _node_changes(recording)
    at, change = next(of_nodes, _NO_MORE)
    for place, code in enumerate(recording.changes):
        while at <= place and change is not None:
            yield change
            at, change = next(of_nodes, _NO_MORE)
        if code >= 0:
            yield JobChange(recording.start_s[code], code, True)
        else:
            yield JobChange(recording.end_s[~code], ~code, False)
    while change is not None:
        yield change
        at, change = next(of_nodes, _NO_MORE)


class Replay:
    """The cluster of a recording, brought from change to change.

    Args:
        platform: the cluster.
        recording: what happened.
        start_s: simulated second at which the run began.

    Attributes:
        cluster: which tasks run where, the kind of each node, and the energy so far.
        power: the power state of each node.
        parts: where the tasks of each job that runs are, by its row.
    """

    def __init__(self, platform: Platform, recording: Recording, start_s: float = 0.0) -> None:
        self._recording = recording
        self.cluster = Cluster(platform, start_s, recording.kinds)
        self.power: list[PowerState] = ["on"] * len(self.cluster.capacity)
        self.parts: dict[int, list[Part]] = {}

    def apply(self, change: Change) -> None:
        """Apply the next change of `changes_of` to the cluster."""
        cluster, now_s = self.cluster, change.time_s
        if isinstance(change, JobChange):
            row = change.row
            if change.starts:
                nodes, tasks = self._recording.nodes_of(row), self._recording.tasks_of(row)
                self.parts[row] = cluster.occupy(now_s, nodes, tasks)
            else:
                cluster.vacate(now_s, self.parts.pop(row))
        elif isinstance(change, PowerChange):
            for node in change.nodes:
                meter = cluster.meters[cluster.group_of[node]]
                meter.switch(now_s, self.power[node], change.state)
                self.power[node] = change.state
        else:
            for node in change.nodes:
                cluster.turn_into(now_s, node, change.kind)


_NO_MORE = (0, None)


def _node_changes(recording: Recording) -> Iterator[tuple[int, NodeChange]]:
    """Yield every change of nodes, each with its place: before which change of jobs it happened.

    The recording does not say whether a change of kind or a change of power came first at one
    instant. A node can change its kind only while it is on, and that decides the order.
    """
    off: set[int] = set()  # nodes that are not on
    powers, kinds = _power_changes(recording), _kind_changes(recording)
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


def _power_changes(recording: Recording) -> Iterator[tuple[int, PowerChange]]:
    of = recording
    columns = zip(of.power_at, of.power_s, of.power_state, of.power_node, strict=True)
    for (at, time_s, code), together in groupby(columns, key=itemgetter(0, 1, 2)):
        yield at, PowerChange(time_s, [node for *_, node in together], POWER_STATES[code])


def _kind_changes(recording: Recording) -> Iterator[tuple[int, KindChange]]:
    of = recording
    columns = zip(of.kind_at, of.kind_s, of.kind_number, of.kind_node, strict=True)
    for (at, time_s, kind), together in groupby(columns, key=itemgetter(0, 1, 2)):
        yield at, KindChange(time_s, [node for *_, node in together], kind)
