"""State and power of every node over time, replayed from the recording."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hpcosim_protocol import Platform, PowerState
from hpcosim_server.physics.cluster import Cluster
from hpcosim_server.physics.power import NodeState
from hpcosim_server.record.recording import Recording
from hpcosim_server.record.replay import replay


class Span(NamedTuple):
    """Some nodes in one state for some time.

    Attributes:
        start_s, end_s: from when to when.
        nodes: which, in ascending order.
        state: one of `power.NODE_STATES`.
        power_w: of each node.
    """

    start_s: float
    end_s: float
    nodes: list[int]
    state: NodeState
    power_w: float


Spans = Iterator[Span]
Level = tuple[PowerState, tuple[int, ...], int]
"""The power state of a node, how many tasks each of its processors has, and its kind."""


def node_spans(platform: Platform, recording: Recording, start_s: float, end_s: float) -> Spans:
    """Yield the states of all nodes from `start_s` to `end_s`, by the time they end.

    Power follows from the power states and from which tasks ran where, so it need not be
    recorded: the starts and ends of the jobs are played once more on an empty cluster. Every
    node is in just one span at any time; the integral of their power is the energy of the run.
    """
    cluster = Cluster(platform, start_s, recording.kinds)
    nodes = range(platform.node_count)
    since_s = [start_s] * len(nodes)
    kinds = cluster.group_of
    level: list[Level] = [
        ("on", tasks, kind) for tasks, kind in zip(cluster.levels(nodes), kinds, strict=True)
    ]

    def close(touched: Iterable[int], powered: dict[int, PowerState], now_s: float) -> Spans:
        ordered = sorted(touched)
        changed = []
        for node, tasks in zip(ordered, cluster.levels(ordered), strict=True):
            new = (powered.get(node, level[node][0]), tasks, kinds[node])
            if new != level[node] or now_s == end_s:
                changed.append((node, new))
        for members in _alike([node for node, _ in changed], since_s, level):
            first = members[0]
            if now_s > since_s[first]:
                power, tasks, kind = level[first]
                power_w = cluster.meters[kind].node_power_w(power, tasks)
                yield Span(since_s[first], now_s, members, _state(level[first]), power_w)
        for node, new in changed:
            since_s[node], level[node] = now_s, new

    for now_s, changes, powered, turned in replay(cluster, recording):
        if now_s < end_s:
            touched = {node for change in changes for part in change.parts for node in part.nodes}
            yield from close(touched | powered.keys() | turned, powered, now_s)
    yield from close(nodes, {}, end_s)


def _state(level: Level) -> NodeState:
    power, tasks, _ = level
    if power != "on":
        return power
    return "computing" if any(tasks) else "idle"


def _alike(nodes: list[int], since_s: list[float], level: list[Level]) -> Iterable[list[int]]:
    """Return the nodes apart: equal ones, at one level since one time, are together."""
    together: dict[tuple[float, Level], list[int]] = {}
    for node in nodes:
        together.setdefault((since_s[node], level[node]), []).append(node)
    return together.values()
