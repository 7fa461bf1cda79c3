"""Combinations of the axes of an experiment."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_experiments.definition import Axis, Experiment, combinations_of, labels_of, text_of
from hpcosim_experiments.errors import ExperimentFileError
from support.examples import examples

NAMES = ("seed", "load", "scheduler")
Labels = dict[str, Any]


def labels(**sections: Any) -> list[Labels]:
    """Return the labels of all combinations of an experiment."""
    found = combinations_of(Experiment(name="study", **sections))
    return [found.labels(run) for run in found.runs]


@st.composite
def axes(draw: st.DrawFn) -> dict[str, list[int]]:
    """Draw one to three axes with numbers as values."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    numbers = st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True)
    return {name: draw(numbers) for name in names}


@examples(200)
@given(axes(), st.data())
def test_combinations_are_the_product_without_the_excluded_and_then_the_list(
    given_axes: dict[str, list[int]], data: st.DataObject
) -> None:
    """The runs are those of a slow reference, each once, in its order."""
    product = [
        dict(zip(given_axes, values, strict=True))
        for values in itertools.product(*given_axes.values())
    ]
    one = st.fixed_dictionaries({}, optional={k: st.sampled_from(v) for k, v in given_axes.items()})
    excluded = data.draw(st.lists(one.filter(bool), max_size=3))
    listed = data.draw(st.lists(st.sampled_from(product), max_size=3))
    left = [
        run
        for run in product
        if not any(all(run[name] == value for name, value in each.items()) for each in excluded)
    ]
    if not left:
        with pytest.raises(ExperimentFileError, match="no combination is left"):
            labels(axes=given_axes, exclude=excluded, runs=listed)
        return
    expected = []
    for run in [*left, *listed]:
        if run not in expected:
            expected.append(run)
    assert labels(axes=given_axes, exclude=excluded, runs=listed) == expected


def test_a_list_replaces_the_product() -> None:
    """With `combine: list` only the listed combinations run."""
    runs = [{"seed": 2, "load": 0.5}, {"seed": 1, "load": 1.0}]
    assert labels(axes={"seed": [1, 2], "load": [0.5, 1]}, runs=runs, combine="list") == runs


def test_a_list_without_axes_names_the_axes() -> None:
    """The axes of a list without `axes` are its keys."""
    runs = [{"scheduler": "easy", "load": 0.5}, {"scheduler": "fcfs", "load": 1.0}]
    assert labels(runs=runs) == runs


def test_an_exclusion_can_list_values() -> None:
    """A list in `exclude` stands for each of its values, unless it is a value itself."""
    found = labels(axes={"seed": [1, 2, 3], "load": [1, 2]}, exclude=[{"seed": [1, 3]}])
    assert found == [{"seed": 2, "load": 1}, {"seed": 2, "load": 2}]
    windows = [[0, 10], [10, 20]]
    assert labels(axes={"window": windows}, exclude=[{"window": [0, 10]}]) == [{"window": "10-20"}]


def test_names_of_values_are_labels() -> None:
    """A mapping of values has its keys as labels, with one path or with paths of each value."""
    policies = {"a": {"scheduler": "easy"}, "b": {"scheduler": "fcfs", "power": "always-on"}}
    found = combinations_of(
        Experiment(
            name="study",
            axes={
                "policy": Axis(policies),
                "busy": Axis({"low": 0.5, "high": 1.0}, "load"),
            },
        )
    )
    settings = [
        {k: v for each in run.values for k, v in each.settings.items()} for run in found.runs
    ]
    assert settings[0] == {"scheduler.name": "easy", "workload.load": 0.5}
    assert settings[3] == {
        "scheduler.name": "fcfs",
        "scheduler.power": "always-on",
        "workload.load": 1.0,
    }
    assert found.labels(found.runs[3]) == {"policy": "b", "busy": "high"}


def test_a_group_of_schedulers_stands_for_its_members() -> None:
    """The axis `scheduler` replaces a group by its members."""
    found = labels(axes={"scheduler": ["fcfs", "minmin-family"]})
    assert [run["scheduler"] for run in found][:3] == ["fcfs", "minmin", "maxmin"]
    assert len(found) == 7


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"name": "timeout", "timeout_s": 900.0}, "timeout(timeout_s=900)"),
        ({"count": 4}, "count=4"),
        ([0, 2000], "0-2000"),
        ([1, 2, 3], "[1, 2, 3]"),
        (None, "null"),
        (True, "true"),
    ],
)
def test_values_that_are_no_scalars_have_short_texts(value: object, text: str) -> None:
    """The label of a mapping begins with its name; a window is a range."""
    assert text_of(value) == text


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["a", "b", "a (2)", "x" * 80]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=5,
)


@examples(300)
@given(st.lists(plain, min_size=1, max_size=8, unique_by=repr))
def test_labels_are_of_one_type_and_unique(values: list[Any]) -> None:
    """Labels of different values differ, unless they are equal numbers or texts."""
    found = labels_of(values)
    assert len(found) == len(values)
    assert len({type(label) for label in found}) == 1
    if not all(isinstance(value, int) for value in values):
        assert len(set(found)) == len(found)
