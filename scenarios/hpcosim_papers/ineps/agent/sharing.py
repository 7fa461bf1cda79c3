"""Run times of jobs on one processor under memory contention (specification, section 5.4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from hpcosim_protocol import Contention, task_speed


class Load(NamedTuple):
    """Cores and bandwidth that a running job needs.

    Attributes:
        cores: number of tasks.
        mbps: bandwidth of each task, in MB/s.
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
    """Simulate jobs that share a processor, and return their ends; infinity: after `until_s`.

    Args:
        model: the contention model; None: no contention.
        now_s: start, simulated seconds.
        loads: cores and bandwidth of each job.
        left_s: remaining work of each job, in seconds at full speed; updated to `until_s` in place.
        until_s: end of the simulated interval, simulated seconds.
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
    """Return the speed of each job relative to full speed; None: all run at full speed.

    Args:
        model: the contention model; None: no contention.
        loads: cores and bandwidth of each job.
    """
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
