"""Single simulations in this process, for figures and for tests of trained agents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_experiments.runs.plan import PlannedRun
from hpcosim_scenarios.errors import RunError
from hpcosim_scenarios.model.jobs import jobs_of
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running.chosen import Chosen, chosen_by
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, LoadedScenario
from hpcosim_scenarios.running.run import opened_with
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_workloads.table import JobTable

Metrics = Mapping[str, float]
NO_OVERRIDES: Mapping[str, Any] = {}


class Simulated(NamedTuple):
    """A completed run.

    Attributes:
        simulation: the simulation at its end.
        metrics: metrics by name.
        jobs: the workload.
    """

    simulation: Simulation
    metrics: Metrics
    jobs: JobTable


def simulate(
    path: Path, scheduler: str | None = None, overrides: Mapping[str, Any] = NO_OVERRIDES
) -> Simulated:
    """Simulate a scenario.

    Args:
        path: the scenario file.
        scheduler: name of the scheduler; None: the scheduler of the scenario.
        overrides: changes of the scenario, by dotted path.

    Raises:
        ScenarioError, WorkloadError, PolicyError: the scenario, its log or its scheduler is
            invalid.
        RunError: the simulation failed, or a job did not complete.
    """
    library = Library([path], overrides)
    chosen = chosen_by(library.first, path, scheduler)
    return _simulated(library.first, library.first_jobs, chosen)


def simulate_again(run: PlannedRun) -> Simulated:
    """Simulate a run of an experiment, whose stored result has the metrics only.

    Raises:
        As `simulate`.
    """
    return _simulated(run.scenario, jobs_of(run.scenario, Path()), run.task.chosen)


def _simulated(scenario: Scenario, jobs: JobTable, chosen: Chosen) -> Simulated:
    with opened_with(chosen, LoadedScenario(scenario, jobs, {}, None)) as (opened, policy):
        metrics = run_in_process(opened, policy)
    if metrics["jobs_completed"] != len(jobs):
        raise RunError(
            f"{scenario.name}: only {metrics['jobs_completed']} of {len(jobs)} jobs completed "
            f"under {chosen.title}"
        )
    return Simulated(opened.simulation, metrics, jobs)
