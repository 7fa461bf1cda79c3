"""Plans of waiting jobs on all nodes, and their cost.

The cost of a node depends on its own lanes only, except for the end of the last job of all nodes.
Nodes in the same state share what was computed for a plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from hpcosim_papers.ineps.agent.lanes import (
    EMPTY,
    LaneRun,
    Lanes,
    NodeType,
    Running,
    Work,
    run_lanes,
    within,
)

Cost = Callable[[float, float], float]
"""Cost of a plan, from the energy beyond idle power of all nodes from now on, in J, and the end of
the last job, simulated seconds."""


class PlanNode(NamedTuple):
    """A node at the time of planning.

    Attributes:
        group: index of its type.
        running: the jobs that run, in the order of their lanes.
        state: equal for nodes on which the same lanes have the same schedule.
    """

    group: int
    running: tuple[Running, ...]
    state: Hashable


class Problem:
    """Waiting jobs, nodes, and the cost of plans.

    Args:
        now_s: simulated time, in seconds.
        nodes: the nodes.
        types: the type of each group of nodes.
        works: the jobs on each type of node, works[group][job].
        submits_s: submission of each job, simulated seconds.
        cost: the cost of plans.
    """

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

    Args:
        problem: jobs and nodes.
        lanes: the lanes of each node.

    Attributes:
        lanes: the lanes of each node.
        ends_s: end of the last job of each node, simulated seconds.
        extras_j: energy of each node beyond its idle power, in J.
        total_j: sum of `extras_j`.
        cost: cost of the plan.
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
