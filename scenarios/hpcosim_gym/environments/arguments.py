"""Constructor arguments that the environments share: a scenario, or a task and jobs; settings."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from hpcosim_protocol import Platform
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.scenario import Scalar, Scenario
from hpcosim_scenarios.running.library import Library
from hpcosim_scenarios.shipped import find_scenario
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.record.metrics import energies, makespan_s
from hpcosim_workloads.table import JobTable

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


def scenario_path(scenario: str | Path | None) -> Path | None:
    """Return the file of a scenario that is named by its path or, if shipped, by its name."""
    return None if scenario is None else find_scenario(str(scenario))


def library_of(path: Path, overrides: Mapping[str, Scalar] | None) -> Library:
    """Return the library of a scenario.

    Raises:
        ScenarioError, WorkloadError: the scenario is invalid.
        ValueError: `overrides` is not a mapping.
    """
    if overrides is not None and not isinstance(overrides, Mapping):
        raise ValueError(
            "overrides: expected a mapping of dotted paths to values, such as "
            f"{{'workload.load': 1.2}}, got {overrides!r}"
        )
    return Library([path], overrides)


def settings_of(fields: Mapping[str, Any], kind: type[S]) -> S:
    """Return the settings of an agent.

    Args:
        fields: values of some fields, by name.
        kind: type of the settings; a field can be a `Literal` of texts.

    Raises:
        ValueError: a field is unknown, or a value is invalid.
    """
    hints = get_type_hints(kind)
    for name, value in fields.items():
        if name not in hints:
            hint = did_you_mean(name, hints)
            raise ValueError(f"unknown argument {name!r}{hint}; settings: {', '.join(hints)}")
        values = [one for one in get_args(hints[name]) if isinstance(one, str)]
        if values and value not in values:
            hint = did_you_mean(value, values)
            raise ValueError(f"{name}: expected one of {', '.join(values)}, got {value!r}{hint}")
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"invalid settings: {error}") from None


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """Return `; did you mean NAME?` for the name nearest to a given one; empty if none is near."""
    near = difflib.get_close_matches(str(given), list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def check_render_mode(render_mode: str | None) -> None:
    """Check that no rendering is requested: the environments have none.

    Raises:
        ValueError: a mode is given.
    """
    if render_mode is not None:
        raise ValueError(
            f"render_mode: expected None, got {render_mode!r}; there is no rendering, see "
            "`hpcosim show draw` for a picture of a run"
        )


def task_and_jobs(
    path: Path | None,
    overrides: Mapping[str, Scalar] | None,
    task: T | None,
    jobs: JobTable | None,
    task_of: Callable[[Scenario], T],
) -> tuple[T, JobTable]:
    """Return the task and the workload of an environment.

    Args:
        path: the scenario file; None if `task` and `jobs` are given.
        overrides: values that replace those of the scenario, by dotted path.
        task: the task; requires `jobs`.
        jobs: the workload; requires `task`.
        task_of: builds the task from a scenario.

    Raises:
        ScenarioError, WorkloadError: the scenario is invalid.
        ValueError: the arguments are neither a scenario nor a task with jobs, or `overrides` is not
            a mapping.
    """
    if path is None:
        if task is None or jobs is None or overrides is not None:
            raise ValueError(
                "pass either scenario=FILE (overrides= is optional), or both task= and jobs="
            )
        return task, jobs
    if task is not None or jobs is not None:
        raise ValueError("scenario= already defines task and jobs; remove task= and jobs=")
    library = library_of(path, overrides)
    return task_of(library.first), library.first_jobs


def check_power(platform: Platform, path: Path | None) -> None:
    """Check that at least one node draws power. Otherwise every action costs the same energy.

    Args:
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


TOTALS = ("energy_j", "edp_js", "makespan_s")


def totals(simulation: Simulation) -> dict[str, float]:
    """Return energy, energy-delay product and makespan of a run, as defined in `metrics`."""
    record = simulation.record()
    found = energies(record)
    return {
        "energy_j": found["energy_j"],
        "edp_js": found["edp_js"],
        "makespan_s": makespan_s(record),
    }
