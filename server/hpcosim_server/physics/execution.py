"""How long jobs run on the nodes they were given, alone and beside others."""

from __future__ import annotations

from typing import Any

from hpcosim_protocol import Platform, bandwidth_mbps
from hpcosim_server.physics.cluster import Part, places
from hpcosim_server.physics.contention import Share, SharedProcessor, check_contention
from hpcosim_workloads.table import JobSpec


class Execution:
    """How long jobs run: known at the start of a job that runs alone, not of one that shares.

    Jobs share the memory bandwidth of a processor. Only jobs that have operations take part, and
    only those with a task on a processor that has contention constants. The cost of an event on a
    processor is proportional to the jobs on that processor.

    Args:
        platform: the cluster.
        reference_ghz: the clock at which the run times of jobs without operations hold, GHz, at
            one operation a cycle; None: they hold on every node.

    Raises:
        ValueError: the contention of a processor can't be modelled.
    """

    def __init__(self, platform: Platform, reference_ghz: float | None) -> None:
        processors = [processor for group in platform.nodes for processor in group.processors]
        for processor in processors:
            check_contention(processor)
        self._reference_ghz = reference_ghz
        self._contended = any(processor.contention is not None for processor in processors)
        self._processors: dict[tuple[int, int], SharedProcessor] = {}

    def run_time_s(self, job: JobSpec, parts: list[Part]) -> float:
        """Return the run time of a job that nothing slows down, in seconds.

        It ends when its last task does, so the slowest core it has counts.
        """
        if job.ops == 0.0 and self._reference_ghz is None:
            return job.run_s
        return self._alone_s(job, _slowest_ops_per_s(parts))

    def is_shared(self, job: JobSpec, parts: list[Part]) -> bool:
        """Tell whether other jobs may slow this one down, or it them."""
        return (
            self._contended
            and (job.ops > 0.0 or (self._reference_ghz is not None and job.run_s > 0.0))
            and any(processor.contention is not None for _, processor, _, _ in places(parts))
        )

    def start(
        self, now_s: float, job: Any, spec: JobSpec, parts: list[Part]
    ) -> list[SharedProcessor]:
        """Let a job that shares begin, and return the processors it runs on."""
        touched = []
        for slot, processor, node, tasks in places(parts):
            shared = self._processors.get((slot, node))
            if shared is None:
                shared = self._processors[slot, node] = SharedProcessor(processor)
            alone_s = self._alone_s(spec, processor.ops_per_s)
            mbps = bandwidth_mbps(spec.memory_volume_mb, alone_s)
            shared.add(now_s, Share(job, tasks, alone_s, mbps))
            touched.append(shared)
        return touched

    def _alone_s(self, job: JobSpec, ops_per_s: float) -> float:
        """Return how long a task takes on such a core at full speed, s."""
        if job.ops or self._reference_ghz is None:
            return job.ops / ops_per_s
        return job.run_s * (self._reference_ghz * 1e9 / ops_per_s)


def _slowest_ops_per_s(parts: list[Part]) -> float:
    return min(
        processor.ops_per_s
        for part in parts
        for processor, column in zip(part.meter.processors, part.by_processor, strict=True)
        if any(column)
    )
