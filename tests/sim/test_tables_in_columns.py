"""The tables of results in columns are those made row by row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_protocol import AllocateJob, Platform
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.record.run_record import RunRecord
from hpcosim_sim.record.tables import (
    intervals,
    job_rows,
    node_lines,
    node_rows,
    run_rows,
    schedule_rows,
)
from hpcosim_sim.record.texts import intervals as intervals_of_sets
from hpcosim_sim.record.texts import lists
from support.examples import examples
from support.power_states_runs import nodes_of, off_and_on, scenes, woken
from support.power_states_runs import play as play_scene
from support.random_runs import RunScene, play_runs, run_scenes
from support.random_scenes import Scene
from support.simulating import cluster_of, jobs_of, simulate
from support.slow_tables import slow_job_lines, slow_run_lines, slow_schedule_lines


def texts(rows: Iterator[str]) -> list[str]:
    """Return the lines of rows in pieces."""
    return "".join(rows).splitlines(keepends=True)


def check(record: RunRecord) -> None:
    """Assert that all tables of a run have the rows of the references."""
    assert texts(job_rows(record)) == list(slow_job_lines(record))
    assert texts(schedule_rows(record)) == list(slow_schedule_lines(record))
    assert texts(run_rows(record)) == list(slow_run_lines(record))
    assert texts(node_rows(record)) == list(node_lines(record))


@pytest.fixture(params=[1, 3, 100_000])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make portions of few rows, instants and changes, or of many."""
    monkeypatch.setattr("hpcosim_sim.record.tables.ROWS", request.param)
    monkeypatch.setattr("hpcosim_sim.record.tables.MAX_CHANGES", request.param)


@pytest.mark.usefixtures("size")
def test_tables_of_plain_runs_and_of_runs_with_power_states() -> None:
    """Portions of any size give the same rows."""
    jobs = jobs_of(*((0.3 * i, 1.0 + i % 7 / 3, 1 + i % 5) for i in range(60)))
    check(simulate(cluster_of(5, 2), jobs, "easy").record())
    check(off_and_on()[0].record())
    check(woken()[0].record())


@pytest.mark.usefixtures("size")
def test_tables_of_a_run_that_has_not_ended() -> None:
    """Running and waiting jobs have empty cells, and nodes are in their states up to now."""
    simulation = Simulation(cluster_of(3), jobs_of((0, 9, 1), (0, 5, 1), (0, 5, 1), (7, 1, 1)))
    check(simulation.record())
    simulation.advance()
    check(simulation.record())
    simulation.advance([AllocateJob(1, [2]), AllocateJob(3, [0])])
    check(simulation.record())


@pytest.mark.usefixtures("size")
def test_nodes_of_several_kinds_and_separate_runs_of_equal_nodes() -> None:
    """Nodes with equal periods are one row, also if others are between them."""
    platform = Platform((nodes_of(3, cores=2), nodes_of(2, cores=3)))
    simulation = Simulation(platform, jobs_of((0, 9, 4), (0, 9, 3), (0, 9, 1), (20, 1, 1)))
    simulation.advance()
    simulation.advance([AllocateJob(1, [4, 0]), AllocateJob(2, [1, 3])])
    while not simulation.advance([]).ended and simulation.now_s < 15.0:
        pass
    check(simulation.record())


@pytest.mark.slow
@examples(60)
@given(run_scenes(), st.sampled_from([1, 4, 1000]))
def test_random_runs_with_suspensions_requeues_and_failures(scene: RunScene, size: int) -> None:
    """All tables have the rows of the references."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hpcosim_sim.record.tables.ROWS", size)
        patch.setattr("hpcosim_sim.record.tables.MAX_CHANGES", size)
        check(play_runs(scene)[0].record())


@pytest.mark.slow
@examples(60)
@given(scenes(), st.sampled_from([1, 4, 1000]))
def test_random_runs_with_power_states(scene: Scene, size: int) -> None:
    """All tables have the rows of the references."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hpcosim_sim.record.tables.MAX_CHANGES", size)
        check(play_scene(scene).simulation.record())


@given(st.lists(st.sets(st.integers(0, 12))))
def test_intervals_of_many_sets_are_those_of_each(sets: list[set[int]]) -> None:
    """Sets may be empty."""
    each = [len(one) for one in sets]
    first = np.cumsum([0, *each])[:-1]
    numbers = np.array([number for one in sets for number in sorted(one)], np.int64)
    assert intervals_of_sets(numbers, first) == [intervals(one) for one in sets]


@given(st.lists(st.lists(st.integers(0, 12) | st.integers(0, 2**40))))
def test_lists_of_many_sets_are_those_of_each(sets: list[list[int]]) -> None:
    """Sets may be empty, and numbers large."""
    first = np.cumsum([0, *map(len, sets)])[:-1]
    numbers = np.array([number for one in sets for number in one], np.int64)
    assert lists(numbers, first) == [" ".join(map(str, one)) for one in sets]
