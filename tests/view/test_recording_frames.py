"""Frames of running simulations, and results folders, against each other and the recording."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import View
from hpcosim_protocol import (
    AllocateJob,
    NodeGroup,
    Platform,
    Processor,
    RequeueJob,
    ResumeJob,
    SuspendJob,
)
from hpcosim_server.service.session import Opened
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.physics.power import NODE_STATES
from hpcosim_sim.record.recording import POWER_STATES
from hpcosim_sim.record.results import Run, write_results
from hpcosim_view.run.extracts import states_of
from hpcosim_view.run.folder import read_folder
from hpcosim_view.run.frame import COLUMNS, Frame, append
from hpcosim_view.run.moment import moment
from hpcosim_view.run.recording import RecordingReader
from support import site_scenes
from support.power_states_runs import play, scenes
from support.random_scenes import Scene

EXACT = [name for name in COLUMNS if name.split(".")[0] in ("job", "start", "end", "explain")]

TIMES = ("job.submit_s", "start.time_s", "end.time_s", "power.time_s", "watts.time_s")


def opened(simulation: Simulation) -> Opened:
    """Return a simulation as a session has it."""
    run = Run(scenario="a", scheduler="b", seed=3, hpcosim="1")
    return Opened(simulation, run, 0)


def folder_of(simulation: Simulation) -> Frame:
    """Return the frame of the results folder of a simulation."""
    run = opened(simulation)
    run.complete()
    with tempfile.TemporaryDirectory() as folder:
        write_results(Path(folder, "out"), simulation.record(), run.run)
        return read_folder(Path(folder, "out"))


def check_equal(frames: Frame, folder: Frame, *, boxes: bool) -> None:
    """Check that both have the same facts and columns, up to zero-length states and energies."""
    left_out = {"end.energy_j"} | (set() if boxes else {"start.boxes"})
    ends = np.lexsort((frames.columns["end.job"], frames.columns["end.time_s"]))
    for name in EXACT + (["box.first", "box.last"] if boxes else []):
        mine = frames.columns[name]
        mine = mine[ends] if name.startswith("end.") else mine
        if name not in left_out:
            assert mine.tolist() == pytest.approx(folder.columns[name].tolist(), nan_ok=True), name
    assert power_of(frames) == power_of(folder)
    for one, other in zip(watts_of(frames), watts_of(folder), strict=True):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9)
    assert {**frames.about, "metrics": 0} == {**folder.about, "metrics": 0}
    assert frames.about["metrics"] == pytest.approx(folder.about["metrics"])


def power_of(frame: Frame) -> dict[int, list[tuple[float, int]]]:
    """Return the power states of each node that last for some time before the end."""
    columns = [frame.columns[f"power.{name}"].tolist() for name in ("time_s", "node", "state")]
    found: dict[int, list[tuple[float, int]]] = {}
    for time_s, node, state in zip(*columns, strict=True):
        if time_s == frame.about["now_s"]:
            break
        states = found.setdefault(node, [(-1.0, POWER_STATES.index("on"))])
        if states[-1][0] == time_s:
            states.pop()
        if states[-1][1] != state:
            states.append((time_s, state))
    return {node: states for node, states in found.items() if len(states) > 1}


def watts_of(frame: Frame) -> list[list[float]]:
    """Return times and powers of the steps of each node state before the end."""
    columns, now_s = frame.columns, frame.about["now_s"]
    steps = []
    for state in range(len(NODE_STATES)):
        of = columns["watts.state"] == state
        last: dict[float, float] = dict(
            zip(columns["watts.time_s"][of], columns["watts.power_w"][of], strict=True)
        )
        flat: list[float] = []
        for time_s, power_w in last.items():
            if time_s < now_s and abs(power_w - (flat[-1] if flat else 0.0)) > 1e-9:
                flat += [time_s, power_w]
        steps.append(flat)
    return steps


def check_boxes(frame: Frame, simulation: Simulation) -> None:
    """Check that jobs hold their cores on their nodes, and no core twice at a time."""
    columns, recording = frame.columns, simulation.recording
    capacity = simulation.cluster.capacity
    node_of = np.repeat(np.arange(len(capacity)), capacity)
    users: dict[int, list[tuple[float, float]]] = {}
    box = iter(zip(columns["box.first"].tolist(), columns["box.last"].tolist(), strict=True))
    starts = zip(columns["start.job"].tolist(), columns["start.boxes"].tolist(), strict=True)
    for row, boxes in starts:
        edges = [next(box) for _ in range(boxes)]
        assert all(one[1] + 1 < other[0] for one, other in pairwise(edges))
        cores = [core for first, last in edges for core in range(first, last + 1)]
        held = np.bincount(node_of[cores], minlength=len(capacity)).tolist()
        wanted = dict(zip(recording.nodes_of(row), recording.tasks_of(row), strict=True))
        if recording.placement[row] == 2:
            wanted = {node: capacity[node] for node in wanted}
        assert held == [wanted.get(node, 0) for node in range(len(capacity))]
        for core in cores:
            users.setdefault(core, []).append((recording.start_s[row], recording.end_s[row]))
    for times in users.values():
        ordered = sorted(times)
        for (_, end_s), (start_s, _) in pairwise(ordered):
            assert not end_s > start_s


@pytest.mark.slow
@given(scenes(vary=True))
def test_frames_of_a_run_are_the_frame_of_its_folder(scene: Scene) -> None:
    """Frames after each request, joined, and one frame of the whole run are that of the folder."""
    frames: list[Frame] = []
    reader: list[RecordingReader] = []

    def look(simulation: Simulation, view: View) -> None:
        if not reader:
            reader.append(RecordingReader(opened(simulation)))
        frames.append(reader[0].frame())

    simulation = play(scene, look).simulation
    folder = folder_of(simulation)
    run = opened(simulation)
    run.complete()
    whole = RecordingReader(run).frame()
    check_equal(whole, folder, boxes=True)
    check_boxes(whole, simulation)
    reader[0]._opened.complete()
    joined = append([*frames, reader[0].frame()])
    check_equal(joined, folder, boxes=False)
    check_boxes(joined, simulation)


@pytest.mark.slow
@given(scenes(vary=True), st.integers(1, 5))
def test_limited_frames_are_the_whole_frame(scene: Scene, work: int) -> None:
    """Limited frames, joined, are the whole frame, and each is complete up to its time."""
    run = opened(play(scene).simulation)
    run.complete()
    reader = RecordingReader(run)
    frames = [reader.frame(work)]
    while reader.is_behind:
        frames.append(reader.frame(work))
    whole, joined = RecordingReader(run).frame(), append(frames)
    for name, column in whole.columns.items():
        np.testing.assert_array_equal(joined.columns[name], column, name)
    assert joined.about == whole.about
    assert ["metrics" in frame.about for frame in frames] == [False] * (len(frames) - 1) + [True]
    for before, after in pairwise(frames):
        times_s = [column for name, column in after.columns.items() if name in TIMES]
        assert np.concatenate(times_s).min(initial=np.inf) > before.about["now_s"]


@pytest.mark.slow
@given(scenes(vary=True), st.integers(0, 40))
def test_an_unfinished_run_has_its_running_and_waiting_jobs(scene: Scene, turns: int) -> None:
    """A run that was stopped has the same columns in its folder as in its recording."""
    turn, found = 0, list[tuple[Frame, Frame]]()

    def look(simulation: Simulation, view: View) -> None:
        nonlocal turn
        if turn == stopped:
            run = opened(simulation)
            run.complete()
            found.append((RecordingReader(run).frame(), folder_of(simulation)))
        turn += 1

    stopped = turns
    play(scene, look)
    if not found:  # the run has fewer turns: it is stopped at its last one
        stopped, turn = turn - 1, 0
        play(scene, look)
    check_equal(*found[0], boxes=True)


@given(scenes(vary=True))
def test_power_by_state_has_the_energy_of_the_metrics(scene: Scene) -> None:
    """The integral of each state's power is that state's energy, to rounding."""
    folder = folder_of(play(scene).simulation)
    for state, name in enumerate(NODE_STATES):
        of = folder.columns["watts.state"] == state
        times_s = np.append(folder.columns["watts.time_s"][of], folder.about["now_s"])
        energy_j = float(np.diff(times_s) @ folder.columns["watts.power_w"][of])
        expected_j = folder.about["metrics"].get(f"{name}_energy_j", 0.0)  # none while down
        assert energy_j == pytest.approx(expected_j, rel=1e-12, abs=1e-9)


def rows(frame: Frame) -> dict[str, Any]:
    """Return the number of rows of each column."""
    return {name: len(column) for name, column in frame.columns.items()}


def test_a_second_frame_without_changes_is_empty() -> None:
    """A frame has only what is new."""
    from support.power_states_runs import off_and_on

    simulation, _ = off_and_on()
    reader = RecordingReader(opened(simulation))
    assert rows(reader.frame())["power.node"] == 4
    assert set(rows(reader.frame()).values()) == {0}


def test_a_job_waits_in_the_frame_after_its_requeue_while_it_was_suspended() -> None:
    """The frame after the requeue corrects the frame with the suspension."""
    simulation = Simulation(
        Platform((NodeGroup(1, (Processor(2),)),)),
        site_scenes.table(site_scenes.job(1, cores=2, requeue=True)),
    )
    simulation.advance(wake_on=["no_more_jobs"])
    simulation.advance([AllocateJob(1, [0])], wake_on=["job_started"])
    simulation.advance([SuspendJob(1)], elapsed_s=2.0, wake_on=["job_suspended"])
    run = opened(simulation)
    reader = RecordingReader(run)
    frames = [reader.frame(), reader.frame()]
    before = append(frames)
    suspended = moment(before, before.about["now_s"])
    assert (suspended.suspended.job.tolist(), suspended.waiting.job.tolist()) == ([0], [])
    simulation.advance([RequeueJob(1)], elapsed_s=1.0, wake_on=["job_requeued"])
    frames += [reader.frame(), reader.frame()]
    then = append(frames)
    requeued = moment(then, then.about["now_s"])
    assert (requeued.suspended.job.tolist(), requeued.waiting.job.tolist()) == ([], [0])
    assert states_of(then) == ["waiting"]
    assert rows(frames[3])["pause.start"] == 0
    assert states_of(folder_of(simulation)) == ["waiting"]


def test_frames_of_several_runs_are_the_frame_of_the_folder() -> None:
    """Periods of suspended and requeued jobs are boxes; the folder has the same ones."""
    simulation = Simulation(
        Platform((NodeGroup(2, (Processor(2),)),)),
        site_scenes.table(site_scenes.job(1, cores=3, requeue=True), site_scenes.job(2, cores=2)),
    )
    simulation.advance(wake_on=["no_more_jobs"])
    simulation.advance([AllocateJob(1, [0, 1])], wake_on=["job_started"])
    simulation.advance([SuspendJob(1), AllocateJob(2, [0])], elapsed_s=2.0)
    run = opened(simulation)
    reader = RecordingReader(run)
    first = reader.frame()
    assert moment(first, 5.0).waiting.job.tolist() == []
    assert moment(first, 5.0).running.job.tolist() == [1]
    simulation.advance([ResumeJob(1)], elapsed_s=1.0, wake_on=["job_resumed"])
    simulation.advance([RequeueJob(1)], elapsed_s=1.0, wake_on=["job_requeued"])
    then = append([first, reader.frame()])
    assert moment(then, 14.0).waiting.job.tolist() == [0]
    assert states_of(then) == ["waiting", "completed"]
    simulation.advance([AllocateJob(1, [1, 0])])
    whole, folder = RecordingReader(run).frame(), folder_of(simulation)
    for name in ("start", "box", "pause"):
        for column in COLUMNS:
            if column.startswith(name):
                assert folder.columns[column].tolist() == whole.columns[column].tolist()
    assert folder.columns["start.job"].tolist() == [0, 1, 0, 0]
    assert folder.columns["pause.start"].tolist() == [0, 2]
