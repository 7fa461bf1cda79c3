"""Schedulers by name."""

from __future__ import annotations

import pytest

from hpcosim_client import PolicyError
from hpcosim_client.catalogue.schedulers import check_scheduler
from hpcosim_client.catalogue.trained import check_trained
from hpcosim_client.heuristics.awareness import parse_awareness


@pytest.mark.parametrize(
    "name", ["easy", "scripted:gone.csv", "pairing:gone.safetensors", "low_mem-none-one"]
)
def test_a_scheduler_s_name_is_checked_without_its_file(name: str) -> None:
    """A scenario may be of another machine."""
    check_scheduler(name)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("eazy", "there is no scheduler 'eazy'; did you mean easy"),
        ("scripted:", "needs a schedule's file"),
        ("pairing", "no trained scheduler with its model: say pairing:MODEL"),
        ("minmin-family", "is a group of schedulers"),
    ],
)
def test_a_name_that_is_no_scheduler_s(name: str, error: str) -> None:
    """The error names a way out."""
    with pytest.raises(PolicyError, match=error):
        check_scheduler(name)


def test_a_heuristic_is_no_trained_scheduler() -> None:
    """As the agents of a scenario must be."""
    with pytest.raises(PolicyError, match="'easy' is no trained scheduler"):
        check_trained("easy")


def test_an_awareness_that_there_is_not() -> None:
    """The error lists those there are."""
    assert parse_awareness("planned") == "planned"
    with pytest.raises(PolicyError, match="expected one of unaware, aware, planned, got 'no'"):
        parse_awareness("no")
