"""A job of the simulation, while it waits or runs."""

from __future__ import annotations

import math

from hpcosim_protocol import JobState
from hpcosim_server.engine.clock import Timer
from hpcosim_server.physics.cluster import Part
from hpcosim_server.physics.execution import SharedProcessor
from hpcosim_workloads.table import JobSpec


class Job:
    """A job that waits or runs.

    Attributes:
        spec: what the workload says of it.
        row: its row in the recording.
        state: what it will be when its end comes.
        allocated_s: when it was given its nodes; NaN: it waits.
        started_s: when it started; NaN: it has not.
        nodes, tasks: the nodes it runs on, and how many of its tasks on each.
        held: how many cores it holds of each of these.
        parts: where its tasks run; empty before it starts.
        off: how many of its nodes are not on yet.
        end: the timer of its end, or of its requested time, if it has one.
        shared: the processors it runs on, where others may slow it down.
        shares_left: on how many of these it still has work to do.
    """

    __slots__ = (
        "allocated_s",
        "end",
        "held",
        "nodes",
        "off",
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
        self.allocated_s = math.nan
        self.started_s = math.nan
        self.nodes: list[int] = []
        self.tasks: list[int] = []
        self.held: list[int] = []
        self.parts: list[Part] = []
        self.off = 0
        self.end: Timer | None = None
        self.shared: list[SharedProcessor] = []
        self.shares_left = 0
