"""The oracle: how a scenario's nodes are best switched by one that knows every job to come."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hpcosim_client import make_policy
from hpcosim_client.power.oracle import SwitchingPlan, write_plan
from hpcosim_client.power.settings import Oracle
from hpcosim_scenarios.model.overrides import Overrides
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.planning.cheapest_switching import CheapestPlan, cheapest_switching
from hpcosim_scenarios.planning.oracle_nodes import every_node
from hpcosim_scenarios.planning.schedule import schedule_of, starts_of
from hpcosim_scenarios.running.chosen import Chosen, chosen_by
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_workloads.table import JobTable

PLAN = "plan.json"


class Optimum(NamedTuple):
    """The least energy that a schedule must waste, with the plan that wastes no more.

    Attributes:
        cheapest: how nodes are switched, and the energy of that.
        plan: the same beside its schedule, as the power manager `oracle` reads it.
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
    name = chosen_by(library.first, path, scheduler).name
    optimum = plan_of(library.first, library.first_jobs, name)
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
    return Optimum(cheapest, SwitchingPlan(name, cheapest.wasted_j, starts_s, switches))


@contextmanager
def with_plan(
    chosen: Chosen, scenario: Scenario, jobs: JobTable, out: Path | None
) -> Iterator[Chosen]:
    """Make a plan for an oracle that has none, and keep it with the results if all goes well.

    Args:
        chosen: who schedules; one that needs no plan comes back as it is.
        scenario: what the plan is for.
        jobs: its jobs.
        out: the results folder; None: nothing is kept.

    Raises:
        As `plan_of`; PolicyError: the plan can't be written.
    """
    if not chosen.needs_plan:
        yield chosen
        return
    plan = plan_of(scenario, jobs, chosen.name).plan
    with TemporaryDirectory(prefix="hpcosim-") as scratch:
        file = Path(scratch) / PLAN
        write_plan(plan, file)
        yield replace(chosen, power=Oracle(str(file)))
    if out is not None:
        write_plan(plan, out / PLAN)
