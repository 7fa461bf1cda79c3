"""State and power of every node over time, replayed from the recording."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from hpcosim_sim.physics.power import NodeState, RecordedState
from hpcosim_sim.record.replay import JobChange, Replay, changes_of
from hpcosim_sim.record.run_record import RunRecord


class Span(NamedTuple):
    """A period in which nodes have constant state and power.

    Attributes:
        start_s: begin of the period, s.
        end_s: end of the period or of the record, s.
        nodes: node numbers, ascending.
        state: one of `power.NODE_STATES`.
        power_w: power of each node, W.
    """

    start_s: float
    end_s: float
    nodes: list[int]
    state: NodeState
    power_w: float


Level = tuple[RecordedState, tuple[int, ...], int]
"""Power state of a node, number of tasks on each of its processors, and node kind."""


def node_spans(record: RunRecord) -> Iterator[Span]:
    """Yield the spans of all nodes of a run, in order of their end.

    The replay computes power from power states, node kinds and tasks. Every node is in exactly one
    span at any time. The integral of power over all spans is the energy of the run.
    """
    recording, end_s = record.recording, record.end_s
    replay = Replay(record.platform, recording, record.start_s)
    cluster, nodes = replay.cluster, range(record.platform.node_count)
    levels = _levels(replay, nodes)
    since_s = [record.start_s] * len(nodes)

    def close(touched: Iterable[int], now_s: float) -> Iterator[Span]:
        ordered = sorted(touched)
        changed = [
            (node, new)
            for node, new in zip(ordered, _levels(replay, ordered), strict=True)
            if new != levels[node] or now_s == end_s
        ]
        for members in _grouped([node for node, _ in changed], since_s, levels):
            first = members[0]
            if now_s > since_s[first]:
                power, tasks, kind = levels[first]
                power_w = cluster.meters[kind].node_power_w(power, tasks)
                yield Span(since_s[first], now_s, members, _state(levels[first]), power_w)
        for node, new in changed:
            since_s[node], levels[node] = now_s, new

    for now_s, together in groupby(changes_of(recording), key=itemgetter(0)):
        touched: set[int] = set()
        for change in together:
            replay.apply(change)
            if isinstance(change, JobChange):
                touched.update(recording.periods.nodes_of(change.period))
            else:
                touched.update(change.nodes)
        if now_s < end_s:
            yield from close(touched, now_s)
    yield from close(nodes, end_s)


def _levels(replay: Replay, nodes: Sequence[int]) -> list[Level]:
    cluster, power = replay.cluster, replay.power
    return [
        (power[node], tasks, cluster.group_of[node])
        for node, tasks in zip(nodes, cluster.levels(nodes), strict=True)
    ]


def _state(level: Level) -> NodeState:
    power, tasks, _ = level
    if power != "on":
        return power
    return "computing" if any(tasks) else "idle"


def _grouped(nodes: list[int], since_s: list[float], levels: list[Level]) -> Iterable[list[int]]:
    """Return the nodes grouped by equal level and equal begin of that level."""
    groups: dict[tuple[float, Level], list[int]] = {}
    for node in nodes:
        groups.setdefault((since_s[node], levels[node]), []).append(node)
    return groups.values()
