"""Forecast of a node: the ends of its jobs under memory contention, and the cost of one more job.

Waiting jobs may be planned on the node in lanes; `Lanes` simulates it with them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from hpcosim_client.job import Job
from hpcosim_protocol import Contention, NodeGroup, bandwidth_mbps, task_speed

# A job that overruns its request is expected to need this share of its run time more.
LATE = 0.01


class Kind(NamedTuple):
    """The properties of a job that a forecast uses. Jobs of one kind are interchangeable.

    The fields are those of `Job`.
    """

    cores: int
    requested_s: float
    memory_volume_mb: float
    max_energy_j: float


def kind_of(job: Job) -> Kind:
    """Return the kind of a job."""
    return Kind(job.cores, job.requested_s, job.memory_volume_mb, job.max_energy_j)


class Option(NamedTuple):
    """Forecast of a job that starts on a node as soon as it fits.

    Attributes:
        extra_j: additional energy of the node, in J.
        delay_s: delay of the ends of the node's other jobs, summed, in seconds.
    """

    start_s: float
    end_s: float
    extra_j: float
    delay_s: float


class ForecastJob:
    """A job on a node.

    Attributes:
        alone_s: run time on this node without contention, in seconds.
        left_s: remaining work at the last update, in seconds at full speed.
        end_s: forecast of its end, simulated seconds.
    """

    __slots__ = ("alone_s", "end_s", "job_id", "kind", "left_s", "load")

    def __init__(self, job_id: int, kind: Kind, load: Load, alone_s: float) -> None:
        self.job_id = job_id
        self.kind = kind
        self.load = load
        self.alone_s = self.left_s = alone_s
        self.end_s = math.inf


class ForecastNode:
    """A node and the jobs on it.

    Attributes:
        type: the properties that a plan of the node depends on.
        busy_until_s: forecast of the end of its last job, simulated seconds; minus infinity: idle.
    """

    def __init__(self, group: int, node: NodeGroup, slowest_ops_per_s: float) -> None:
        self.group = group
        self.cores = node.cores
        self.shares: list[ForecastJob] = []
        self.state: tuple[object, ...] = (group,)
        self.busy_until_s = -math.inf
        self._slowness = slowest_ops_per_s / node.ops_per_s
        processors = node.processors
        self._model = processors[0].contention if len(processors) == 1 else None
        self._computing_w = sum(p.static_w * (1.0 - p.idle_fraction) for p in processors)
        self._core_w = node.dynamic_w
        self.type = NodeType(node.cores, self._model, self._computing_w, self._core_w)
        self._since_s = 0.0
        self._options: dict[Kind, tuple[float, Option]] = {}  # with the time of the forecast

    def add(self, now_s: float, job_id: int, kind: Kind) -> None:
        """Add a job that starts."""
        self._go_on(now_s)
        self.shares.append(ForecastJob(job_id, kind, *self._demand(kind)))
        self._look_ahead()

    def remove(self, now_s: float, job_id: int) -> None:
        """Remove a job that ended."""
        self._go_on(now_s)
        self.shares = [share for share in self.shares if share.job_id != job_id]
        self._look_ahead()

    def late(self, now_s: float) -> bool:
        """Return whether a job overruns its forecast end."""
        return any(share.end_s < now_s for share in self.shares)

    def look_again(self, now_s: float) -> None:
        """Update the forecast from the remaining work."""
        self._go_on(now_s)
        self._look_ahead()

    def option(self, now_s: float, free: int, kind: Kind) -> Option | None:
        """Return the forecast of a job of a kind on this node; None: it has too few cores."""
        if kind.cores > self.cores:
            return None
        at_s, known = self._options.get(kind, (-1.0, None))
        if known is not None and (at_s == now_s or known.start_s > now_s):
            return known
        option = self._option(now_s, free, kind)
        self._options[kind] = (now_s, option)
        return option

    def remaining(self, now_s: float) -> list[float]:
        """Return the remaining work of each job, in seconds at full speed."""
        left = [share.left_s for share in self.shares]
        run_on(self._model, self._since_s, [share.load for share in self.shares], left, now_s)
        return [rest or LATE * share.alone_s for rest, share in zip(left, self.shares, strict=True)]

    def work(self, kind: Kind) -> Work:
        """Return a job of a kind on this node."""
        load, alone_s = self._demand(kind)
        return Work(load, alone_s)

    def requested_mbps(self) -> float:
        """Return the bandwidth that all tasks of the node need, in MB/s."""
        total_mbps = 0.0
        for share in self.shares:  # `sum` rounds otherwise from Python 3.12 on
            total_mbps += share.load.cores * share.load.mbps
        return total_mbps

    def _demand(self, kind: Kind) -> tuple[Load, float]:
        """Return the load of a job of a kind, and its run time without contention, in seconds."""
        alone_s = kind.requested_s * self._slowness
        mbps = bandwidth_mbps(kind.memory_volume_mb, alone_s) if alone_s else 0.0
        return Load(kind.cores, mbps), alone_s

    def _option(self, now_s: float, free: int, kind: Kind) -> Option:
        start_s = self._start_s(now_s, free, kind.cores)
        load, alone_s = self._demand(kind)
        shares = self.shares
        left = [share.left_s for share in shares]
        run_on(self._model, self._since_s, [share.load for share in shares], left, start_s)
        there = [
            place
            for place, share in enumerate(shares)
            if left[place] > 0.0 and (share.end_s > start_s)
        ]
        loads = [shares[place].load for place in there]
        ends_s = run_on(
            self._model, start_s, [*loads, load], [*(left[place] for place in there), alone_s]
        )
        core_s, delay_s = kind.cores * (ends_s[-1] - start_s), 0.0
        for place, end_s in zip(there, ends_s, strict=False):
            later_s = end_s - shares[place].end_s
            core_s += shares[place].load.cores * later_s
            delay_s += later_s
        busy_s = max(ends_s) - max(self.busy_until_s, start_s)
        extra_j = self._computing_w * max(busy_s, 0.0) + self._core_w * core_s
        return Option(start_s, ends_s[-1], extra_j, max(delay_s, 0.0))

    def _start_s(self, now_s: float, free: int, cores: int) -> float:
        if cores <= free:
            return now_s
        for share in sorted(self.shares, key=lambda share: share.end_s):
            free += share.load.cores
            if cores <= free:
                return max(share.end_s, now_s)
        return now_s

    def _go_on(self, now_s: float) -> None:
        """Advance the tasks to `now_s`."""
        shares = self.shares
        left = [share.left_s for share in shares]
        run_on(self._model, self._since_s, [share.load for share in shares], left, now_s)
        for share, left_s in zip(shares, left, strict=True):
            share.left_s = left_s or LATE * share.alone_s
        self._since_s = now_s

    def _look_ahead(self) -> None:
        shares = self.shares
        left = [share.left_s for share in shares]
        ends_s = run_on(self._model, self._since_s, [share.load for share in shares], left)
        for share, end_s in zip(shares, ends_s, strict=True):
            share.end_s = end_s
        self.busy_until_s = max(ends_s, default=-math.inf)
        self.state = (self.group, *sorted((share.end_s, share.kind) for share in shares))
        self._options.clear()


class NodeType(NamedTuple):
    """The properties of a node that its schedule depends on.

    Attributes:
        model: the contention model; None: no contention.
        computing_w: power of the node with a job beyond its idle power, without cores, in W.
        core_w: power of a core with a task, in W.
    """

    cores: int
    model: Contention | None
    computing_w: float
    core_w: float


class Work(NamedTuple):
    """A job on a type of nodes."""

    load: Load
    alone_s: float


class Running(NamedTuple):
    """A job that runs, the head of a lane."""

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
        running: the jobs that run, one for each of the first lanes.
        lanes: the planned jobs of each lane, indices of `works`; a running job is not listed.
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


class Load(NamedTuple):
    """Cores and bandwidth that a running job needs."""

    cores: int
    mbps: float


def run_on(
    model: Contention | None,
    now_s: float,
    loads: Sequence[Load],
    left_s: list[float],
    until_s: float = math.inf,
) -> list[float]:
    """Simulate jobs that share a processor, and return their ends; infinity: after `until_s`.

    Args:
        left_s: remaining work of each job, in seconds at full speed; updated to `until_s` in place.
    """
    ends_s = [math.inf if left > 0.0 else now_s for left in left_s]
    going = [place for place, left in enumerate(left_s) if left > 0.0]
    while going and now_s < until_s:
        speeds = speeds_of(model, [loads[place] for place in going])
        step_s = until_s - now_s
        if speeds is None:  # there is no contention with fewer jobs either
            for place in going:
                if left_s[place] <= step_s:
                    ends_s[place] = now_s + left_s[place]
                    left_s[place] = 0.0
                else:
                    left_s[place] -= step_s
            break
        for place, speed in zip(going, speeds, strict=True):
            step_s = min(step_s, left_s[place] / speed)
        now_s += step_s
        for place, speed in zip(going, speeds, strict=True):
            left = left_s[place] - speed * step_s
            if left <= 1e-9 * now_s:
                left, ends_s[place] = 0.0, now_s
            left_s[place] = left
        going = [place for place in going if left_s[place] > 0.0]
    return ends_s


def speeds_of(model: Contention | None, loads: Sequence[Load]) -> list[float] | None:
    """Return the speed of each job relative to full speed; None: all run at full speed."""
    if model is None:
        return None
    total_mbps, tasks = 0.0, 0
    for cores, mbps in loads:
        total_mbps += cores * mbps
        tasks += cores
    if total_mbps < model.c_mbps:
        return None
    known: dict[float, float] = {}
    for _, mbps in loads:
        if mbps not in known:
            known[mbps] = task_speed(model, total_mbps, mbps, tasks)
    return [known[mbps] for _, mbps in loads]
