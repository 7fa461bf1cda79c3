"""The state of a run at a time, against the recording looked at job by job."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_server.service.session import Opened
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.record.recording import POWER_STATES
from hpcosim_sim.record.results import Run
from hpcosim_view.errors import ReadResultsError
from hpcosim_view.run.frame import frame
from hpcosim_view.run.moment import moment
from hpcosim_view.run.recording import RecordingReader
from support.power_states_runs import play, scenes
from support.random_scenes import Scene


def nodes_at(simulation: Simulation, at_s: float) -> tuple[list[int], list[int]]:
    """Return power state and number of allocated cores of each node."""
    of, capacity = simulation.recording, simulation.cluster.capacity
    allocated, power = [0] * len(capacity), [POWER_STATES.index("on")] * len(capacity)
    for row in range(len(of)):
        if of.start_s[row] <= at_s and not of.end_s[row] <= at_s:
            for node, tasks in zip(of.nodes_of(row), of.tasks_of(row), strict=True):
                allocated[node] += capacity[node] if of.placement[row] == 2 else tasks
    for time_s, node, state in zip(of.power_s, of.power_node, of.power_state, strict=True):
        if time_s <= at_s:
            power[node] = state
    return power, allocated


@given(scenes(vary=True), st.floats(0, 1))
def test_a_moment_is_what_the_recording_has_at_that_time(scene: Scene, share: float) -> None:
    """Queue, running jobs, power states and allocated cores are those of the recording."""
    simulation = play(scene).simulation
    of = simulation.recording
    whole = RecordingReader(Opened(simulation, RUN, 0)).frame()
    times_s = sorted({*of.submit_s, *of.end_s, *of.power_s, simulation.now_s})
    for at_s in (times_s[int(share * (len(times_s) - 1))], share * simulation.now_s):
        at_s = max(at_s, simulation.start_s)
        then = moment(whole, at_s)
        rows = [row for row in range(len(of)) if of.submit_s[row] <= at_s]
        waiting = [r for r in rows if not of.start_s[r] <= at_s and not of.end_s[r] <= at_s]
        running = [r for r in rows if of.start_s[r] <= at_s and not of.end_s[r] <= at_s]
        assert then.waiting.job.tolist() == waiting
        assert sorted(then.running.job.tolist()) == running
        for row, nodes, used_s, left_s in zip(
            *(then.running.job, then.running.nodes, then.running.used_s, then.running.left_s),
            strict=True,
        ):
            numbers = [node for first, last in nodes for node in range(first, last + 1)]
            assert numbers == sorted(of.nodes_of(row))
            assert used_s == at_s - of.start_s[row]
            assert left_s == max(of.requested_s[row] - used_s, 0.0)
        power, allocated = nodes_at(simulation, at_s)
        assert (then.nodes.power.tolist(), then.nodes.allocated.tolist()) == (power, allocated)
        assert then.nodes.cores.tolist() == simulation.cluster.capacity


RUN = Run(scenario="a", scheduler="b", seed=3, hpcosim="1")
ABOUT = {"start_s": 0.0, "now_s": 10.0, "nodes": [[1, 1, "group 0"]], "reasons": ["A", "B"]}


def test_the_last_explanation_before_the_time_counts() -> None:
    """Of two explanations of a job the later one holds; a job without one has none."""
    run = frame(
        ABOUT,
        {
            "job.id": [7, 8],
            "job.submit_s": [0.0, 0.0],
            "job.requested_s": [1.0, 1.0],
            **{f"job.{name}": [1, 1] for name in ("cores", "placement")},
            **{f"job.{name}": [-1, -1] for name in ("user", "group", "partition")},
            "explain.job": [0, 0, 0],
            "explain.time_s": [1.0, 2.0, 3.0],
            "explain.reason": [0, 1, 0],
            "explain.expected_start_s": [5.0, math.nan, 9.0],
        },
    )
    waiting = moment(run, 2.5).waiting
    assert waiting.reason.tolist() == [1, -1]
    assert np.isnan(waiting.expected_start_s).all()
    assert moment(run, 3.0).waiting.expected_start_s[0] == 9.0


@pytest.mark.parametrize("at_s", [-1.0, 10.5, math.nan])
def test_a_time_outside_the_run_is_an_error(at_s: float) -> None:
    """The error has the times of the run."""
    with pytest.raises(ReadResultsError, match="from 0 s to 10 s"):
        moment(frame(ABOUT, {}), at_s)
