"""The experiment file: its types, its reader, its axes and their combinations."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from hpcosim_experiments.errors import ExperimentFileError
from hpcosim_experiments.report.settings import (
    BoxFigure,
    HeatFigure,
    LineFigure,
    ParetoFigure,
    ReportSettings,
)
from hpcosim_experiments.statistics.measured import MeasureSettings
from hpcosim_experiments.statistics.rows import Label
from hpcosim_scenarios.errors import FileError, ScenarioError
from hpcosim_scenarios.model.messages import Name, nearest, scenario_error, shown
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.model.yaml_tree import line_of, read_text, read_tree
from hpcosim_schedulers.catalogue.schedulers import GROUPS, canonical_name

MOST_RUNS = 1_000_000
Text = Annotated[str, Meta(min_length=1, max_length=200)]


KIND = "experiment"
MOST_VALUES = 20_000
"""Maximum number of lines and commas in a file, counted before YAML is read, which takes long."""
AXES = "$.axes[...]"  # how msgspec names a value in the mapping


# Labels of the values of an axis: short texts, unique within the axis.

MOST_CHARACTERS = 60


Axes = Mapping[str, "ResolvedAxis"]


class Axis(Struct, frozen=True, forbid_unknown_fields=True):
    """An axis with a name of its own, or with names for its values.

    Attributes:
        path: the dotted path in the scenario that the axis sets, such as `workload.load`, or a
            short name. Null: the axis' name is the path, if it is a short name or a dotted path;
            otherwise each value of the axis is a mapping of paths to values.
        values: a list of values, or a mapping of labels to values.
    """

    values: list[Any] | dict[str, Any]
    path: str | None = None


class Experiment(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An experiment: a scenario, the values to vary in it, and what to do with the results.

    Attributes:
        name: name of the experiment in results and reports.
        scenario: path of the scenario file, relative to the experiment's folder, or the name of a
            shipped scenario. It may be left out if `scenario` is an axis.
        set: values to change in the scenario in all runs, by dotted path.
        axes: the values to vary, by axis: a list of values of a path or of a short name, or a
            mapping. The order of the axes is the order of the runs; the last one varies first.
        combine: `product`: run all combinations of the axes; `list`: run only the combinations in
            `runs`.
        runs: combinations to run, in addition to the product if there is one. Each maps every axis
            to a label or value, a pattern of labels such as `timeout *`, or a list of these; the
            product of what it names is run.
        exclude: combinations to leave out of the product. Each maps some axes to the same.
        measure: the measured period and classes of jobs.
        report: tables and figures of the report.
        jobs: also keep a row per job of each run.
    """

    name: Name
    scenario: str | None = None
    set: dict[str, Any] = {}
    axes: dict[Text, list[Any] | Axis] = {}
    combine: Literal["product", "list"] = "product"
    runs: list[dict[str, Any]] = []
    exclude: list[dict[str, Any]] = []
    measure: MeasureSettings = MeasureSettings()
    report: ReportSettings = ReportSettings()
    jobs: bool = False


KINDS: tuple[type[Struct], ...] = (
    Experiment,
    Axis,
    MeasureSettings,
    ReportSettings,
    LineFigure,
    ParetoFigure,
    BoxFigure,
    HeatFigure,
)
"""The types of all mappings in an experiment, for messages; the first is that of the whole file."""


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


def labels_of(values: Sequence[object]) -> list[Label]:
    """Return the labels of the values of an axis.

    Values of one scalar type (text, numbers, or true and false) are their own labels. Otherwise
    the labels are texts. Equal texts are numbered from the second on.

    Args:
        values: plain data.
    """
    if all(isinstance(value, str) for value in values) or all(
        isinstance(value, bool) for value in values
    ):
        return list(values)  # type: ignore[arg-type]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        real = any(isinstance(value, float) for value in values)
        return [float(value) if real else value for value in values]  # type: ignore
    return list(_unique([_shortened(text_of(value)) for value in values]))


def text_of(value: object) -> str:
    """Return a value as a label shows it.

    Example:
        >>> text_of({"name": "timeout", "timeout_s": 900}), text_of([0, 2000])
        ('timeout(timeout_s=900)', '0-2000')
    """
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case dict():
            return _of_mapping(value)
        case [int() | float() as first, int() | float() as last]:  # a window
            return f"{text_of(first)}-{text_of(last)}"
        case list():
            return f"[{_joined(text_of(item) for item in value)}]"
    return str(value)


