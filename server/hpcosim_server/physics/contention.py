"""How tasks slow each other down that share the memory bandwidth of a processor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from msgspec.structs import astuple

from hpcosim_protocol import Processor, task_speed


def check_contention(processor: Processor) -> None:
    """Check that the model of contention holds for a processor with this number of cores.

    With every further task a task's limit falls by `dd_mbps`; once it is 0 or less, contention
    would vanish where it should be worst.

    Raises:
        ValueError: the limit falls to 0 or below, or a constant is not finite.
    """
    model = processor.contention
    if model is None:
        return
    if not all(map(math.isfinite, astuple(model))):
        raise ValueError("contention can't be modelled with constants that are not finite")
    for others in (0, processor.cores - 1):
        width_mbps = model.dc_mbps - others * model.dd_mbps
        if width_mbps <= 0.0:
            raise ValueError(
                f"contention can't be modelled for a processor of {processor.cores} cores: "
                f"dc_mbps - k * dd_mbps must be above 0 for every number k of other tasks, "
                f"and is {width_mbps:g} for k = {others}"
            )


class Share:
    """The tasks of one job on one processor, all alike.

    Attributes:
        job: the job.
        tasks: how many tasks.
        mbps: bandwidth each asks for, MB/s.
        since_s: when `left_s` and `speed` were last set, s.
        left_s: the work each had left at `since_s`, in seconds at full speed.
        speed: share of the full speed it has had since, 0 to 1.
        end_s: when it will have no work left, at that speed, s; infinity: it has ended.
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
        next_end_s: when the next share ends, s; infinity: never.
        timer: the engine's, for that end.

    Args:
        processor: what it is.
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
