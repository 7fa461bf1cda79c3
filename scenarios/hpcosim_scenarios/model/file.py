"""Reading a scenario's file; what is wrong in it is told with its line, field and a remedy."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from hpcosim_client.catalogue.power import no_such_manager
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.jobs import PROFILES, check_profiles, inline_jobs
from hpcosim_scenarios.model.power_check import FIELD as POWER
from hpcosim_scenarios.model.power_check import check_power
from hpcosim_scenarios.model.scenario import KINDS, Scalar, Scenario
from hpcosim_scenarios.model.yaml_lines import line_of, parse_yaml
from hpcosim_workloads.logs.job_line import Profile

MOST_BYTES = 2**20


def load_scenario(path: Path, overrides: Mapping[str, Scalar] | None = None) -> Scenario:
    """Return the scenario in a file.

    Args:
        path: the YAML file.
        overrides: values to change, by dotted path, such as `workload.load`.

    Raises:
        ScenarioError: it can't be read, or is none; names the line and the field.
    """
    text = _read(path)
    try:
        tree = parse_yaml(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise ScenarioError(f"is not YAML: {error.problem}", path, line) from None
    except (yaml.YAMLError, ValueError) as error:
        raise ScenarioError(f"is not YAML: {' '.join(str(error).split())}", path) from None
    except RecursionError:
        raise ScenarioError("is nested too deep to be a scenario", path) from None
    for field, value in (overrides or {}).items():
        _override(tree, field, value)
    try:
        scenario = msgspec.convert(tree, Scenario)
        check_profiles(scenario.workload)
        inline_jobs(scenario.workload)
        check_power(scenario)
    except msgspec.ValidationError as error:
        what, field = _what_and_field(str(error), tree)
        line = line_of(text, field, _unknown_key(what))
        raise ScenarioError(_helpful(what, field), path, line, field) from None
    except ScenarioError as error:
        line = line_of(text, error.field, None)
        raise ScenarioError(error.what, path, line, error.field) from None
    return scenario


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
            branch = branch[int(name)] if name.isdigit() and int(name) < len(branch) else None
        else:
            branch = branch.setdefault(name, {}) if isinstance(branch, dict) else None
    if not isinstance(branch, dict):
        raise ScenarioError(f"{field!r} can't be set: no such place in the scenario")
    branch[last] = value


def _what_and_field(error: str, tree: Any) -> tuple[str, str]:
    """Take a message apart, and put the name of a profile where it has but three dots."""
    what, _, where = error.partition(" - at `")
    found = re.search(r"\$[^`]*", where)
    field = found[0] if found else ""
    if where.startswith("key`"):
        what += "; a key is text, so a number must stand in quotes"
    if field.startswith(f"{PROFILES}[...]"):
        name = next(name for name, value in tree["workload"]["profiles"].items() if _bad(value))
        field = field.replace("[...]", f'["{name}"]')
    return what, field


def _bad(profile: Any) -> bool:
    try:
        msgspec.convert(profile, Profile)
    except msgspec.ValidationError:
        return True
    return False


def _unknown_key(what: str) -> str | None:
    found = re.search(r"unknown field `(.*)`", what)
    return found[1] if found else None


def _helpful(what: str, field: str) -> str:
    """Add the nearest known key, or power manager, to a message about an unknown one."""
    if field == f"{POWER}.name" and (found := re.fullmatch(r"Invalid value '(.*)'", what)):
        return no_such_manager(found[1])
    unknown = _unknown_key(what)
    if unknown is None:
        what = re.sub(r"Object missing required field (`.*`)", r"\1 is missing", what)
        return what.replace("Object", "a mapping").replace("`object`", "a mapping")
    known = {field for kind in KINDS for field in kind.__struct_fields__}
    near = difflib.get_close_matches(unknown, sorted(known), n=1)
    advice = f"; did you mean {near[0]!r}?" if near and near != [unknown] else ""
    return f"unknown key {unknown!r}{advice}"
