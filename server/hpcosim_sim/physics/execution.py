"""Run times of jobs on their allocations, with and without memory contention."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import astuple

from hpcosim_protocol import Platform, Processor, bandwidth_mbps, task_speed
from hpcosim_sim.physics.cluster import AllocationPart, places
from hpcosim_workloads.table import JobSpec

Place = tuple[int, int, int]
"""Slot of a processor, node, and number of tasks there."""


class Execution:
    """The model of run times.

    The run time of a job without contention is known at its start. Jobs contend for the memory
    bandwidth of a processor with contention constants. A job without operations contends only if
    there is a reference clock. An event on a processor costs time proportional to the number of
    jobs there.

    Args:
        reference_ghz: clock at which the run times of jobs without operations hold, GHz, at one
            operation per cycle; None: these run times hold on every node.

    Attributes:
        contends: whether any processor has contention constants.

    Raises:
        ValueError: the contention constants of a processor are invalid (`check_contention`).
    """

    def __init__(self, platform: Platform, reference_ghz: float | None) -> None:
        processors = [processor for group in platform.nodes for processor in group.processors]
        for processor in processors:
            check_contention(processor)
        self._reference_ghz = reference_ghz
        self.contends = any(processor.contention is not None for processor in processors)
        self._processors: dict[tuple[int, int], SharedProcessor] = {}

    def run_time_s(self, job: JobSpec, parts: list[AllocationPart]) -> float:
        """Return the run time of a job without contention, s.

        A job ends with its last task, so the slowest core of the allocation determines the time.
        """
        if job.ops == 0.0 and self._reference_ghz is None:
            return job.run_s
        return self._alone_s(job, _slowest_ops_per_s(parts))

    def is_shared(self, job: JobSpec, parts: list[AllocationPart]) -> bool:
        """Return whether the job may contend with other jobs on this allocation."""
        return (
            self.contends
            and (job.ops > 0.0 or (self._reference_ghz is not None and job.run_s > 0.0))
            and any(processor.contention is not None for _, processor, _, _ in places(parts))
        )

    def start(
        self,
        now_s: float,
        job: Any,
        spec: JobSpec,
        parts: list[AllocationPart],
        left_on: Callable[[Place, float], float] | None = None,
    ) -> list[SharedProcessor]:
        """Start a job for which `is_shared` is true and return its processors.

        Args:
            left_on: returns the work on a place whose cores need a time for the whole job, s;
                None: the whole job.
        """
        touched = []
        for slot, processor, node, tasks in places(parts):
            shared = self._processors.get((slot, node))
            if shared is None:
                shared = self._processors[slot, node] = SharedProcessor(processor)
            alone_s = self._alone_s(spec, processor.ops_per_s)
            mbps = bandwidth_mbps(spec.memory_volume_mb, alone_s)
            left_s = alone_s if left_on is None else left_on((slot, node, tasks), alone_s)
            shared.add(now_s, ProcessorShare(job, tasks, left_s, mbps))
            touched.append(shared)
        return touched

    def left_at(
        self, now_s: float, job: Any, spec: JobSpec, parts: list[AllocationPart]
    ) -> dict[Place, tuple[float, float]]:
        """Return the work that is left of a job that `start` started.

        Returns:
            Remaining work, s at full speed, and run time of the whole job on cores of this speed,
            s, by place.
        """
        return {
            (slot, node, tasks): (
                self._processors[slot, node].left_s(now_s, job),
                self._alone_s(spec, processor.ops_per_s),
            )
            for slot, processor, node, tasks in places(parts)
        }

    def _alone_s(self, job: JobSpec, ops_per_s: float) -> float:
        """Return the run time of a task at full speed on a core of this speed, s."""
        if job.ops or self._reference_ghz is None:
            return job.ops / ops_per_s
        return job.run_s * (self._reference_ghz * 1e9 / ops_per_s)


def _slowest_ops_per_s(parts: list[AllocationPart]) -> float:
    return min(
        processor.ops_per_s
        for part in parts
        for processor, column in zip(part.meter.processors, part.by_processor, strict=True)
        if any(column)
    )


def check_contention(processor: Processor) -> None:
    """Check that the contention model is defined for the processor's number of cores.

    Each further task lowers the limit `dc_mbps - k * dd_mbps` of a task. With a limit of 0 or
    less, the model would predict no contention.

    Raises:
        ValueError: the limit is 0 or less for some number of tasks, or a constant is not finite.
    """
    model = processor.contention
    if model is None:
        return
    if not all(map(math.isfinite, astuple(model))):
        raise ValueError("contention: a constant is not finite; expected finite numbers")
    for others in (0, processor.cores - 1):
        limit_mbps = model.dc_mbps - others * model.dd_mbps
        if limit_mbps <= 0.0:
            raise ValueError(
                f"contention: dc_mbps - k * dd_mbps is {limit_mbps:g} for k = {others} other "
                f"tasks; expected above 0 for every k on a processor of {processor.cores} cores"
            )


class ProcessorShare:
    """The tasks of one job on one processor. They have the same demand, speed and end.

    Attributes:
        mbps: memory bandwidth demand of each task, MB/s.
        since_s: simulation time of the last change of `left_s` and `speed`, s.
        left_s: remaining work of each task at `since_s`, in seconds at full speed.
        speed: fraction of the full speed since `since_s`, 0 to 1; 0: not set yet.
        end_s: simulation time at which the work is done at this speed, s; infinity: it is done.
    """

    __slots__ = ("end_s", "job", "left_s", "mbps", "since_s", "speed", "tasks")

    def __init__(self, job: Any, tasks: int, alone_s: float, mbps: float) -> None:
        self.job = job
        self.tasks = tasks
        self.mbps = mbps
        self.left_s = alone_s
        self.since_s = 0.0
        self.speed = 0.0
        self.end_s = 0.0

    def has_work_left(self, now_s: float) -> bool:
        """Return whether the tasks have work left after `now_s`."""
        return self.speed == 0.0 or now_s < self.end_s < math.inf


class SharedProcessor:
    """A processor of one node with the remaining work of its tasks.

    Speeds change when tasks start and when cores are released. They stay when some tasks end
    before the others of their job (Lopez, Stafford, Bosque 2025, section 3.1). A share whose speed
    stays is not recomputed, so the end of a job without slowdown has no rounding error.

    Attributes:
        next_end_s: simulation time at which the next share ends, s; infinity: none.
        timer: timer of the engine for `next_end_s`.
    """

    def __init__(self, processor: Processor) -> None:
        self._model = processor.contention
        self._shares: list[ProcessorShare] = []
        self.next_end_s = math.inf
        self.timer: Any = None

    def add(self, now_s: float, share: ProcessorShare) -> None:
        """Start the tasks of a share."""
        share.since_s = now_s
        self._shares.append(share)
        self._set_speeds(now_s)

    def remove(self, now_s: float, job: Any) -> None:
        """Remove the share of a job, whether its work is done or not."""
        self._shares = [share for share in self._shares if share.job is not job]
        self._set_speeds(now_s)

    def left_s(self, now_s: float, job: Any) -> float:
        """Return the remaining work of each task of a job, in seconds at full speed."""
        share = next(share for share in self._shares if share.job is job)
        if not share.has_work_left(now_s):
            return 0.0
        return max(share.left_s - share.speed * (now_s - share.since_s), 0.0)

    def end_due(self, now_s: float) -> list[ProcessorShare]:
        """Mark the shares that end by `now_s` as done and return them.

        They keep their cores until `remove`.
        """
        due = [share for share in self._shares if share.end_s <= now_s]
        for share in due:
            share.end_s = math.inf
        self._update_next_end()
        return due

    def _set_speeds(self, now_s: float) -> None:
        for share, speed in zip(self._shares, self._speeds(now_s), strict=True):
            if share.speed == speed or (share.speed and not share.has_work_left(now_s)):
                continue
            left_s = share.left_s - share.speed * (now_s - share.since_s)
            share.left_s, share.since_s, share.speed = max(left_s, 0.0), now_s, speed
            share.end_s = now_s + share.left_s / speed
        self._update_next_end()

    def _speeds(self, now_s: float) -> Iterator[float]:
        model = self._model
        total_mbps = 0.0  # added one by one: since Python 3.12 `sum` has another last digit
        for share in self._shares:
            total_mbps += share.mbps * share.tasks
        if model is None or total_mbps < model.c_mbps:
            yield from (1.0 for _ in self._shares)
            return
        active = sum(share.tasks for share in self._shares if share.has_work_left(now_s))
        known: dict[float, float] = {}  # tasks of equal demand have equal speed
        for share in self._shares:
            if share.mbps not in known:
                known[share.mbps] = task_speed(model, total_mbps, share.mbps, max(active, 1))
            yield known[share.mbps]

    def _update_next_end(self) -> None:
        self.next_end_s = min((share.end_s for share in self._shares), default=math.inf)