def _of_mapping(value: Mapping[str, Any]) -> str:
    """Return the text of a mapping; its `name` or `model` comes first."""
    title = next((key for key in ("name", "model") if isinstance(value.get(key), str)), None)
    rest = _joined(f"{key}={text_of(item)}" for key, item in value.items() if key != title)
    if title is None:
        return rest or "{}"
    return f"{value[title]}({rest})" if rest else str(value[title])


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(texts)


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 3]}..."


def _unique(texts: Sequence[str]) -> Iterable[str]:
    taken, counts = set(texts), Counter[str]()
    for text in texts:
        counts[text] += 1
        numbered = text
        while counts[text] > 1 and numbered in taken:
            numbered = f"{text} ({counts[text]})"
            counts[text] += numbered in taken
        taken.add(numbered)
        yield numbered


SCENARIO = "scenario"
"""The path that stands for the scenario file itself."""

SHORT_NAMES: Mapping[str, str] = {
    "scheduler": "scheduler",
    "power": "scheduler.power",
    "power_awareness": "scheduler.power_awareness",
    "load": "workload.load",
    "seed": "seed",
    "window": "workload.jobs",
    "window_s": "workload.window_s",
    "trace": "workload.trace",
    "scenario": SCENARIO,
}
"""Dotted paths of scenarios by short name. A scheduler that is a text is set at `scheduler.name`:
power manager and agents of the scenario stay."""


class AxisValue(NamedTuple):
    """A value of an axis.

    Attributes:
        label: its label, unique within the axis.
        value: plain data, as the file has it.
        settings: values to set, by dotted path.
        field: place in the experiment file, such as `$.axes.load[0]`.
    """

    label: Label
    value: object
    settings: Mapping[str, Any]
    field: str


@dataclass(frozen=True)
class ResolvedAxis:
    """An axis with its values.

    Attributes:
        name: name of its column in the results.
        path: the dotted path that it sets; empty: each value sets paths of its own.
        values: the values, in the order of the file.
    """

    name: str
    path: str
    values: tuple[AxisValue, ...]

    @cached_property
    def by_label(self) -> Mapping[bytes, AxisValue]:
        """The values by the identity of their label."""
        return {identity(value.label): value for value in self.values}

    @cached_property
    def by_value(self) -> Mapping[bytes, AxisValue]:
        """The values by their own identity."""
        return {identity(value.value): value for value in self.values}


