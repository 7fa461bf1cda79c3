"""Settings in which compared runs differ, apart from their schedulers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hpcosim_view.errors import ReportError
from hpcosim_view.run.folder import read_settings
from hpcosim_view.runs import clean

EXPECTED = ("name", "scheduler")
"""Sections of a scenario that may differ."""
LOG_PATHS = ("swf", "json", "trace")
"""Settings of a workload that are paths of files; equal files may have different paths."""
MAX_SHOWN = 10
MAX_LEVELS = 100
MAX_CHARACTERS = 40  # of a value

Difference = tuple[str, Any, Any]
"""Dotted path of a setting, its value in the first run and in the other one."""


def different_settings(folders: Sequence[Path], names: Sequence[str]) -> list[str]:
    """Return notices of how the settings of runs differ from those of the first one.

    Runs of older versions, which recorded no settings, count as equal.

    Args:
        folders: results folders.
        names: name of each run for the text.

    Returns:
        A text for each run with other settings.

    Raises:
        ReadResultsError: a folder has no results that can be read.
        ReportError: the settings of a run are nested too deeply.
    """
    first, *others = [_comparable(read_settings(folder)) for folder in folders]
    found = []
    for folder, name, other in zip(folders[1:], names[1:], others, strict=True):
        try:
            differences = list(_differences(first, other)) if first and other else []
            if differences:
                found.append(_text(names[0], name, differences))
        except RecursionError:
            raise ReportError(f"{folder / 'run.json'}: damaged: too many levels") from None
    return found


def _comparable(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is compared: a log with a checksum counts by its content, not by its path."""
    if not settings["effective_scenario"]:
        return {}
    chosen = {
        key: value for key, value in settings["effective_scenario"].items() if key not in EXPECTED
    }
    checksum = settings["workload_source"].get("sha256")
    if checksum and isinstance(chosen.get("workload"), Mapping):
        chosen["workload"] = {
            key: value
            for key, value in chosen["workload"].items()
            if key not in LOG_PATHS or not isinstance(value, str)
        }
    return {**chosen, "workload_source": {"sha256": checksum}}


def _differences(one: Any, other: Any, path: str = "", level: int = 0) -> Iterator[Difference]:
    """Yield the settings that differ; a section that is missing is one without settings."""
    if level > MAX_LEVELS:
        raise RecursionError
    if one == other:
        return
    sections = [value for value in (one, other) if isinstance(value, Mapping)]
    if sections and all(isinstance(value, Mapping) or value is None for value in (one, other)):
        for key in dict.fromkeys(key for section in sections for key in section):
            first, second = ((value or {}).get(key) for value in (one, other))
            below = f"{path}.{key}" if path else str(key)
            yield from _differences(first, second, below, level + 1)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, (first, second) in enumerate(zip(one, other, strict=True)):
            yield from _differences(first, second, f"{path}[{at}]", level + 1)
    else:
        yield path, one, other


def _text(first: str, name: str, differences: Sequence[Difference]) -> str:
    shown = "; ".join(
        f"{clean(path)}: {_value(one)} and {_value(other)}"
        for path, one, other in differences[:MAX_SHOWN]
    )
    left = len(differences) - MAX_SHOWN
    more = f"; {left} more setting{'' if left == 1 else 's'}" if left > 0 else ""
    return f"The runs {first} and {name} have different settings: {shown}{more}."


def _value(value: Any) -> str:
    """Return a value as JSON, cut off if it is long."""
    if value is None:
        return "not set"
    text = clean(value if isinstance(value, str) else json.dumps(value))
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}..."
