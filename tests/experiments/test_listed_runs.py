"""The items of `runs`: the combinations that they name."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hpcosim_experiments.definition import Experiment, combinations_of
from hpcosim_experiments.errors import ExperimentFileError

AXES = {"scheduler": ["fcfs", "first-random", "random-random"], "seed": [0, 1]}


def listed(*runs: dict[str, Any], **more: Any) -> list[tuple[Any, ...]]:
    """Return the labels of the combinations of an experiment that lists its runs."""
    content = {"name": "some", "axes": AXES, "combine": "list", "runs": list(runs), **more}
    combinations = combinations_of(msgspec.convert(content, Experiment))
    return [tuple(combinations.labels(run).values()) for run in combinations.runs]


def test_an_item_names_values_by_pattern_and_list() -> None:
    """An item is the product of its values, in the order of the axes; others follow it once."""
    runs = {"scheduler": "*", "seed": 0}, {"scheduler": ["random-*", "*-random"], "seed": "*"}
    assert listed(*runs) == [
        ("fcfs", 0),
        ("first-random", 0),
        ("random-random", 0),
        ("first-random", 1),
        ("random-random", 1),
    ]


def test_exclude_takes_patterns() -> None:
    """A pattern of `exclude` leaves out all labels that match it."""
    found = listed(combine="product", exclude=[{"scheduler": "*random", "seed": [1]}])
    assert found == [("fcfs", 0), ("fcfs", 1), ("first-random", 0), ("random-random", 0)]


def test_a_member_of_several_groups_is_one_value() -> None:
    """Groups of schedulers share members, which are run once."""
    groups = {"scheduler": ["all-heuristics", "reference-heuristics", "first-high-cores"]}
    found = listed(axes=groups, combine="product")
    assert len(found) == len(set(found)) == 52


def test_a_pattern_without_a_match_is_an_error() -> None:
    """The message names the axis and its labels."""
    with pytest.raises(ExperimentFileError, match=r"scheduler has no value 'easy-\*'"):
        listed({"scheduler": "easy-*", "seed": 0})
