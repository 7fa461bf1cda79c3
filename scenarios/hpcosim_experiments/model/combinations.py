"""The combinations of the axes of an experiment."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from hpcosim_experiments.errors import ExperimentFileError
from hpcosim_experiments.model.axes import AxisValue, ResolvedAxis, identity, key_in, resolve
from hpcosim_experiments.model.experiment import MOST_RUNS, Experiment
from hpcosim_experiments.statistics.rows import Label
from hpcosim_scenarios.model.messages import nearest, shown

Axes = Mapping[str, ResolvedAxis]


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
    """Return the values that an item of `runs` or `exclude` names, in the order of the axis.

    It names a label, a value, a pattern such as `timeout *`, or a list of these.
    """
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
