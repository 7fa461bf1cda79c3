"""Paths of files in the values that an experiment sets: they start at the experiment's folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpcosim_scenarios.model.files import FILES
from hpcosim_schedulers.catalogue.policy_files import from_folder, is_policy_file
from hpcosim_schedulers.catalogue.schedulers import REPLAYED
from hpcosim_schedulers.catalogue.trained import is_trained
from hpcosim_schedulers.power.settings import PATHS

AGENTS = "scheduler.agents"
SCHEDULERS = ("scheduler", "scheduler.name")
POWER = tuple(f"scheduler.power.{name}" for name in PATHS)


def absolute(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return settings whose paths of files are absolute.

    Args:
        settings: values by dotted path.
        folder: the absolute folder where relative paths start.
    """
    return {path: _absolute(path, value, folder) for path, value in settings.items()}


def _absolute(path: str, value: Any, folder: Path) -> Any:
    if isinstance(value, dict):
        return {key: _absolute(f"{path}.{key}", item, folder) for key, item in value.items()}
    if not isinstance(value, str):
        return value
    if path in FILES or path in POWER:
        return str(folder / value) if value else value
    if path in SCHEDULERS or path.startswith(f"{AGENTS}."):
        return _scheduler(value, folder)
    return value


def _scheduler(name: str, folder: Path) -> str:
    """Return the name of a scheduler with the absolute path of its file."""
    kind, colon, file = name.partition(":")
    if is_policy_file(name):
        return from_folder(name, folder)
    if colon and (is_trained(name) or f"{kind}:" in REPLAYED):
        return f"{kind}:{folder / file}"
    return name
