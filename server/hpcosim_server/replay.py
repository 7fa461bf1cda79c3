"""The starts and ends of a recording, played once more on an empty cluster."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from hpcosim_server.cluster import Cluster, Part
from hpcosim_server.recording import Recording
from hpcosim_server.workload.table import PLACEMENTS

WHOLE = PLACEMENTS.index("whole_nodes")


class Change(NamedTuple):
    """A job started or ended.

    Attributes:
        row: the job's in the recording.
        starts: it started.
        parts: what it holds of the cluster, or did.
    """

    row: int
    starts: bool
    parts: list[Part]


def replay(cluster: Cluster, recording: Recording) -> Iterator[tuple[float, list[Change]]]:
    """Yield what changed at each instant, in order, the cluster brought to the end of it."""
    running: dict[int, list[Part]] = {}
    now_s, changes = -math.inf, list[Change]()
    for code in recording.changes:
        starts = code >= 0
        row = code if starts else ~code
        time_s = recording.start_s[row] if starts else recording.end_s[row]
        if time_s > now_s:
            if changes:
                yield now_s, changes
            now_s, changes = time_s, []
        if starts:
            whole = recording.placement[row] == WHOLE
            nodes, tasks = recording.nodes_of(row), recording.tasks_of(row)
            running[row] = cluster.occupy(time_s, nodes, tasks, whole)
            changes.append(Change(row, True, running[row]))
        else:
            parts = running.pop(row)
            cluster.vacate(time_s, parts)
            changes.append(Change(row, False, parts))
    if changes:
        yield now_s, changes
