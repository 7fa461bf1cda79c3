"""Plans of waiting jobs on all nodes, their cost, and their improvement by simulated annealing.

The cost of a node depends on its own lanes only, except for the end of the last job of all nodes.
Nodes in the same state share what was computed for a plan. Annealing follows Kirkpatrick, Gelatt,
Vecchi 1983.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np

from hpcosim_papers.ineps.agent.site import (
    EMPTY,
    LaneRun,
    Lanes,
    NodeType,
    Running,
    Work,
    job_at,
    replaced,
    run_lanes,
    size,
    within,
    without,
)

Cost = Callable[[float, float], float]
"""Cost of a plan, from the energy beyond idle power of all nodes from now on, in J, and the end of
the last job, simulated seconds."""


SWAPS = 0.3  # share of moves that exchange two jobs; the others move one job
DRAWS = 6  # random numbers of a move
BLOCK = 4096  # moves whose random numbers are drawn together
RELATIVE = 1e-9  # costs that differ less are equal

Change = tuple[int, Lanes, int, Lanes]
"""Two nodes with their new lanes; the same node twice: one node changes."""


class PlanNode(NamedTuple):
    """A node at the time of planning.

    Attributes:
        running: the jobs that run, in the order of their lanes.
        state: equal for nodes on which the same lanes have the same schedule.
    """

    group: int
    running: tuple[Running, ...]
    state: Hashable


class Problem:
    """Waiting jobs, nodes, and the cost of plans."""

    def __init__(
        self,
        now_s: float,
        nodes: Sequence[PlanNode],
        types: Sequence[NodeType],
        works: Sequence[Sequence[Work]],
        submits_s: Sequence[float],
        cost: Cost,
    ) -> None:
        self.nodes, self.cost = nodes, cost
        self._now_s, self._types, self._works, self._submits_s = now_s, types, works, submits_s
        shared: dict[Hashable, dict[Lanes, LaneRun]] = {}
        self._known = [shared.setdefault(node.state, {}) for node in nodes]
        least = min((work.load.cores for work in works[0]), default=1)
        self.most_lanes = [types[node.group].cores // least for node in nodes]

    def fits(self, node: int, job: int) -> bool:
        """Return whether a job has at most as many cores as a node."""
        group = self.nodes[node].group
        return self._works[group][job].load.cores <= self._types[group].cores

    def run(self, node: int, lanes: Lanes) -> LaneRun:
        """Return the schedule of a node."""
        known = self._known[node]
        found = known.get(lanes)
        if found is None:
            there, found = self.nodes[node], EMPTY
            if there.running or lanes:
                type_, works = self._types[there.group], self._works[there.group]
                found = run_lanes(type_, self._now_s, there.running, lanes, works, self._submits_s)
            known[lanes] = found
        return found


class Plan:
    """The lanes of all nodes.

    Attributes:
        ends_s: end of the last job of each node, simulated seconds.
        extras_j: energy of each node beyond its idle power, in J.
        total_j: sum of `extras_j`.
    """

    def __init__(self, problem: Problem, lanes: Sequence[Lanes]) -> None:
        self.problem, self.lanes = problem, list(lanes)
        runs = [problem.run(node, each) for node, each in enumerate(lanes)]
        self.ends_s = [run.end_s for run in runs]
        self.extras_j = [run.extra_j for run in runs]
        self.total_j = sum(self.extras_j)
        self.cost = problem.cost(self.total_j, max(self.ends_s))

    def cost_with(self, node: int, lanes: Lanes) -> float:
        """Return the cost of the plan with other lanes of a node."""
        run, end_s = self.problem.run(node, lanes), self.ends_s[node]
        self.ends_s[node] = run.end_s
        cost = self.problem.cost(self.total_j + run.extra_j - self.extras_j[node], max(self.ends_s))
        self.ends_s[node] = end_s
        return cost

    def set(self, node: int, lanes: Lanes) -> None:
        """Change the lanes of a node."""
        self.cost = self.cost_with(node, lanes)
        run = self.problem.run(node, lanes)
        self.total_j += run.extra_j - self.extras_j[node]
        self.lanes[node], self.ends_s[node], self.extras_j[node] = lanes, run.end_s, run.extra_j

    def insert(self, job: int) -> None:
        """Insert a job at the end of the lane where the plan then costs least."""
        least, best, seen = math.inf, None, set()
        for node, there in enumerate(self.lanes):
            key = (self.problem.nodes[node].state, there)
            if key in seen or not self.problem.fits(node, job):
                continue
            seen.add(key)
            for number in range(len(there) + (len(there) < self.problem.most_lanes[node])):
                at = len(there[number]) if number < len(there) else 0
                new = within(there, job, number, at)
                cost = self.cost_with(node, new)
                if cost < least:
                    least, best = cost, (node, new)
        assert best is not None, "the job fits on a node"
        self.set(*best)


def anneal(plan: Plan, steps: int, hot: float, cold: float, rng: np.random.Generator) -> Plan:
    """Return the best plan that the moves find, or the plan itself.

    A move takes a job to another place, or exchanges two jobs. It is accepted if the cost does not
    rise, or else with probability exp(-rise / temperature). The temperature falls geometrically.

    Args:
        plan: the plan; it is changed.
        hot: first temperature, relative to the plan's cost.
        cold: last temperature, relative to the plan's cost.
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
    """The moves of a plan."""

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
