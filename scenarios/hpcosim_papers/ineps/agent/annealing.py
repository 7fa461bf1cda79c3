"""Improvement of plans by simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983)."""

from __future__ import annotations

import math
import sys

import numpy as np

from hpcosim_papers.ineps.agent.lanes import Lanes, job_at, replaced, size, within, without
from hpcosim_papers.ineps.agent.plans import Plan

SWAPS = 0.3  # share of moves that exchange two jobs; the others move one job
DRAWS = 6  # random numbers of a move
BLOCK = 4096  # moves whose random numbers are drawn together
RELATIVE = 1e-9  # costs that differ less are equal

Change = tuple[int, Lanes, int, Lanes]
"""Two nodes with their new lanes; the same node twice: one node changes."""


def anneal(plan: Plan, steps: int, hot: float, cold: float, rng: np.random.Generator) -> Plan:
    """Return the best plan that the moves find, or the plan itself.

    A move takes a job to another place, or exchanges two jobs. It is accepted if the cost does not
    rise, or else with probability exp(-rise / temperature). The temperature falls geometrically.

    Args:
        plan: the plan; it is changed.
        steps: number of moves.
        hot: first temperature, relative to the plan's cost.
        cold: last temperature, relative to the plan's cost.
        rng: generator of the moves.
    """
    moves = _Moves(plan)
    if not moves.homes:
        return plan
    best, least = list(plan.lanes), plan.cost
    heat = max(hot * plan.cost, sys.float_info.min)
    cooling = (cold / hot) ** (1.0 / max(steps, 1))
    for first in range(0, steps, BLOCK):
        count = min(BLOCK, steps - first)
        chances = rng.random(count).tolist()
        for draw, chance in zip(rng.random((count, DRAWS)).tolist(), chances, strict=True):
            heat *= cooling
            if moves.try_move(draw, chance, heat) and plan.cost < least * (1.0 - RELATIVE):
                best, least = list(plan.lanes), plan.cost
    return Plan(plan.problem, best)


class _Moves:
    """The moves of a plan.

    Attributes:
        homes: node of each planned job, in any order.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._running = [len(node.running) for node in plan.problem.nodes]
        self.homes = [node for node, lanes in enumerate(plan.lanes) for _ in range(size(lanes))]

    def try_move(self, draw: list[float], chance: float, heat: float) -> bool:
        """Propose a move; return whether it was accepted."""
        plan, swaps = self._plan, draw[0] < SWAPS
        mover = int(draw[1] * len(self.homes))
        change = self._swap(mover, draw) if swaps else self._shift(mover, draw)
        if change is None:
            return False
        first, first_lanes, second, second_lanes = change
        problem, ends_s, extras_j = plan.problem, plan.ends_s, plan.extras_j
        before = ends_s[first], ends_s[second]
        ends_s[first], first_j = problem.run(first, first_lanes)
        total_j = plan.total_j + first_j - extras_j[first]
        second_j = first_j
        if second != first:
            ends_s[second], second_j = problem.run(second, second_lanes)
            total_j += second_j - extras_j[second]
        cost = problem.cost(total_j, max(ends_s))
        if cost > plan.cost and chance >= math.exp((plan.cost - cost) / heat):
            ends_s[first], ends_s[second] = before
            return False
        plan.cost, plan.total_j = cost, total_j
        plan.lanes[first], extras_j[first] = first_lanes, first_j
        plan.lanes[second], extras_j[second] = second_lanes, second_j
        if not swaps:
            self.homes[mover] = second
        return True

    def _swap(self, mover: int, draw: list[float]) -> Change | None:
        """Exchange two jobs of different nodes."""
        lanes, problem = self._plan.lanes, self._plan.problem
        first, second = self.homes[mover], self.homes[int(draw[2] * len(self.homes))]
        if first == second:
            return None
        at, there = int(draw[3] * size(lanes[first])), int(draw[4] * size(lanes[second]))
        job, other = job_at(lanes[first], at), job_at(lanes[second], there)
        if job == other or not (problem.fits(first, other) and problem.fits(second, job)):
            return None
        changed = replaced(lanes[first], at, other), replaced(lanes[second], there, job)
        return first, changed[0], second, changed[1]

    def _shift(self, mover: int, draw: list[float]) -> Change | None:
        """Move a job to another node, lane or position."""
        lanes, problem = self._plan.lanes, self._plan.problem
        first, second = self.homes[mover], int(draw[2] * len(lanes))
        place = int(draw[3] * size(lanes[first]))
        rest, job = without(lanes[first], place, self._running[first])
        if not problem.fits(second, job):
            return None
        target = rest if first == second else lanes[second]
        number = int(draw[4] * (len(target) + (len(target) < problem.most_lanes[second])))
        at = int(draw[5] * (len(target[number]) + 1)) if number < len(target) else 0
        changed = within(target, job, number, at)
        if first == second:
            return None if changed == lanes[first] else (first, changed, first, changed)
        return first, rest, second, changed
