"""The scheduler that follows the best of some plans, against a slow one from the definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_schedulers.heuristics import look_ahead as module
from hpcosim_schedulers.heuristics.look_ahead import HALF_S, cost_of_start
from hpcosim_workloads.table import PLACEMENTS
from support.examples import examples
from support.simulating import cluster_of, jobs_of, simulate
from support.slow_schedulers import look_ahead as slow
from support.slow_schedulers import reference

Row = tuple[float, float, int, float]  # submit_s, run_s, cores, requested_s

DAY_S = 86_400.0


@st.composite
def workloads(draw: st.DrawFn, least: int, most: int) -> list[Row]:
    """Return up to 14 jobs; `least` to `most` is added to run times for the requested ones."""
    rows = []
    for submit in sorted(draw(st.lists(st.integers(0, 30), min_size=1, max_size=14))):
        run = draw(st.integers(1, 20))
        requested = max(1, run + draw(st.integers(least, most)))
        rows.append((submit * 100.0, run * 300.0, draw(st.integers(1, 5)), requested * 300.0))
    return rows


def starts_of(rows: list[Row]) -> list[float]:
    """Return when each job starts on five nodes with one core."""
    return list(simulate(cluster_of(5), jobs_of(*rows), "look-ahead").recording.start_s)


@pytest.mark.parametrize("added", [(0, 0), (0, 12), (-6, 12)])  # an overdue job ends now
@examples(200)
@given(data=st.data())
def test_starts_are_as_defined(added: tuple[int, int], data: st.DataObject) -> None:
    """Every job starts when the slow scheduler starts it."""
    rows = data.draw(workloads(*added))
    assert starts_of(rows) == reference(5, rows, slow)


def test_plans_of_nodes_are_those_of_cores() -> None:
    """Where a node has one core, jobs on whole nodes start as jobs on cores do.

    Not in all workloads: reservations on certain nodes can leave gaps that counts do not have.
    """
    rows = [
        *((0.0, 600.0, 3, 900.0), (0.0, 300.0, 2, 300.0), (100.0, 300.0, 4, 600.0)),
        *((200.0, 600.0, 1, 600.0), (200.0, 300.0, 5, 300.0), (300.0, 900.0, 2, 1200.0)),
    ]
    table = jobs_of(*rows)
    # Jobs of two placements need a profile of nodes.
    mixed = (np.arange(len(rows)) % 2 * PLACEMENTS.index("whole_nodes")).astype(np.int8)
    simulation = simulate(cluster_of(5), replace(table, placement=mixed), "look-ahead")
    assert list(simulation.recording.start_s) == starts_of(rows)


def test_two_jobs_side_by_side_go_before_a_smaller_one() -> None:
    """By area the first job starts first and the others wait for 20 s; so it waits for 18 s."""
    rows = jobs_of((0.0, 10.0, 3), (0.0, 18.0, 2), (0.0, 18.0, 2))
    by_area = simulate(cluster_of(4), rows, "easy-saf").recording
    planned = simulate(cluster_of(4), rows, "look-ahead").recording
    assert list(by_area.start_s) == [0.0, 10.0, 10.0]
    assert list(planned.start_s) == [18.0, 0.0, 0.0]


def test_jobs_behind_the_visible_ones_start_if_they_delay_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One job is visible; the one behind it that ends before its reservation starts."""
    monkeypatch.setattr(module, "WINDOW_JOBS", 1)
    rows = [(0.0, 9.0, 3, 9.0), (1.0, 5.0, 5, 5.0), (1.0, 9.0, 2, 9.0), (1.0, 8.0, 2, 8.0)]
    assert starts_of(rows) == [0.0, 9.0, 14.0, 1.0]


def test_the_costs_of_starts() -> None:
    """A start in twelve hours costs half as much as in a straight line; waiting adds 5 % a day."""
    assert cost_of_start(0.0, 1e9) == 0.0
    assert cost_of_start(HALF_S, 0.0) == HALF_S / 2
    assert cost_of_start(100.0, 2 * DAY_S) == pytest.approx(1.1 * cost_of_start(100.0, 0.0))


def test_the_head_is_explained_with_its_reservation() -> None:
    """The others wait for it."""
    rows = [(0.0, 9.0, 3, 9.0), (1.0, 5.0, 5, 5.0), (1.0, 70.0, 4, 70.0)]
    simulation = simulate(cluster_of(5), jobs_of(*rows), "look-ahead", explain=True)
    said = simulation.recording.explanations
    reasons = [said.reasons[number] for number in said.reason]
    first = [*zip(said.row, reasons, said.expected_start_s, strict=True)][:2]
    assert sorted(first, key=lambda each: each[0])[0] == (1, "Resources", 9.0)
    assert {(row, reason) for row, reason, _ in first} == {(1, "Resources"), (2, "Priority")}
