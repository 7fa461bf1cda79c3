"""Constructor arguments that the environments share: a scenario file, or a task and jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from hpcosim_protocol import Platform
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.scenario import Scalar, Scenario
from hpcosim_scenarios.running.library import Library
from hpcosim_server.engine.simulation import Simulation
from hpcosim_server.record import metrics
from hpcosim_workloads.table import JobTable

T = TypeVar("T")


def task_and_jobs(
    scenario: str | Path | None,
    overrides: Mapping[str, Scalar] | None,
    task: T | None,
    jobs: JobTable | None,
    task_of: Callable[[Scenario], T],
) -> tuple[T, JobTable]:
    """Return the task and the workload of an environment.

    Args:
        scenario: path of the scenario file; None if `task` and `jobs` are given.
        overrides: values that replace those of the scenario, by dotted path.
        task: the task; requires `jobs`.
        jobs: the workload; requires `task`.
        task_of: builds the task from a scenario.

    Raises:
        ScenarioError, WorkloadError: the scenario is invalid.
        ValueError: the arguments are neither a scenario nor a task with jobs.
    """
    if scenario is None:
        if task is None or jobs is None or overrides is not None:
            raise ValueError(
                "pass either scenario=FILE (overrides= is optional), or both task= and jobs="
            )
        return task, jobs
    if task is not None or jobs is not None:
        raise ValueError("scenario= already defines task and jobs; remove task= and jobs=")
    library = Library([Path(scenario)], overrides)
    return task_of(library.first), library.first_jobs


def check_power(platform: Platform, path: Path | None) -> None:
    """Check that at least one node draws power. Otherwise every action costs the same energy.

    Args:
        platform: the cluster.
        path: the scenario file, for the message; None: there is none.

    Raises:
        ScenarioError: static_w and dynamic_w of all processors are 0.
    """
    processors = [processor for group in platform.nodes for processor in group.processors]
    if all(processor.static_w == processor.dynamic_w == 0.0 for processor in processors):
        raise ScenarioError(
            "static_w and dynamic_w of all processors are 0, so an agent has no energy to save; "
            "set a power above 0 on at least one processor",
            path,
            field="$.platform.nodes",
        )


def totals(simulation: Simulation) -> dict[str, float]:
    """Return energy, energy-delay product and makespan of a run, as defined in `metrics`."""
    record = simulation.record()
    energies = metrics.energies(record)
    return {
        "energy_j": energies["energy_j"],
        "edp_js": energies["edp_js"],
        "makespan_s": metrics.makespan_s(record),
    }
