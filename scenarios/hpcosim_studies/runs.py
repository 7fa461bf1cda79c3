"""The simulations of a study, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from hpcosim_experiments.statistics.rows import Row
from hpcosim_scenarios.errors import RunError
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running.chosen import chosen_by
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, LoadedScenario
from hpcosim_scenarios.running.run import opened_with
from hpcosim_server.engine.simulation import Simulation
from hpcosim_studies.pool import in_parallel
from hpcosim_workloads.table import JobTable

Metrics = Mapping[str, float]
NO_OVERRIDES: Mapping[str, Any] = {}


class StudyRun(NamedTuple):
    """A simulation of a study.

    Attributes:
        scenario: path of the scenario file.
        labels: values that identify the run; they become columns of its row.
        scheduler: name of the scheduler; empty: the scheduler of the scenario.
        overrides: changes of the scenario, by dotted path.
        seed: seed of the scheduler and of random switching times; the jobs keep the seed of the
            scenario. None: the seed of the scenario.
        jobs: the workload; None: the workload of the scenario.
    """

    scenario: Path
    labels: Mapping[str, Any]
    scheduler: str = ""
    overrides: Mapping[str, Any] = NO_OVERRIDES
    seed: int | None = None
    jobs: JobTable | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Key of the result: runs with equal keys are simulated once."""
        overrides = msgspec.json.encode(self.overrides, order="sorted")
        return self.scenario, self.scheduler, overrides, self.seed, id(self.jobs)


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


def simulate(run: StudyRun) -> Simulated:
    """Simulate a run in this process.

    Raises:
        ScenarioError, WorkloadError, PolicyError: the scenario, its log or its scheduler is
            invalid.
        OracleError: its power manager has no plan, or SciPy is missing.
        RunError: the simulation failed, or a job did not complete.
    """
    scenario, jobs = _loaded(run)
    chosen = chosen_by(scenario, run.scenario, run.scheduler or None)
    with opened_with(chosen, LoadedScenario(scenario, jobs, {}, None)) as (opened, policy):
        metrics = run_in_process(opened, policy)
    if metrics["jobs_completed"] != len(jobs):
        raise RunError(
            f"{run.scenario}: only {metrics['jobs_completed']} of {len(jobs)} jobs completed under "
            f"{chosen.title}"
        )
    return Simulated(opened.simulation, metrics, jobs)


def metrics_of(run: StudyRun) -> Metrics:
    """Simulate a run and return its metrics.

    Raises:
        As `simulate`.
    """
    return simulate(run).metrics


def run_all(
    runs: Sequence[StudyRun],
    workers: int | None = None,
    title: str = "study",
    measured: Callable[[StudyRun], Mapping[str, Any]] = metrics_of,
) -> list[Row]:
    """Simulate runs and return their rows, labels and measured values, in the order of the runs.

    Args:
        runs: the runs; runs that differ only in their labels are simulated once.
        workers: number of processes; 1: the current process; None: one per core.
        title: title of the progress bar.
        measured: simulates a run and returns its measured values; a function that other processes
            can import.

    Raises:
        As `simulate`.
    """
    once = {run.key: run for run in runs}
    found = dict(zip(once, in_parallel(measured, list(once.values()), workers, title), strict=True))
    return [{**found[run.key], **run.labels} for run in runs]


def _loaded(run: StudyRun) -> tuple[Scenario, JobTable]:
    overrides = msgspec.json.encode(run.overrides)
    if run.jobs is None:
        scenario, jobs = _with_jobs(run.scenario, overrides)
    else:
        scenario, jobs = load_scenario(run.scenario, run.overrides), run.jobs
    return scenario if run.seed is None else replace(scenario, seed=run.seed), jobs


@lru_cache(maxsize=4)
def _with_jobs(path: Path, overrides: bytes) -> tuple[Scenario, JobTable]:
    """Return a scenario and its jobs. Consecutive runs often share them."""
    library = Library([path], msgspec.json.decode(overrides))
    return library.first, library.first_jobs
