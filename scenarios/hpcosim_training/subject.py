"""What an environment of Gymnasium's is about: a scenario's file, or a task and jobs."""

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
    """Return what an environment is made of.

    Args:
        scenario: the file to read; None: task and jobs are given.
        overrides: values of the scenario to change, by dotted path.
        task: what is to be learned.
        jobs: the workload.
        task_of: what is to be learned by a scenario.

    Raises:
        ScenarioError, WorkloadError: the scenario can't be used.
        ValueError: it is neither a scenario nor a task and jobs.
    """
    if scenario is None:
        if task is None or jobs is None or overrides is not None:
            raise ValueError(
                "an environment is made of scenario=FILE, with overrides if need be, or of both "
                "task= and jobs="
            )
        return task, jobs
    if task is not None or jobs is not None:
        raise ValueError("scenario= says task and jobs; give it without task= and jobs=")
    library = Library([Path(scenario)], overrides)
    return task_of(library.first), library.first_jobs


def refuse_without_power(platform: Platform, path: Path | None) -> None:
    """Make sure that there is energy to save.

    Args:
        platform: the nodes.
        path: the scenario's file; None: there is none.

    Raises:
        ScenarioError: no node draws any power.
    """
    processors = [processor for group in platform.nodes for processor in group.processors]
    if all(processor.static_w == processor.dynamic_w == 0.0 for processor in processors):
        raise ScenarioError(
            "has nodes that draw no power, static_w and dynamic_w of all are 0: no choice of node "
            "saves energy, and nothing can be learned",
            path,
            field="$.platform.nodes",
        )


def totals(simulation: Simulation) -> dict[str, float]:
    """Return what a run came to, by the names and definitions of `metrics`."""
    record = simulation.record()
    energies = metrics.energies(record)
    return {
        "energy_j": energies["energy_j"],
        "edp_js": energies["edp_js"],
        "makespan_s": metrics.makespan_s(record),
    }
