"""The recorded changes of jobs and nodes, played once more on an empty cluster."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from hpcosim_protocol import PowerState
from hpcosim_server.physics.cluster import Cluster, Part
from hpcosim_server.record.recording import POWER_STATES, Recording

What = int | tuple[int, PowerState] | tuple[int, int]
"""A code of `Recording.changes`, or a node and the power state or the kind it entered."""


class Change(NamedTuple):
    """A job started or ended.

    Attributes:
        row: the job's in the recording.
        starts: it started.
        parts: where its tasks run, or did.
    """

    row: int
    starts: bool
    parts: list[Part]


class Instant(NamedTuple):
    """All that changed at one time, the cluster brought to just after it.

    Attributes:
        time_s: when.
        changes: the jobs that started or ended, in order.
        powered: the nodes that entered a power state, with the last they entered.
        turned: the nodes that were turned into another kind.
    """

    time_s: float
    changes: list[Change]
    powered: dict[int, PowerState]
    turned: set[int]


def replay(cluster: Cluster, recording: Recording) -> Iterator[Instant]:
    """Yield every instant at which something changed, in order.

    Args:
        cluster: of the recording's platform and kinds, at its start.
        recording: what happened.
    """
    running: dict[int, list[Part]] = {}
    events = merge(_jobs(recording), _powers(recording), key=itemgetter(0))
    for time_s, together in groupby(events, key=itemgetter(0)):
        instant = Instant(time_s, [], {}, set())
        for _, what in together:
            if isinstance(what, int):
                instant.changes.append(_apply(what, time_s, cluster, recording, running))
                continue
            node, state = what
            if isinstance(state, int):
                cluster.turn_into(time_s, node, state)
                instant.turned.add(node)
            else:
                instant.powered[node] = state
        yield instant


def _apply(
    code: int, now_s: float, cluster: Cluster, recording: Recording, running: dict[int, list[Part]]
) -> Change:
    if code >= 0:
        nodes, tasks = recording.nodes_of(code), recording.tasks_of(code)
        running[code] = cluster.occupy(now_s, nodes, tasks)
        return Change(code, True, running[code])
    parts = running.pop(~code)
    cluster.vacate(now_s, parts)
    return Change(~code, False, parts)


def _jobs(recording: Recording) -> Iterator[tuple[float, What]]:
    """Yield when each start or end came, and its code in `Recording.changes`.

    Between them, where they came, are the changes of nodes' kinds.
    """
    turns = zip(
        recording.turned_at,
        recording.turned_s,
        recording.turned_node,
        recording.turned_kind,
        strict=True,
    )
    turn = next(turns, None)
    for at, code in enumerate((*recording.changes, None)):
        while turn is not None and turn[0] == at:
            yield turn[1], turn[2:]
            turn = next(turns, None)
        if code is not None:
            yield (recording.start_s[code] if code >= 0 else recording.end_s[~code]), code


def _powers(recording: Recording) -> Iterator[tuple[float, What]]:
    columns = zip(recording.power_s, recording.power_node, recording.power_state, strict=True)
    for time_s, node, state in columns:
        yield time_s, (node, POWER_STATES[state])
