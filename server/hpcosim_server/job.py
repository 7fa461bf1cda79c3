"""A job of the simulation, while it waits or runs."""

from __future__ import annotations

import math

from hpcosim_protocol import JobState
from hpcosim_server.clock import Timer
from hpcosim_server.cluster import Part
from hpcosim_server.execution import SharedProcessor
from hpcosim_server.workload.table import JobSpec


class Job:
    """A job that waits or runs.

    Attributes:
        spec: what the workload says of it.
        row: its row in the recording.
        state: what it will be when its end comes.
        started_s: when it started; NaN: it waits.
        nodes, tasks: the nodes it runs on, and how many of its tasks on each.
        parts: what it holds of the cluster.
        end: the timer of its end, or of its requested time, if it has one.
        shared: the processors it runs on, where others may slow it down.
        shares_left: on how many of these it still has work to do.
    """

    __slots__ = (
        "end",
        "nodes",
        "parts",
        "row",
        "shared",
        "shares_left",
        "spec",
        "started_s",
        "state",
        "tasks",
    )

    def __init__(self, spec: JobSpec, row: int) -> None:
        self.spec = spec
        self.row = row
        self.state: JobState = "completed"
        self.started_s = math.nan
        self.nodes: list[int] = []
        self.tasks: list[int] = []
        self.parts: list[Part] = []
        self.end: Timer | None = None
        self.shared: list[SharedProcessor] = []
        self.shares_left = 0
