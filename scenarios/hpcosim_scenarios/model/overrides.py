"""Values of a scenario that a caller changes by path, such as `workload.load=1.2`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import yaml

from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.messages import shown, value_at
from hpcosim_scenarios.model.yaml_tree import parse_yaml, steps_of

Overrides = Mapping[str, Any]
"""Values to change in a scenario, by dotted path; a value is plain data of any kind."""

POSITION = re.compile("[0-9]{1,7}")

SELECTORS = ("scheduler.power.name", "workload.synthetic.model")
"""Paths of names that decide which other keys their mapping has."""


def parse(changes: Sequence[str]) -> dict[str, Any]:
    """Return the overrides in texts of the form PATH=VALUE; a value is JSON or YAML.

    Raises:
        ScenarioError: a text has another form.
    """
    overrides: dict[str, Any] = {}
    for change in changes:
        path, equals, text = change.partition("=")
        if not equals or not path.strip(".") or "" in path.split("."):
            raise ScenarioError(f"expected PATH=VALUE, such as workload.load=1.2, got {change!r}")
        overrides[path] = value_of(text, f"override {path}")
    return overrides


def value_of(text: str, field: str) -> Any:
    """Return the value of a text in JSON or YAML.

    Args:
        field: where the text stands, for errors.

    Raises:
        ScenarioError: the text is neither.
    """
    try:
        return msgspec.json.decode(text)  # YAML reads some JSON texts differently
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return parse_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        why = getattr(error, "problem", None) or " ".join(str(error).split())
        what = f"expected a YAML value, such as 1.2, text, [0, 2000] or {{name: easy}}: {why}"
        raise ScenarioError(what, field=field) from None


def as_options(overrides: Overrides) -> list[str]:
    """Return the command-line options that `parse` turns into these overrides."""
    return [
        f"--set={path}={msgspec.json.encode(value).decode()}" for path, value in overrides.items()
    ]


def apply(tree: Any, overrides: Overrides) -> None:
    """Change plain data of a scenario.

    The order of overrides makes no difference: a section is set before what is in it, and a name
    in `SELECTORS`, which removes the settings that belong to the old name, before those settings.

    Raises:
        ScenarioError: a path leads nowhere, or into a mapping whose name in `SELECTORS` is missing.
    """
    for path in sorted(overrides, key=lambda path: (path.count("."), path not in SELECTORS)):
        _set(tree, path, overrides[path])
        expand_names(tree)
    for path in overrides:
        _check_selected(tree, path)


def _check_selected(tree: Any, path: str) -> None:
    for selector in SELECTORS:
        parent, _, name = selector.rpartition(".")
        mapping = value_at(tree, f"$.{parent}")
        if path.startswith(f"{parent}.") and isinstance(mapping, dict) and name not in mapping:
            raise ScenarioError(f"also set {selector}", field=f"override {path}")


def expand_names(tree: Any) -> None:
    """Replace a name where a mapping with a `name` is expected: `scheduler: easy`."""
    if not isinstance(tree, dict):
        return
    if isinstance(tree.get("scheduler"), str):
        tree["scheduler"] = {"name": tree["scheduler"]}
    scheduler = tree.get("scheduler")
    if isinstance(scheduler, dict) and isinstance(scheduler.get("power"), str):
        scheduler["power"] = {"name": scheduler["power"]}


def _set(tree: Any, path: str, value: Any) -> None:
    *parents, last = path.split(".")
    branch, place = tree, ""
    for name in parents:
        key = _key(branch, name, path, place)
        if isinstance(branch, dict) and branch.get(key) is None:
            branch[key] = {}
        branch, place = branch[key], f"{place}.{name}".lstrip(".")
    key = _key(branch, last, path, place)
    if path in SELECTORS and isinstance(branch, dict) and _plain(branch.get(key)) != _plain(value):
        branch.clear()
    branch[key] = value


def _plain(name: object) -> str:
    """Return a name without what spellings of the same name differ in."""
    return str(name).lower().replace("_", "-")


def _key(branch: Any, name: str, path: str, place: str) -> Any:
    """Return the key or position that a step of a path stands for."""
    where = place or "the scenario"
    if isinstance(branch, dict):
        return name
    if not isinstance(branch, list):
        what = f"{where} is {shown(branch)}, which has no key {name!r}"
    elif not POSITION.fullmatch(name):
        what = f"{where} is a list; expected a position from 0 to {len(branch) - 1}, got {name!r}"
    elif int(name) < len(branch):
        return int(name)
    else:
        what = f"{where} has {len(branch)} items; expected a position from 0 to {len(branch) - 1}"
        what += f", got {name}"
    raise ScenarioError(what, field=f"override {path}")


def blame_override(error: ScenarioError, overrides: Overrides) -> ScenarioError | None:
    """Return an error with the path of the override that caused it; None: none did."""
    field = [str(step) for step in steps_of(error.field)]
    fault = [*field, error.key] if error.key else field
    for path in overrides:
        steps = path.split(".")
        if steps[: len(fault)] == fault or fault[: len(steps)] == steps:
            name = path if len(steps) >= len(fault) else ".".join(fault)
            return ScenarioError(error.what, field=f"override {name}", key=error.key)
    return None
