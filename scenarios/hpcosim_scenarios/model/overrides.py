"""Values of a scenario changed from outside: `workload.load=1.2`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import yaml

from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.scenario import Scalar
from hpcosim_scenarios.model.yaml_lines import parse_yaml


def parse(changes: Sequence[str]) -> dict[str, Scalar]:
    """Return the values to change by dotted path; a value is read as JSON or YAML reads it.

    Raises:
        ScenarioError: not FIELD=VALUE with a value that is a single one.
    """
    overrides: dict[str, Scalar] = {}
    for change in changes:
        field, equals, text = change.partition("=")
        try:
            value = _value(text)
        except (yaml.YAMLError, ValueError):
            value = ()
        if not equals or not field or not isinstance(value, Scalar):
            raise ScenarioError(f"{change!r} is not FIELD=VALUE, such as workload.load=1.2")
        overrides[field] = value
    return overrides


def _value(text: str) -> object:
    try:
        return msgspec.json.decode(text)  # text in quotes, for one
    except msgspec.DecodeError:
        return parse_yaml(text)


def as_options(overrides: Mapping[str, Scalar]) -> list[str]:
    """Return the options of a command that `parse` to these."""
    return [
        f"--set={field}={msgspec.json.encode(value).decode()}" for field, value in overrides.items()
    ]
