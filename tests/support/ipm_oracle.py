"""Slow reference of SNF-ICON: choice of nodes, gaps, and expected costs, one node at a time.

It follows the docstrings of `hpcosim_schedulers.ipm` and shares no code with it. Integrals are
sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

IDLE_W, SLEEP_W, ON_W, OFF_W = 100.0, 5.0, 80.0, 20.0
ON_S, OFF_S = 10.0, 4.0
PLACES = {"on": 0, "computing": 1, "switching_on": 2, "switching_off": 3, "sleeping": 3}


@dataclass
class SlowNode:
    """A node with the powers and times above.

    Attributes:
        number: its number.
        state: its power state, or `computing`.
        since_s: begin of the state.
        end_s: requested end of its job, if it computes.
        planned_s: end of the last job planned on it; below 0: none.
    """

    number: int
    state: str
    since_s: float
    end_s: float = 0.0
    planned_s: float = -1.0

    def left_s(self, now_s: float) -> float:
        """Return the expected rest of its transition; a late one takes its mean once more."""
        takes_s = {"switching_on": ON_S, "switching_off": OFF_S}.get(self.state, 0.0)
        left_s = self.since_s + takes_s - now_s
        return left_s if left_s > 0.0 else takes_s

    def release_s(self, now_s: float) -> float:
        """Return when it can be used."""
        if self.planned_s >= 0.0:
            return self.planned_s
        if self.state == "computing":
            return self.end_s if self.end_s > now_s else math.inf
        boot_s = ON_S if self.state in ("sleeping", "switching_off") else 0.0
        return now_s + self.left_s(now_s) + boot_s

    def cost_j(self, now_s: float, start_s: float) -> float:
        """Return what its use from a start on wastes."""
        if self.state == "sleeping":
            return ON_W * ON_S
        if self.state == "switching_off":
            return OFF_W * self.left_s(now_s) + ON_W * ON_S
        before_j = ON_W * self.left_s(now_s) if self.state == "switching_on" else 0.0
        return before_j + IDLE_W * (start_s - self.release_s(now_s))

    def key(self, now_s: float, start_s: float) -> tuple[float, int, float, int]:
        """Return what it is chosen by."""
        idle_s = now_s - self.since_s if self.state == "on" else 0.0
        return self.cost_j(now_s, start_s), PLACES[self.state], idle_s, self.number


def choose(
    nodes: Sequence[SlowNode], now_s: float, count: int, after_s: float
) -> tuple[float, list[int]] | None:
    """Return the earliest start of a job, and its nodes: the first time with enough nodes."""
    times_s = {node.release_s(now_s) for node in nodes} | {after_s}
    for start_s in sorted(at for at in times_s if after_s <= at < math.inf):
        released = [node for node in nodes if node.release_s(now_s) <= start_s]
        if len(released) >= count:
            released.sort(key=lambda node: node.key(now_s, start_s))
            return start_s, [node.number for node in released[:count]]
    return None


def earliest_gap(
    busy: Sequence[Sequence[tuple[int, int]]], count: int, lasts_s: int, after_s: int, before_s: int
) -> tuple[int, set[int]] | None:
    """Return the first whole second with enough nodes free for so long, and all of these.

    Args:
        busy: of each node, [begin, end) of its jobs, s.
        count: number of nodes.
        lasts_s: for how long, s.
        after_s: lower bound of the start, s.
        before_s: upper bound of the start, exclusive, s.
    """
    for start_s in range(after_s, before_s):
        free = {
            number
            for number, jobs in enumerate(busy)
            if all(end <= start_s or start_s + lasts_s <= begin for begin, end in jobs)
        }
        if len(free) >= count:
            return start_s, free
    return None


def residual_s(left_s: float, hazard: float) -> float:
    """Return E[(left_s - T)+] for exponential T as a sum over small steps."""
    at_s = (np.arange(20_000) + 0.5) * left_s / 20_000
    return float((hazard * np.exp(-hazard * at_s) * (left_s - at_s)).sum()) * left_s / 20_000


def expected_wait_s(
    nodes: Sequence[SlowNode], now_s: float, woken: int, sizes: Mapping[int, float], hazard: float
) -> float:
    """Return the expected wait of a job that comes next, if so many sleeping nodes are woken."""
    delays_s = []
    for node in nodes:
        if node.state == "on":
            delays_s.append(0.0)
        elif node.state == "switching_on":
            delays_s.append(residual_s(node.left_s(now_s), hazard))
        elif node.state == "switching_off":
            delays_s.append(ON_S + residual_s(node.left_s(now_s), hazard))
        elif node.state == "sleeping":
            delays_s.append(residual_s(ON_S, hazard) if woken > 0 else ON_S)
            woken -= 1
    if not delays_s:
        return 0.0
    delays_s.sort()
    return sum(p * delays_s[min(size, len(delays_s)) - 1] for size, p in sizes.items())


def wasted_j(nodes: Sequence[SlowNode], now_s: float, woken: int, horizon_s: float) -> float:
    """Return the energy of nodes without a job over the horizon, second by tiny second."""
    steps = 20_000
    at_s = (np.arange(steps) + 0.5) * horizon_s / steps
    total_j = 0.0
    for node in nodes:
        if node.state == "computing":
            continue
        left_s, before_w, after_w = 0.0, 0.0, IDLE_W
        if node.state == "switching_on" or (node.state == "sleeping" and woken > 0):
            left_s = node.left_s(now_s) if node.state == "switching_on" else ON_S
            before_w = ON_W
        elif node.state == "switching_off":
            left_s, before_w, after_w = node.left_s(now_s), OFF_W, SLEEP_W
        elif node.state == "sleeping":
            after_w = SLEEP_W
        woken -= node.state == "sleeping"
        power_w = np.where(at_s < left_s, before_w, after_w)
        total_j += float(power_w.mean()) * horizon_s
    return total_j


def mean_excess(mu: float, sigma: float, threshold: float) -> float:
    """Return E[T - threshold | T > threshold] for lognormal T as a ratio of sums."""
    lowest = -8.0 if threshold <= 0.0 else (math.log(threshold) - mu) / sigma
    z = lowest + (np.arange(400_000) + 0.5) * (16.0 / 400_000)
    weight = np.exp(-0.5 * (z * z - lowest * lowest))
    return float((weight * np.exp(mu + sigma * z)).sum() / weight.sum()) - threshold
