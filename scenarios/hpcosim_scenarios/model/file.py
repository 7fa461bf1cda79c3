"""Reader for scenario files. An error has the file, the line and the field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.jobs import PROFILES, check_log_settings, check_profiles, inline_jobs
from hpcosim_scenarios.model.messages import scenario_error
from hpcosim_scenarios.model.overrides import Overrides, apply, blame_override, expand_names
from hpcosim_scenarios.model.platform import check_platform
from hpcosim_scenarios.model.scenario import KINDS, Scenario
from hpcosim_scenarios.model.yaml_lines import DuplicateKeyError, line_of, parse_yaml
from hpcosim_workloads.logs.job_line import JobProfile

MOST_BYTES = 2**20


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
    tree = _tree(path)
    expand_names(tree)
    apply(tree, overrides or {})
    try:
        return _scenario(tree)
    except ScenarioError as error:
        raise located(error, path, overrides) from None


def located(error: ScenarioError, path: Path, overrides: Overrides | None = None) -> ScenarioError:
    """Return an error with its origin: the override, or the file and the line of its field."""
    if overridden := blame_override(error, overrides or {}):
        return overridden
    line = line_of(_read(path), error.field, error.key or None)
    return ScenarioError(error.what, path, line, error.field, error.key)


def _scenario(tree: Any) -> Scenario:
    """Convert plain data to a scenario.

    Raises:
        ScenarioError: the data are no scenario; has the field, not file and line.
    """
    try:
        scenario = msgspec.convert(tree, Scenario)
    except msgspec.ValidationError as error:
        raise _with_profile(scenario_error(error, tree, KINDS), tree) from None
    check_platform(scenario.platform, tree["platform"])
    check_profiles(scenario.workload)
    check_log_settings(scenario.workload)
    inline_jobs(scenario.workload)
    return scenario


def _tree(path: Path) -> Any:
    """Return the plain data in a YAML file.

    Raises:
        ScenarioError: the file cannot be read, or is not YAML.
    """
    text = _read(path)
    try:
        return parse_yaml(text)
    except DuplicateKeyError as error:
        raise ScenarioError(str(error.problem), path, error.problem_mark.line + 1) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise ScenarioError(f"is not YAML: {error.problem}", path, line) from None
    except (yaml.YAMLError, ValueError) as error:
        raise ScenarioError(f"is not YAML: {' '.join(str(error).split())}", path) from None
    except RecursionError:
        raise ScenarioError("is nested too deeply for a scenario", path) from None


def _read(path: Path) -> str:
    try:
        if (size := path.stat().st_size) > MOST_BYTES:
            what = f"expected a scenario of at most {MOST_BYTES} bytes, got {size} bytes"
            raise ScenarioError(what, path)
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(f"cannot be read: {error.strerror}", path) from None
    except UnicodeDecodeError:
        raise ScenarioError("expected text in UTF-8", path) from None
    except ValueError as error:  # a null byte in the path
        raise ScenarioError(f"cannot be read: {error}", path) from None


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
