"""Reading a scenario's file. An error names the line, the field and a remedy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.jobs import PROFILES, check_log_settings, check_profiles, inline_jobs
from hpcosim_scenarios.model.messages import fault_of
from hpcosim_scenarios.model.platform import check_platform
from hpcosim_scenarios.model.scenario import KINDS, Scalar, Scenario
from hpcosim_scenarios.model.yaml_lines import line_of, parse_yaml
from hpcosim_workloads.logs.job_line import Profile

POSITION = re.compile("[0-9]{1,7}")  # in a list
MOST_BYTES = 2**20


def load_scenario(path: Path, overrides: Mapping[str, Scalar] | None = None) -> Scenario:
    """Return the scenario in a file.

    The scheduler's settings are plain data here: `running.chosen.chosen_by` has the client validate
    them.

    Args:
        path: the YAML file.
        overrides: values to change, by dotted path, such as `workload.load`.

    Raises:
        ScenarioError: the file can't be read, or holds no scenario; names the line and the field.
    """
    tree = _tree(path)
    for field, value in (overrides or {}).items():
        _override(tree, field, value)
    try:
        return _scenario(tree)
    except ScenarioError as error:
        raise located(error, path) from None


def located(error: ScenarioError, path: Path) -> ScenarioError:
    """Return an error that names a field with the file, and the line of the field in it."""
    line = line_of(_read(path), error.field, error.key or None)
    return ScenarioError(error.what, path, line, error.field, error.key)


def _scenario(tree: Any) -> Scenario:
    """Return the scenario that plain data describe.

    Raises:
        ScenarioError: they describe none; names the field, not file and line.
    """
    try:
        scenario = msgspec.convert(tree, Scenario)
    except msgspec.ValidationError as error:
        known = {field for kind in KINDS for field in kind.__struct_fields__}
        raise _with_profile(fault_of(error, known), tree) from None
    check_platform(scenario.platform, tree["platform"])
    check_profiles(scenario.workload)
    check_log_settings(scenario.workload)
    inline_jobs(scenario.workload)
    return scenario


def _tree(path: Path) -> Any:
    """Return the plain data in a YAML file.

    Raises:
        ScenarioError: the file can't be read, or is not YAML.
    """
    text = _read(path)
    try:
        return parse_yaml(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise ScenarioError(f"is not YAML: {error.problem}", path, line) from None
    except (yaml.YAMLError, ValueError) as error:
        raise ScenarioError(f"is not YAML: {' '.join(str(error).split())}", path) from None
    except RecursionError:
        raise ScenarioError("is nested too deep to be a scenario", path) from None


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ScenarioError(f"is larger than {MOST_BYTES} bytes; is it a scenario?", path)
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(f"can't be read: {error.strerror}", path) from None
    except UnicodeDecodeError:
        raise ScenarioError("is not text in UTF-8", path) from None
    except ValueError as error:  # a null byte in the path
        raise ScenarioError(f"can't be read: {error}", path) from None


def _override(tree: Any, field: str, value: Scalar) -> None:
    *parents, last = field.split(".")
    branch = tree
    for name in parents:
        if isinstance(branch, list):  # platform.nodes.0.count
            there = POSITION.fullmatch(name) and int(name) < len(branch)
            branch = branch[int(name)] if there else None
        else:
            branch = branch.setdefault(name, {}) if isinstance(branch, dict) else None
    if not isinstance(branch, dict):
        raise ScenarioError(f"{field!r} can't be set: no such place in the scenario")
    branch[last] = value


def _with_profile(error: ScenarioError, tree: Any) -> ScenarioError:
    """Put the name of the bad profile where msgspec has but three dots."""
    if error.field.startswith(f"{PROFILES}[...]"):
        name = next(name for name, value in tree["workload"]["profiles"].items() if _bad(value))
        field = error.field.replace("[...]", f'["{name}"]')
        return ScenarioError(error.what, field=field, key=error.key)
    return error


def _bad(profile: Any) -> bool:
    try:
        msgspec.convert(profile, Profile)
    except msgspec.ValidationError:
        return True
    return False
