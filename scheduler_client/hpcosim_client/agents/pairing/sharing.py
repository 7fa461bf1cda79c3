"""How long jobs on one processor run while they slow each other down (specification, 5.4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from hpcosim_protocol import Contention, task_speed


class Load(NamedTuple):
    """What a job asks of a processor while it runs.

    Attributes:
        cores: how many tasks it has.
        mbps: bandwidth each asks for, MB/s.
    """

    cores: int
    mbps: float


def run_on(
    model: Contention | None,
    now_s: float,
    loads: Sequence[Load],
    left_s: list[float],
    until_s: float = math.inf,
) -> list[float]:
    """Let jobs share a processor, and return when each ends; infinity: not by `until_s`.

    Args:
        model: how they slow each other down; None: they don't.
        now_s: when they start.
        loads: what they ask for.
        left_s: what each has left to do, in seconds at full speed; changed to what it will have
            left then.
        until_s: how long they are let.
    """
    ends_s = [math.inf if left > 0.0 else now_s for left in left_s]
    going = [place for place, left in enumerate(left_s) if left > 0.0]
    while going and now_s < until_s:
        speeds = _speeds(model, [loads[place] for place in going])
        step_s = until_s - now_s
        if speeds is None:  # fewer jobs will not slow each other down, either
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


def _speeds(model: Contention | None, loads: Sequence[Load]) -> list[float] | None:
    """Return the share of full speed at which each runs while all do; None: all run at full."""
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
