"""What is left on a workload: a long local search with all submissions known, and a lower bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hpcosim_papers.ineps.agent.annealing import anneal
from hpcosim_papers.ineps.agent.lanes import Lanes, NodeType, Work
from hpcosim_papers.ineps.agent.plans import Plan, PlanNode, Problem
from hpcosim_papers.ineps.agent.settings import Objective
from hpcosim_papers.ineps.agent.sharing import Load
from hpcosim_protocol import bandwidth_mbps
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.planning.optimum.bound import LowerBound
from hpcosim_scenarios.planning.optimum.instance import Instance
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import open_scenario
from hpcosim_schedulers import make_policy
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_workloads.table import JobTable

STEPS = 200_000
HOT, COLD = 1e-4, 1e-7


class Left(NamedTuple):
    """What is left on a workload, in J or J s.

    Attributes:
        search: the schedule of the search.
        local_search: the best schedule found with all submissions and run times known.
        bound: lower bound of all schedules, see `planning.optimum.bound`.
    """

    search: float
    local_search: float
    bound: float


def what_is_left(
    scenario: Scenario, jobs: JobTable, objective: Objective, steps: int = STEPS
) -> Left:
    """Improve the schedule of `pairing-search-OBJECTIVE` by annealing.

    Args:
        scenario: platform and rules.
        jobs: the jobs.
        objective: minimised quantity.
        steps: number of moves.

    Raises:
        OptimumError: the models differ from the simulator, see `planning.optimum`.
    """
    name = f"pairing-search-{objective}"
    opened = open_scenario(scenario, jobs, name)
    metrics = run_in_process(opened, make_policy(name))
    value = float(metrics["energy_j" if objective == "energy" else "edp_js"])
    instance = Instance(scenario, jobs)
    bound = LowerBound(instance, objective)
    problem = _problem(scenario, jobs, instance, bound)
    plan = Plan(problem, lanes_of(opened.simulation, len(instance.nodes)))
    found = anneal(plan, steps, HOT, COLD, np.random.default_rng(0))
    least = lower_bound(instance, bound)
    return Left(value, min(value, found.cost), least)


def lower_bound(instance: Instance, bound: LowerBound) -> float:
    """Return the lower bound of all schedules of an instance."""
    idle = [node.idle for node in instance.nodes]
    nothing = (0,) * len(instance.kinds)
    return bound(instance.start_s, idle, nothing, instance.instants[0], 0.0)


def lanes_of(simulation: Simulation, nodes: int) -> list[Lanes]:
    """Return the schedule of a finished simulation as lanes of jobs, by row.

    A job follows the job of its node that ended last before it started, if no other follows that.
    """
    recording = simulation.recording
    lanes: list[list[list[int]]] = [[] for _ in range(nodes)]
    for row in sorted(range(len(recording.start_s)), key=lambda row: recording.start_s[row]):
        (node,) = recording.nodes_of(row)
        ended = [
            lane for lane in lanes[node] if recording.end_s[lane[-1]] <= recording.start_s[row]
        ]
        if ended:
            max(ended, key=lambda lane: recording.end_s[lane[-1]]).append(row)
        else:
            lanes[node].append([row])
    return [tuple(tuple(lane) for lane in its) for its in lanes]


def _problem(scenario: Scenario, jobs: JobTable, instance: Instance, bound: LowerBound) -> Problem:
    """Return all jobs of a workload on idle nodes, with their true run times."""
    kind_of = {job: kind for kind, its in enumerate(instance.members) for job in its}
    kinds = [kind_of[job] for job in jobs.job_id.tolist()]
    types, works = [], []
    for (first, _), group in zip(instance.groups, scenario.platform.nodes, strict=True):
        model = instance.nodes[first]
        core_w = group.dynamic_w
        computing_w = model.extra_w[1] - core_w
        types.append(NodeType(group.cores, group.processors[0].contention, computing_w, core_w))
        of_kind = [
            _work(kind.cores, kind.memory_volume_mb, alone_s)
            for kind, alone_s in zip(instance.kinds, model.alone_s, strict=True)
        ]
        works.append([of_kind[kind] for kind in kinds])
    nodes = [
        PlanNode(group, (), group)
        for group, (first, after) in enumerate(instance.groups)
        for _ in range(first, after)
    ]
    submits_s: Sequence[float] = jobs.submit_s.tolist()
    return Problem(instance.start_s, nodes, types, works, submits_s, bound.value)


def _work(cores: int, volume_mb: float, alone_s: float) -> Work:
    return Work(Load(cores, bandwidth_mbps(volume_mb, alone_s)), alone_s)
