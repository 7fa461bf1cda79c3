"""The files that a scenario reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from hpcosim_scenarios.model import signals
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_workloads.logs.catalogue import find_trace

FILES = (
    "workload.swf",
    "workload.json",
    "workload.synthetic.swf",
    "economics.tariff",
    "economics.series",
    *signals.FILES,
)
"""Dotted paths of all values that are paths of files, apart from those of the scheduler."""

TRACES = ("workload.trace", "workload.synthetic.trace")
"""Dotted paths of all values that are names of job logs of the catalogue."""


def named_files(scenario: Scenario, folder: Path) -> dict[str, Path]:
    """Return the files that a scenario names, by the dotted path of the value that names them.

    Job logs of the catalogue and files of the scheduler are not among them.

    Args:
        scenario: the scenario.
        folder: the folder of its file, where relative paths start.
    """
    files = {path: _value(scenario, path) for path in FILES}
    return {path: folder / name for path, name in files.items() if name is not None}


def input_files(scenario: Scenario, folder: Path) -> dict[str, Path]:
    """Return the files that a scenario reads, by the dotted path of the value that names them.

    Files of the scheduler are not among them.

    Args:
        scenario: the scenario.
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
        scenario: the scenario.
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
