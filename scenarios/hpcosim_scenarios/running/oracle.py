"""The oracle: a plan for switching nodes that wastes the least energy, with all jobs known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hpcosim_scenarios.model.overrides import Overrides
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.planning.cheapest_switching import (
    CheapestPlan,
    cheapest_switching,
    every_node,
    schedule_of,
    starts_of,
)
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_scenarios.running.policies import Chosen, chosen_by
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.power.oracle import SwitchingPlan, write_plan
from hpcosim_schedulers.power.settings import Oracle
from hpcosim_sim.engine.signals import Signal
from hpcosim_workloads.table import JobTable

PLAN = "plan.json"


class OraclePlan(NamedTuple):
    """An optimal plan for a schedule.

    Attributes:
        cheapest: the switches of nodes, and their energy.
        plan: the same with the schedule, as the power manager `oracle` reads it.
    """

    cheapest: CheapestPlan
    plan: SwitchingPlan


def plan_scenario(
    path: Path,
    out: Path | None = None,
    *,
    scheduler: str | None = None,
    overrides: Overrides | None = None,
) -> CheapestPlan:
    """Return the optimal plan for a scenario, and write it for the power manager `oracle`.

    Args:
        path: the scenario's file.
        out: file for the plan; None: it is not written.
        scheduler: a job scheduler that replaces the scenario's.
        overrides: values to change in the scenario, by dotted path.

    Raises:
        OracleError, RunError: as `plan_of`.
        ScenarioError, WorkloadError: the scenario or its workload is invalid.
        PolicyError: the scheduler is unknown, or the plan cannot be written.
    """
    library = Library([path], overrides)
    chosen = replace(chosen_by(library.first, path, scheduler, overrides), power=Oracle())
    chosen.check()
    signals = library.default.signals
    optimal = plan_of(library.first, library.first_jobs, chosen.name, signals)
    if out is not None:
        write_plan(optimal.plan, out)
    return optimal.cheapest


def plan_of(
    scenario: Scenario,
    jobs: JobTable,
    scheduler: str | None = None,
    signals: Iterable[Signal] = (),
) -> OraclePlan:
    """Return the plan that wastes the least energy without delaying a job.

    The jobs are run once with all nodes always on. The plan is the optimum for that schedule, over
    all assignments of jobs to nodes, with no additional wait. It is no lower bound for policies
    that delay jobs or schedule them in another order.

    Args:
        scenario: platform, rules and seed; its power manager is ignored.
        scheduler: the job scheduler; None: the scenario's.

    Raises:
        OracleError: the nodes differ, cannot be switched, have random switching times, or draw less
            in another state than asleep; jobs share nodes; or SciPy is missing.
        PolicyError: the scheduler is unknown.
        RunError: the run failed.
    """
    idle_w, states = every_node(scenario.platform)  # checks the platform before a long run
    name = scheduler or scenario.scheduler.name
    opened = open_scenario(scenario, jobs, name, signals=signals)
    run_in_process(opened, make_policy(name))
    cheapest = cheapest_switching(schedule_of(opened.simulation), idle_w, states)
    starts_s, switches = starts_of(opened.simulation), tuple(cheapest.switches)
    return OraclePlan(cheapest, SwitchingPlan(name, cheapest.wasted_j, starts_s, switches))


@contextmanager
def with_plan(
    chosen: Chosen,
    scenario: Scenario,
    jobs: JobTable,
    out: Path | None,
    signals: Iterable[Signal] = (),
) -> Iterator[Chosen]:
    """Make the plan of an oracle without one, and keep it with the results of a complete run.

    Args:
        chosen: the policy; one that needs no plan is yielded unchanged.
        out: the results folder; None: the plan is not kept.

    Raises:
        OracleError, RunError: as `plan_of`.
        PolicyError: the plan cannot be written.
    """
    if not chosen.needs_plan:
        yield chosen
        return
    plan = plan_of(scenario, jobs, chosen.name, signals).plan
    with TemporaryDirectory(prefix="hpcosim-") as scratch:
        file = Path(scratch) / PLAN
        write_plan(plan, file)
        yield replace(chosen, power=Oracle(str(file)))
    if out is not None:
        write_plan(plan, out / PLAN)
