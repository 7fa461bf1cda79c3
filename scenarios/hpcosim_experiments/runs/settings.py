"""The values that a run sets in its scenario, with their places in the experiment file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_experiments.errors import ExperimentFileError
from hpcosim_experiments.model.axes import key_in, path_of, settings_of
from hpcosim_experiments.model.combinations import Axes, Combination
from hpcosim_experiments.model.experiment import Experiment
from hpcosim_experiments.model.paths import absolute


class Settings(NamedTuple):
    """Values to set in a scenario.

    Attributes:
        values: values by dotted path.
        fields: places in the experiment file, such as `$.axes.load[0]`, by dotted path; a value of
            the command line has none.
    """

    values: Mapping[str, Any]
    fields: Mapping[str, str]

    def field_of(self, path: str) -> str | None:
        """Return the place of the value that sets a path, a part of it or a section around it."""
        steps = path.split(".")
        for known, field in self.fields.items():
            parts = known.split(".")
            if parts[: len(steps)] == steps or steps[: len(parts)] == parts:
                return field
        return None


def common_settings(
    experiment: Experiment, overrides: Mapping[str, Any], axes: Axes, folder: Path
) -> Settings:
    """Return what all runs set: the section `set`, and the values of the command line.

    Args:
        experiment: the experiment.
        overrides: values of the command line, by dotted path or short name.
        axes: the axes.
        folder: the absolute folder of the experiment file, where the paths in it start.

    Raises:
        ExperimentFileError: a path is unknown, or an axis sets it in all runs.
    """
    own = _paths(experiment.set, "$.set")
    given = _paths(overrides, "")
    for path, field in (*own.fields.items(), *((path, "") for path in given.values)):
        for name, axis in axes.items():
            if all(_is_within(path, value.settings) for value in axis.values):
                what = f"the axis {name!r} sets {path} in all runs; remove one of the two"
                raise ExperimentFileError(what, field=field or f"override {path}")
    own_values = absolute(own.values, folder)
    kept = {path: each for path, each in own_values.items() if not _is_within(path, given.values)}
    values = {**kept, **absolute(given.values, Path.cwd())}
    return Settings(values, {path: own.fields[path] for path in kept})


def settings_of_run(common: Settings, run: Combination, folder: Path) -> Settings:
    """Return what a run sets. A value of an axis replaces a common one, and those below its path.

    Args:
        common: what all runs set.
        run: the values of the axes.
        folder: as for `common_settings`.

    Raises:
        ExperimentFileError: two axes set the same path.
    """
    values: dict[str, Any] = {}
    fields: dict[str, str] = {}
    for value in run.values:
        for path in value.settings:
            if path in values:
                what = f"{path} is also set by {fields[path].removeprefix('$.')}"
                raise ExperimentFileError(what, field=value.field)
            fields[path] = value.field
        values |= absolute(value.settings, folder)
    kept = {path: each for path, each in common.values.items() if not _is_within(path, values)}
    known = {path: field for path, field in common.fields.items() if path in kept}
    return Settings({**kept, **values}, {**known, **fields})


def _is_within(path: str, settings: Mapping[str, Any]) -> bool:
    """Return whether settings set a path or a section around it."""
    steps = path.split(".")
    return any(".".join(steps[:end]) in settings for end in range(1, len(steps) + 1))


def _paths(values: Mapping[str, Any], field: str) -> Settings:
    found: dict[str, Any] = {}
    fields: dict[str, str] = {}
    for name, value in values.items():
        place = key_in(field, name) if field else f"override {name}"
        setting = settings_of(path_of(name, place), value, place)
        found |= setting
        fields |= dict.fromkeys(setting, place)
    return Settings(found, fields)
