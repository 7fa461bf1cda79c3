"""The axes of an experiment: the paths that they set, and their values with labels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from hpcosim_experiments.errors import ExperimentFileError
from hpcosim_experiments.model.experiment import Axis
from hpcosim_experiments.statistics.rows import Label
from hpcosim_scenarios.model.messages import nearest, shown
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_schedulers.catalogue.schedulers import GROUPS, canonical_name

# Labels of the values of an axis: short texts, unique within the axis.

MOST_CHARACTERS = 60


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
        name: name of the axis.
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
        value: the value.
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
    """Return values and their places, with groups of schedulers replaced by their members.

    A member of several groups is there once.
    """
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
