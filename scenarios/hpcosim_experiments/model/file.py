"""Reader for experiment files. An error has the file, the line and the field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from hpcosim_experiments.errors import ExperimentFileError
from hpcosim_experiments.model.axes import key_in
from hpcosim_experiments.model.experiment import KINDS, Axis, Experiment
from hpcosim_scenarios.errors import FileError, ScenarioError
from hpcosim_scenarios.model.messages import scenario_error
from hpcosim_scenarios.model.yaml_file import read_text, read_tree
from hpcosim_scenarios.model.yaml_lines import line_of

KIND = "experiment"
MOST_VALUES = 20_000
"""Maximum number of lines and commas in a file, counted before YAML is read, which takes long."""
AXES = "$.axes[...]"  # how msgspec names a value in the mapping


def load_experiment(path: Path) -> Experiment:
    """Return the experiment in a file. Its axes and its scenario are not checked here.

    Raises:
        ExperimentFileError: the file cannot be read, or its content is no experiment. The error
            has the line and the field.
    """
    try:
        text = read_text(path, KIND)
        if (count := text.count(",") + text.count("\n")) > MOST_VALUES:
            what = f"expected at most {MOST_VALUES:,} lines and commas, got {count:,}"
            raise ExperimentFileError(what, path)
        tree = read_tree(path, KIND)
    except ScenarioError as error:
        raise ExperimentFileError(*error.args) from None
    try:
        return msgspec.convert(tree, Experiment)
    except msgspec.ValidationError as error:
        raise located(scenario_error(_with_axis(error, tree), tree, KINDS), path) from None


def located(error: FileError, path: Path) -> ExperimentFileError:
    """Return an error about a field of an experiment file with its line."""
    line = line_of(read_text(path, KIND), error.field, error.key or None)
    return ExperimentFileError(error.what, path, line, error.field, error.key)


def _with_axis(error: msgspec.ValidationError, tree: Any) -> msgspec.ValidationError:
    """Put the name of the invalid axis into an error."""
    if AXES not in str(error):
        return error
    name = next(name for name, value in tree["axes"].items() if _invalid(value))
    return msgspec.ValidationError(str(error).replace(AXES, key_in("$.axes", name)))


def _invalid(axis: Any) -> bool:
    try:
        msgspec.convert(axis, list[Any] | Axis)
    except msgspec.ValidationError:
        return True
    return False