def identity(value: object) -> bytes:
    """Return a key that is equal for equal plain data: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return msgspec.json.encode(value, order="sorted")


def resolve(name: str, axis: Axis | Sequence[Any], field: str) -> ResolvedAxis:
    """Return an axis with its values.

    Args:
        axis: the axis in the file.
        field: its place in the file.

    Raises:
        ExperimentFileError: the name or the path is unknown, it has no value or one twice, a number
            is not finite, or a value is no mapping of paths although the axis has no path.
    """
    if not name.isprintable():
        raise ExperimentFileError("expected a name of printable characters", field=field)
    given = axis if isinstance(axis, Axis) else Axis(list(axis))
    named = isinstance(given.values, dict)
    place = f"{field}.values" if isinstance(axis, Axis) else field
    if given.path is not None:
        path = path_of(given.path, f"{field}.path")
    else:
        path = "" if named and not _is_path(name) else path_of(name, field)
    if not given.values:
        raise ExperimentFileError("expected at least one value", field=place)
    _check_finite(given.values, place)
    if isinstance(given.values, dict):
        fields = [key_in(place, label) for label in given.values]
        labels: list[Label] = list(given.values)
        plain = list(given.values.values())
    else:
        _check_different(given.values, place)
        plain, fields = _expanded(path, given.values, place)
        labels = labels_of(plain)
    found = [
        AxisValue(label, value, settings_of(path, value, at), at)
        for label, value, at in zip(labels, plain, fields, strict=True)
    ]
    return ResolvedAxis(name, path, tuple(found))


def path_of(name: str, field: str) -> str:
    """Return the dotted path of a short name, of a key of a scenario or of a dotted path.

    Raises:
        ExperimentFileError: it is none of them.
    """
    if not _is_path(name):
        known = [*SHORT_NAMES, *Scenario.__struct_fields__]
        near = "window" if name == "jobs" else nearest(name, known)
        known_names = f"expected a dotted path, such as workload.load, or {', '.join(SHORT_NAMES)}"
        advice = f"did you mean {near!r}?" if near else known_names
        raise ExperimentFileError(f"unknown path {name!r}; {advice}", field=field)
    return SHORT_NAMES.get(name, name)


def settings_of(path: str, value: Any, field: str) -> dict[str, Any]:
    """Return what a value of an axis sets, by dotted path.

    Args:
        path: path of the axis; empty: the value is a mapping of paths to values.
        field: its place in the file.

    Raises:
        ExperimentFileError: the value is no mapping of paths, or a path is unknown.
    """
    if path == "scheduler" and isinstance(value, str):
        return {"scheduler.name": value}
    if path == SCENARIO and not isinstance(value, str):
        raise ExperimentFileError(f"expected a scenario file, got {shown(value)}", field=field)
    if path:
        return {path: value}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        what = f"expected paths with values, such as {{scheduler: easy}}, got {shown(value)}"
        raise ExperimentFileError(f"{what}; give the axis a path if it sets one", field=field)
    found: dict[str, Any] = {}
    for key, item in value.items():
        place = key_in(field, key)
        found |= settings_of(path_of(key, place), item, place)
    return found


def key_in(field: str, key: str) -> str:
    """Return the place of a key in a mapping, such as `$.axes.load` or `$.set["a.b"]`."""
    return f"{field}.{key}" if key.isidentifier() else f'{field}["{key}"]'


def _is_path(name: str) -> bool:
    keys = name.split(".")
    return (
        name in SHORT_NAMES
        or keys[0] in Scenario.__struct_fields__
        or (len(keys) > 1 and all(keys))
    )


def _expanded(path: str, values: Sequence[Any], place: str) -> tuple[list[Any], list[str]]:
    """Return values and their places, with groups of schedulers replaced by their members."""
    schedulers = path in ("scheduler", "scheduler.name")
    found: dict[bytes, tuple[Any, str]] = {}
    for number, value in enumerate(values):
        named = schedulers and isinstance(value, str)
        for each in GROUPS.get(canonical_name(value), [value]) if named else [value]:
            found.setdefault(identity(each), (each, f"{place}[{number}]"))
    return [value for value, _ in found.values()], [field for _, field in found.values()]


def _check_finite(value: object, field: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ExperimentFileError(f"expected a finite number, got {shown(value)}", field=field)
    if isinstance(value, dict):
        for key, item in value.items():
            _check_finite(item, key_in(field, str(key)))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            _check_finite(item, f"{field}[{number}]")


def _check_different(values: Sequence[object], place: str) -> None:
    seen: set[bytes] = set()
    for number, value in enumerate(values):
        if (key := identity(value)) in seen:
            what = f"the value {shown(value)} is there twice"
            raise ExperimentFileError(what, field=f"{place}[{number}]")
        seen.add(key)


class Combination(NamedTuple):
    """One value of each axis, in the order of the axes."""

    values: tuple[AxisValue, ...]


class Combinations(NamedTuple):
    """All combinations of an experiment.

    Attributes:
        axes: the axes by name, in order.
        runs: the combinations in the order of the experiment, all different: the product with the
            last axis varying first, then the listed combinations.
    """

    axes: Axes
    runs: Sequence[Combination]

    def labels(self, run: Combination) -> dict[str, Label]:
        """Return the labels of a combination by axis."""
        return {name: value.label for name, value in zip(self.axes, run.values, strict=True)}


def combinations_of(experiment: Experiment) -> Combinations:
    """Return the combinations of an experiment.

    Raises:
        ExperimentFileError: an axis or a label is unknown, a combination is incomplete, or no
            combination is left. It has the field, not file and line.
    """
    axes = _declared(experiment) or _from_runs(experiment.runs)
    if not axes:
        what = "expected axes, such as `axes: {scheduler: [fcfs, easy]}`, or a list of runs"
        raise ExperimentFileError(what)
    if experiment.combine == "list" and not experiment.runs:
        raise ExperimentFileError("combine: list needs combinations in runs", field="$.combine")
    product = experiment.combine == "product" and experiment.axes
    runs = list(_product(experiment, axes)) if product else []
    if product and not runs:
        raise ExperimentFileError("no combination is left", field="$.exclude")
    for at, run in enumerate(experiment.runs):
        runs += _listed(axes, run, f"$.runs[{at}]")
    return Combinations(axes, _first_of(runs))


def _declared(experiment: Experiment) -> Axes:
    return {
        name: resolve(name, axis, key_in("$.axes", name)) for name, axis in experiment.axes.items()
    }


def _from_runs(runs: Sequence[Mapping[str, Any]]) -> Axes:
    """Return the axes of a list of runs: their keys, with the values in order of occurrence."""
    values: dict[str, dict[bytes, Any]] = {}
    for run in runs:
        for name, value in run.items():
            values.setdefault(name, {}).setdefault(identity(value), value)
    return {name: resolve(name, [*each.values()], "$.runs") for name, each in values.items()}


def _product(experiment: Experiment, axes: Axes) -> Iterator[Combination]:
    """Yield the product of the axes without the excluded combinations."""
    _check_count((len(axis.values) for axis in axes.values()), "$.axes")
    excluded = [
        _pattern(axes, pattern, f"$.exclude[{at}]") for at, pattern in enumerate(experiment.exclude)
    ]
    for values in itertools.product(*(axis.values for axis in axes.values())):
        if not any(_matches(values, pattern) for pattern in excluded):
            yield Combination(values)


Pattern = Mapping[int, Sequence[AxisValue]]
"""Values of some axes, by position of the axis."""


def _pattern(axes: Axes, given: Mapping[str, Any], field: str) -> Pattern:
    names = list(axes)
    pattern = {}
    for name, wanted in given.items():
        axis = _axis(axes, name, field)
        pattern[names.index(name)] = _values(axis, wanted, key_in(field, name))
    if not pattern:
        raise ExperimentFileError("expected at least one axis", field=field)
    return pattern


def _matches(values: Sequence[AxisValue], pattern: Pattern) -> bool:
    return all(any(values[at] is one for one in wanted) for at, wanted in pattern.items())


def _listed(axes: Axes, given: Mapping[str, Any], field: str) -> Iterator[Combination]:
    """Yield the combinations of an item of `runs`: the product of the values that it names."""
    pattern = _pattern(axes, given, field)
    if missing := [name for name in axes if name not in given]:
        what = f"expected a value for each axis; missing: {', '.join(missing)}"
        raise ExperimentFileError(what, field=field)
    _check_count(map(len, pattern.values()), field)
    for values in itertools.product(*(pattern[at] for at in range(len(axes)))):
        yield Combination(values)


def _check_count(lengths: Iterable[int], field: str) -> None:
    count = math.prod(lengths)
    if count > MOST_RUNS:
        what = f"expected at most {MOST_RUNS:,} combinations, got {count:,}"
        raise ExperimentFileError(what, field=field)


def _values(axis: ResolvedAxis, wanted: object, field: str) -> list[AxisValue]:
    """Return the values that an item of `runs` or `exclude` names, in the order of the axis."""
    if isinstance(wanted, list) and _find(axis, wanted) is None:
        named = {id(value) for each in wanted for value in _values(axis, each, field)}
        return [value for value in axis.values if id(value) in named]
    if isinstance(wanted, str) and "*" in wanted and _find(axis, wanted) is None:
        found = [value for value in axis.values if fnmatchcase(str(value.label), wanted)]
        return found or [_value(axis, wanted, field)]
    return [_value(axis, wanted, field)]


def _axis(axes: Axes, name: str, field: str) -> ResolvedAxis:
    if name in axes:
        return axes[name]
    near = nearest(name, axes)
    advice = f"did you mean {near!r}?" if near else f"the axes are {', '.join(axes)}"
    raise ExperimentFileError(f"unknown axis {name!r}; {advice}", field=field, key=name)


def _value(axis: ResolvedAxis, wanted: object, field: str) -> AxisValue:
    found = _find(axis, wanted)
    if found is not None:
        return found
    labels = [str(each.label) for each in axis.values]
    near = nearest(str(wanted), labels)
    advice = f"did you mean {near!r}?" if near else f"expected one of {', '.join(labels)}"
    what = f"{axis.name} has no value {shown(wanted)}; {advice}"
    raise ExperimentFileError(what, field=field)


def _find(axis: ResolvedAxis, wanted: object) -> AxisValue | None:
    """Return the value with a label or, if there is none, the equal value."""
    key = identity(wanted)
    found = axis.by_label.get(key)
    return axis.by_value.get(key) if found is None else found


def _first_of(runs: Sequence[Combination]) -> list[Combination]:
    """Return the combinations without those that are there before."""
    found: dict[tuple[int, ...], Combination] = {}
    for run in runs:
        found.setdefault(tuple(map(id, run.values)), run)
    return list(found.values())
