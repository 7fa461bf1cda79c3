"""Reader for scenario files. An error has the file, the line and the field."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec

from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.host_lists import with_node_numbers
from hpcosim_scenarios.model.jobs import PROFILES, check_log_settings, check_profiles, inline_jobs
from hpcosim_scenarios.model.messages import scenario_error
from hpcosim_scenarios.model.overrides import Overrides, apply, blame_override, expand_names
from hpcosim_scenarios.model.platform import check_platform
from hpcosim_scenarios.model.scenario import KINDS, Scenario
from hpcosim_scenarios.model.yaml_file import read_text, read_tree
from hpcosim_scenarios.model.yaml_lines import line_of
from hpcosim_workloads.logs.job_lines import JobProfile


def load_scenario(path: Path, overrides: Overrides | None = None) -> Scenario:
    """Return the scenario in a file.

    The settings of the scheduler are not validated here; `running.chosen.chosen_by` does that.

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
    """Convert plain data to a scenario.

    Raises:
        ScenarioError: the data are no scenario; has the field, not file and line.
    """
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
