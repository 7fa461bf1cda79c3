"""Reader for scenario files. An error has the file, the line and the field."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model import series
from hpcosim_scenarios.model.host_lists import with_node_numbers
from hpcosim_scenarios.model.jobs import PROFILES, check_log_settings, check_profiles, inline_jobs
from hpcosim_scenarios.model.messages import scenario_error
from hpcosim_scenarios.model.overrides import Overrides, apply, blame_override, expand_names
from hpcosim_scenarios.model.platform import check_platform
from hpcosim_scenarios.model.scenario import KINDS, Scenario
from hpcosim_scenarios.model.yaml_tree import line_of, read_text, read_tree
from hpcosim_workloads.logs.catalogue import find_trace
from hpcosim_workloads.logs.job_lines import JobProfile

FILES = (
    "workload.swf",
    "workload.json",
    "workload.synthetic.swf",
    "economics.tariff",
    "economics.series",
    *series.FILES,
)
"""Dotted paths of all values that are paths of files, apart from those of the scheduler."""

TRACES = ("workload.trace", "workload.synthetic.trace")
"""Dotted paths of all values that are names of job logs of the catalogue."""


def load_scenario(path: Path, overrides: Overrides | None = None) -> Scenario:
    """Return the scenario in a file.

    The settings of the scheduler are not validated here; `running.policies.chosen_by` does that.

    Args:
        path: the YAML file.
        overrides: values to change, by dotted path, such as `workload.load` or
            `platform.nodes.0.count`.

    Raises:
        ScenarioError: the file cannot be read, or its content is no scenario. The error has the
            line and the field.
    """
    return scenario_of(scenario_tree(path), path, overrides)


def scenario_tree(path: Path) -> Any:
    """Return the plain data of a scenario, before overrides.

    Raises:
        ScenarioError: the file cannot be read, or is not YAML.
    """
    tree = read_tree(path, "scenario")
    expand_names(tree)
    return tree


def scenario_of(tree: Any, path: Path, overrides: Overrides | None = None) -> Scenario:
    """Return the scenario of plain data.

    Args:
        tree: the data of `scenario_tree`; they are not changed.
        path: the file that they are from, for errors.
        overrides: values to change, by dotted path.

    Raises:
        ScenarioError: as `load_scenario`.
    """
    changed = deepcopy(tree) if overrides else tree
    apply(changed, overrides or {})
    try:
        return _scenario(changed)
    except ScenarioError as error:
        raise located(error, path, overrides) from None


def located(error: ScenarioError, path: Path, overrides: Overrides | None = None) -> ScenarioError:
    """Return an error with its origin: the override, or the file and the line of its field."""
    if overridden := blame_override(error, overrides or {}):
        return overridden
    line = line_of(read_text(path, "scenario"), error.field, error.key or None)
    return ScenarioError(error.what, path, line, error.field, error.key)


def _scenario(tree: Any) -> Scenario:
    """Convert plain data to a scenario."""
    if isinstance(tree, dict) and "platform" in tree:
        tree = tree | {"platform": with_node_numbers(tree["platform"])}
    try:
        scenario = msgspec.convert(tree, Scenario)
    except msgspec.ValidationError as error:
        raise _with_profile(scenario_error(error, tree, KINDS), tree) from None
    check_platform(scenario.platform, tree["platform"])
    check_profiles(scenario.workload)
    check_log_settings(scenario.workload)
    inline_jobs(scenario)
    return scenario


def _with_profile(error: ScenarioError, tree: Any) -> ScenarioError:
    """Put the name of the bad profile into the field; msgspec writes three dots for it."""
    if error.field.startswith(f"{PROFILES}[...]"):
        name = next(name for name, value in tree["workload"]["profiles"].items() if _bad(value))
        field = error.field.replace("[...]", f'["{name}"]')
        return ScenarioError(error.what, field=field, key=error.key)
    return error


def _bad(profile: Any) -> bool:
    try:
        msgspec.convert(profile, JobProfile)
    except msgspec.ValidationError:
        return True
    return False


def named_files(scenario: Scenario, folder: Path) -> dict[str, Path]:
    """Return the files that a scenario names, by the dotted path of the value that names them.

    Job logs of the catalogue and files of the scheduler are not among them.

    Args:
        folder: the folder of its file, where relative paths start.
    """
    files = {path: _value(scenario, path) for path in FILES}
    return {path: folder / name for path, name in files.items() if name is not None}


def input_files(scenario: Scenario, folder: Path) -> dict[str, Path]:
    """Return the files that a scenario reads, by the dotted path of the value that names them.

    Files of the scheduler are not among them.

    Args:
        folder: the folder of its file, where relative paths start.

    Raises:
        WorkloadError: a trace is unknown or not downloaded.
    """
    found = named_files(scenario, folder)
    traces = {path: _value(scenario, path) for path in TRACES}
    return found | {path: find_trace(name) for path, name in traces.items() if name is not None}


def with_files(scenario: Scenario, files: Mapping[str, Path]) -> Scenario:
    """Return a scenario that reads other files.

    Args:
        files: the files by dotted path, as of `input_files`; traces keep their names.
    """
    for path, file in files.items():
        if path in FILES:
            scenario = _replaced(scenario, path.split("."), str(file))
    return scenario


def _value(struct: Any, path: str) -> Any:
    for name in path.split("."):
        struct = getattr(struct, name, None)
    return struct


def _replaced(struct: Any, path: list[str], value: str) -> Any:
    name, *rest = path
    changed = _replaced(getattr(struct, name), rest, value) if rest else value
    return replace(struct, **{name: changed})


def content_of(scenario: Scenario) -> dict[str, Any]:
    """Return the plain data of a scenario without its name, scheduler and names of files."""
    content: dict[str, Any] = msgspec.to_builtins(scenario)
    del content["name"], content["scheduler"]
    for path in FILES:
        *parents, name = path.split(".")
        section: Any = content
        for parent in parents:
            section = section.get(parent) if isinstance(section, dict) else None
        if isinstance(section, dict) and name in section:
            section[name] = section[name] is not None
    return content
