"""The oracle: how a scenario's nodes are best switched by one that knows every job to come."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcosim_client import make_policy
from hpcosim_client.catalogue.power import Oracle, title
from hpcosim_client.power.oracle import Plan, by_plan, write_plan
from hpcosim_scenarios.errors import OracleError
from hpcosim_scenarios.model.scenario import Scalar, Scenario
from hpcosim_scenarios.planning.cheapest_switching import (
    CheapestPlan,
    Schedule,
    cheapest_switching,
)
from hpcosim_scenarios.planning.oracle_nodes import every_node
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_server.engine.simulation import Simulation
from hpcosim_server.record.recording import Recording
from hpcosim_workloads.table import PLACEMENTS, JobTable

WHOLE_NODES = PLACEMENTS.index("whole_nodes")


class Optimum(NamedTuple):
    """The best there is.

    Attributes:
        cheapest: what it costs, and how nodes are switched.
        plan: that beside the schedule it is for, as the manager `oracle` reads it.
    """

    cheapest: CheapestPlan
    plan: Plan


def plan_scenario(
    path: Path,
    out: Path | None = None,
    *,
    scheduler: str | None = None,
    overrides: Mapping[str, Scalar] | None = None,
) -> CheapestPlan:
    """Return the best plan for a scenario's file, and write it for the manager `oracle`.

    Args:
        path: the scenario.
        out: the file for the plan; None: none is written.
        scheduler: instead of the scenario's own.
        overrides: values of the scenario to change, by dotted path.

    Raises:
        As `plan_of`; ScenarioError, WorkloadError: bad input; PolicyError: the plan can't be
            written.
    """
    library = Library([path], overrides)
    optimum = plan_of(library.first, library.first_jobs, scheduler)
    if out is not None:
        write_plan(optimum.plan, out)
    return optimum.cheapest


def plan_of(scenario: Scenario, jobs: JobTable, scheduler: str | None = None) -> Optimum:
    """Return the plan that wastes the least energy while no job waits longer than with all on.

    The jobs are run once with every node always on; the schedule that comes of that stays as it
    is. The plan is the optimum for that schedule, with no wait added, over all ways to choose
    nodes for the jobs. It is no bound on policies that let jobs wait, nor on those that schedule
    them otherwise.

    Args:
        scenario: its platform, rules and seed; its power manager is passed over.
        jobs: its jobs.
        scheduler: who schedules them; None: the scenario's own.

    Raises:
        OracleError: the nodes are not all alike, can't be switched, take random times for it or
            draw more asleep than otherwise; jobs share nodes, or SciPy is missing.
        PolicyError: there is no such scheduler.
        RunError: the run failed.
    """
    idle_w, states = every_node(scenario.platform)  # before a long run
    name = scheduler or scenario.scheduler.name
    opened = open_scenario(scenario, jobs, name)
    run_in_process(opened, make_policy(name))
    cheapest = cheapest_switching(schedule_of(opened.simulation), idle_w, states)
    starts_s, switches = starts_of(opened.simulation), tuple(cheapest.switches)
    return Optimum(cheapest, Plan(name, cheapest.wasted_j, starts_s, switches))


def run_oracle(
    scenario: Scenario, jobs: JobTable, scheduler: str | None = None, out: Path | None = None
) -> dict[str, int | float]:
    """Run a scenario with the best plan, and return the metrics.

    Jobs start when they do with every node always on, whoever the scheduler: it is asked once,
    and then its schedule is kept. `wasted_energy_j` is that of the plan.

    Args:
        scenario: as for `plan_of`.
        jobs: likewise.
        scheduler: likewise.
        out: the results folder; None: nothing is written.

    Raises:
        As `plan_of`; ResultsError: the results can't be written.
    """
    plan = plan_of(scenario, jobs, scheduler).plan
    opened = open_scenario(scenario, jobs, title(plan.scheduler, Oracle()))
    return run_in_process(opened, by_plan(plan), out)


def starts_of(simulation: Simulation) -> dict[int, float]:
    """Return when each job started, by its number, of those that did."""
    recording = simulation.recording
    starts_s = zip(recording.job_id, recording.start_s, strict=True)
    return {job_id: start_s for job_id, start_s in starts_s if not math.isnan(start_s)}


def schedule_of(simulation: Simulation) -> Schedule:
    """Return the schedule of a simulation that is over.

    Raises:
        OracleError: jobs share nodes, or may.
    """
    recording, capacity = simulation.recording, simulation.cluster.capacity
    start_s = np.array(recording.start_s)
    ran = np.flatnonzero(~np.isnan(start_s))
    for row in ran.tolist():
        _check_holds_whole_nodes(recording, row, int(capacity[0]))
    return Schedule(
        nodes=len(capacity),
        start_s=simulation.start_s,
        end_s=simulation.now_s,
        job_start_s=start_s[ran],
        job_end_s=np.array(recording.end_s)[ran],
        job_nodes=np.array(recording.places, dtype=np.int64)[ran],
    )


def _check_holds_whole_nodes(recording: Recording, row: int, node_cores: int) -> None:
    if recording.placement[row] == WHOLE_NODES:
        return
    if any(tasks < node_cores for tasks in recording.tasks_of(row)):
        raise OracleError(
            f"the oracle plans for jobs that hold whole nodes, but job {recording.job_id[row]} "
            f"leaves cores of a node to others; workload.placement: whole_nodes would not"
        )
