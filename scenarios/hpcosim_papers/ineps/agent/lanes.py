"""Simulation of a node whose waiting jobs are planned in lanes.

A lane is a sequence of jobs that run one after the other. Several lanes of a node run side by side,
so a plan says not only where each job runs, but also which jobs share the memory bandwidth. A job
starts once it is submitted, the job before it in its lane has ended, and its cores are free; of
several such jobs, that of the first lane starts first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from hpcosim_papers.ineps.agent.sharing import Load, speeds_of
from hpcosim_protocol import Contention


class NodeType(NamedTuple):
    """The properties of a node that its schedule depends on.

    Attributes:
        cores: number of cores.
        model: the contention model; None: no contention.
        computing_w: power of the node with a job beyond its idle power, without cores, in W.
        core_w: power of a core with a task, in W.
    """

    cores: int
    model: Contention | None
    computing_w: float
    core_w: float


class Work(NamedTuple):
    """A job on a type of nodes.

    Attributes:
        load: cores and bandwidth that it needs.
        alone_s: run time without contention, in seconds.
    """

    load: Load
    alone_s: float


class Running(NamedTuple):
    """A job that runs, the head of a lane.

    Attributes:
        load: cores and bandwidth that it needs.
        left_s: remaining work, in seconds at full speed.
    """

    load: Load
    left_s: float


Lanes = tuple[tuple[int, ...], ...]
"""The planned jobs of a node, by lane, as indices of `works`. The first lanes continue those of the
running jobs, which are not listed; such a lane can be empty."""


class LaneRun(NamedTuple):
    """The schedule of a node.

    Attributes:
        end_s: end of the last job, simulated seconds; minus infinity: there is none.
        extra_j: energy of the node beyond its idle power from now on, in J.
    """

    end_s: float
    extra_j: float


EMPTY = LaneRun(-math.inf, 0.0)


def run_lanes(
    node: NodeType,
    now_s: float,
    running: Sequence[Running],
    lanes: Lanes,
    works: Sequence[Work],
    submits_s: Sequence[float],
    starts_s: dict[int, float] | None = None,
) -> LaneRun:
    """Simulate a node.

    Args:
        node: the node.
        now_s: simulated time, in seconds.
        running: the jobs that run, one for each of the first lanes.
        lanes: the planned jobs of each lane, indices of `works`; a running job is not listed.
        works: the jobs on this node.
        submits_s: their submissions, simulated seconds.
        starts_s: gets the start of each planned job, by index, simulated seconds.

    Raises:
        ValueError: a job has more cores than the node.
    """
    run = _LanesRunning(node, now_s, running, lanes)
    while True:
        wake_s = run.start(works, submits_s, starts_s)
        if run.going:
            run.go_on(wake_s)
        elif wake_s < math.inf:
            run.now_s = wake_s
        elif run.waiting:
            raise ValueError("a job has more cores than its node")
        else:
            return LaneRun(run.end_s, node.computing_w * run.busy_s + node.core_w * run.core_s)


class _LanesRunning:
    """The state of a simulation of a node."""

    __slots__ = (
        *("after", "busy_s", "core_s", "end_s", "free", "going", "lanes", "left", "loads", "node"),
        *("now_s", "waiting"),
    )

    def __init__(
        self, node: NodeType, now_s: float, running: Sequence[Running], lanes: Lanes
    ) -> None:
        self.node, self.lanes, self.now_s = node, lanes, now_s
        self.going = list(range(len(running)))  # lane of each running job
        self.loads = [job.load for job in running]
        self.left = [job.left_s for job in running]
        self.free = node.cores - sum(load.cores for load in self.loads)
        self.after = [0] * len(lanes)  # number of started jobs of each lane
        self.waiting = [place for place in range(len(running), len(lanes)) if lanes[place]]
        self.busy_s = self.core_s = 0.0
        self.end_s = -math.inf

    def start(
        self,
        works: Sequence[Work],
        submits_s: Sequence[float],
        starts_s: dict[int, float] | None,
    ) -> float:
        """Start all jobs that can; return the next submission of a job that is first in a lane."""
        wake_s, still = math.inf, []
        for place in self.waiting:
            job = self.lanes[place][self.after[place]]
            load, alone_s = works[job]
            if submits_s[job] > self.now_s:
                wake_s = min(wake_s, submits_s[job])
                still.append(place)
            elif load.cores > self.free:
                still.append(place)
            else:
                self.free -= load.cores
                self.after[place] += 1
                self.going.append(place)
                self.loads.append(load)
                self.left.append(alone_s)
                if starts_s is not None:
                    starts_s[job] = self.now_s
        self.waiting = still
        return wake_s

    def go_on(self, wake_s: float) -> None:
        """Advance to the next end, at most to `wake_s`."""
        speeds = speeds_of(self.node.model, self.loads) or [1.0] * len(self.loads)
        step_s = wake_s - self.now_s
        for rest_s, speed in zip(self.left, speeds, strict=True):
            step_s = min(step_s, rest_s / speed)
        self.now_s += step_s
        self.busy_s += step_s
        self.core_s += step_s * (self.node.cores - self.free)
        before = zip(self.going, self.loads, self.left, speeds, strict=True)
        self.going, self.loads, self.left = [], [], []
        for place, load, rest_s, speed in before:
            rest_s -= speed * step_s
            if rest_s > 1e-9 * self.now_s:
                self.going.append(place)
                self.loads.append(load)
                self.left.append(rest_s)
            else:
                self._end(place, load.cores)
        self.waiting.sort()

    def _end(self, place: int, cores: int) -> None:
        self.free += cores
        self.end_s = self.now_s
        if place < len(self.lanes) and self.after[place] < len(self.lanes[place]):
            self.waiting.append(place)


# Changes of the lanes of a node. A place is the position of a job, counted over all lanes.


def size(lanes: Lanes) -> int:
    """Return the number of planned jobs."""
    return sum(map(len, lanes))


def lane_at(lanes: Lanes, place: int) -> tuple[int, int]:
    """Return the lane of a place, and the position in it."""
    for number, lane in enumerate(lanes):
        if place < len(lane):
            return number, place
        place -= len(lane)
    raise IndexError("place outside the lanes")


def without(lanes: Lanes, place: int, running: int) -> tuple[Lanes, int]:
    """Remove the job at a place; return the lanes and the job.

    Args:
        lanes: the lanes.
        place: the place.
        running: number of running jobs; their lanes stay when they become empty.
    """
    number, at = lane_at(lanes, place)
    lane = lanes[number]
    rest = lane[:at] + lane[at + 1 :]
    kept = (rest,) if rest or number < running else ()
    return (*lanes[:number], *kept, *lanes[number + 1 :]), lane[at]


def within(lanes: Lanes, job: int, number: int, at: int) -> Lanes:
    """Insert a job at a position of a lane; the lane after the last one is new."""
    if number == len(lanes):
        return (*lanes, (job,))
    lane = lanes[number]
    return (*lanes[:number], (*lane[:at], job, *lane[at:]), *lanes[number + 1 :])


def replaced(lanes: Lanes, place: int, job: int) -> Lanes:
    """Replace the job at a place."""
    number, at = lane_at(lanes, place)
    lane = lanes[number]
    new = (*lane[:at], job, *lane[at + 1 :])
    return (*lanes[:number], new, *lanes[number + 1 :])


def job_at(lanes: Lanes, place: int) -> int:
    """Return the job at a place."""
    number, at = lane_at(lanes, place)
    return lanes[number][at]
