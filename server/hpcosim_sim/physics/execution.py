"""Run times of jobs on their allocations, with and without contention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcosim_protocol import Platform, bandwidth_mbps
from hpcosim_sim.physics.cluster import AllocationPart, places
from hpcosim_sim.physics.contention import ProcessorShare, SharedProcessor, check_contention
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
        platform: description of the cluster.
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
            now_s: simulation time, s.
            job: the job, for the shares of the processors.
            spec: the job as the workload describes it.
            parts: placement of the tasks.
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
