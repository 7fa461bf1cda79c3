"""How long jobs run on the nodes they were given, alone and beside others."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from hpcosim_protocol import Platform, Processor, bandwidth_mbps, task_speed
from hpcosim_server.physics.cluster import Part, places
from hpcosim_server.physics.contention import check_contention
from hpcosim_workloads.table import JobSpec


class Share:
    """The tasks of one job on one processor, all alike.

    Attributes:
        job: whose they are.
        tasks: how many.
        mbps: bandwidth each asks for, MB/s.
        left_s: how much each had left to do at `since_s`, in seconds at full speed.
        speed: share of the full speed it has had since.
        end_s: when it will have none left, at that speed; infinity: it has ended.
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
        """Tell whether its tasks have operations left; those that end just now have none."""
        return self.speed == 0.0 or now_s < self.end_s < math.inf


class SharedProcessor:
    """A processor of one node, and the work its tasks have left.

    Speeds change when tasks come or their cores are released, not when some end before the
    others of their job (Lopez et al. 2025, section 3.1). A share whose speed stays as it was
    is left alone, so a job that nothing slows ends to the bit where it would alone.

    Attributes:
        next_end_s: when the next share ends; infinity: never.
        timer: for whoever makes time pass.
    """

    def __init__(self, processor: Processor) -> None:
        self._model = processor.contention
        self._shares: list[Share] = []
        self.next_end_s = math.inf
        self.timer: Any = None

    def add(self, now_s: float, share: Share) -> None:
        """Let the tasks of a share begin."""
        share.since_s = now_s
        self._shares.append(share)
        self._set_speeds(now_s)

    def remove(self, now_s: float, job: Any) -> None:
        """Forget the share of a job, ended or not."""
        self._shares = [share for share in self._shares if share.job is not job]
        self._set_speeds(now_s)

    def end_due(self, now_s: float) -> list[Share]:
        """Return the shares that end by now. They stay, idle, until their job is over."""
        due = [share for share in self._shares if share.end_s <= now_s]
        for share in due:
            share.end_s = math.inf
        self._look_ahead()
        return due

    def _set_speeds(self, now_s: float) -> None:
        for share, speed in zip(self._shares, self._speeds(now_s), strict=True):
            if share.speed == speed or (share.speed and not share.has_work_left(now_s)):
                continue
            left_s = share.left_s - share.speed * (now_s - share.since_s)
            share.left_s, share.since_s, share.speed = max(left_s, 0.0), now_s, speed
            share.end_s = now_s + share.left_s / speed
        self._look_ahead()

    def _speeds(self, now_s: float) -> Iterator[float]:
        model = self._model
        total_mbps = sum(share.mbps * share.tasks for share in self._shares)
        if model is None or total_mbps < model.c_mbps:
            yield from (1.0 for _ in self._shares)
            return
        active = sum(share.tasks for share in self._shares if share.has_work_left(now_s))
        known: dict[float, float] = {}  # tasks that ask for the same run at the same speed
        for share in self._shares:
            if share.mbps not in known:
                known[share.mbps] = task_speed(model, total_mbps, share.mbps, max(active, 1))
            yield known[share.mbps]

    def _look_ahead(self) -> None:
        self.next_end_s = min((share.end_s for share in self._shares), default=math.inf)


class Execution:
    """How long jobs run: at once for one that runs by itself, as it goes for those that share.

    Jobs share the memory bandwidth of a processor. Only jobs that have operations take part, and
    only those with a task on a processor that has contention constants. What a processor has to
    do with one event is in proportion to the jobs on it; the others are not looked at.

    Args:
        platform: the cluster.
        reference_ghz: the clock at which the run times of jobs without operations hold, at one
            operation a cycle; None: they hold on every node.

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
            and (job.ops > 0.0 or self._reference_ghz is not None)
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
