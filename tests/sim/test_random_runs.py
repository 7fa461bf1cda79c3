"""Properties of jobs with several runs, in random scenes."""

from __future__ import annotations

import math
from collections import defaultdict

import pytest
from hypothesis import given

from hpcosim_protocol import JobCompleted, JobRequeued
from hpcosim_sim.record.periods import FIRST_FINAL, PERIOD_ENDS
from hpcosim_sim.record.recording import STATES
from support.examples import examples
from support.random_runs import RunScene, needed_s, play_runs, run_scenes

Runs = dict[int, dict[int, float]]


def run_times_s(scene: RunScene) -> tuple[Runs, dict[int, str]]:
    """Play a scene; return the run time of each run by job, s, and the final states."""
    simulation, _ = play_runs(scene)
    recording, periods = simulation.recording, simulation.recording.periods
    runs: Runs = defaultdict(lambda: defaultdict(float))
    for period, row in enumerate(periods.row):
        lasted_s = periods.end_s[period] - periods.start_s[period]
        runs[recording.job_id[row]][periods.run[period]] += lasted_s
    states = {
        job_id: STATES[code] for job_id, code in zip(recording.job_id, recording.state, strict=True)
    }
    return runs, states


@pytest.mark.slow
@examples(80)
@given(run_scenes())
def test_work_is_conserved(scene: RunScene) -> None:
    """The last run of a completed job has the work that its checkpoints left."""
    runs, states = run_times_s(scene)
    for job in scene.jobs.rows():
        if states[job.job_id] != "completed":
            continue
        *before_s, last_s = runs[job.job_id].values()
        assert job.request is not None
        expected_s = needed_s(job.run_s, job.request.checkpointing, before_s)
        assert last_s == pytest.approx(expected_s, rel=1e-9, abs=1e-9)


@pytest.mark.slow
@examples(60)
@given(run_scenes())
def test_no_run_exceeds_the_requested_time(scene: RunScene) -> None:
    """With `kill_at_walltime`, no run takes more than the requested time, suspensions aside."""
    scene = scene._replace(rules=type(scene.rules)(kill_at_walltime=True, validate=True))
    runs, states = run_times_s(scene)
    for job in scene.jobs.rows():
        for run_s in runs[job.job_id].values():
            assert run_s <= job.requested_s * (1 + 1e-9)
        if states[job.job_id] == "timeout":
            assert run_s == pytest.approx(job.requested_s)


@pytest.mark.slow
@examples(60)
@given(run_scenes(contended=True))
def test_energy_of_jobs_and_idle_processors_is_the_energy(scene: RunScene) -> None:
    """Jobs are charged what the computing nodes draw beyond idle processors, in all runs."""
    simulation, _ = play_runs(scene)
    record = simulation.record()
    computing_j = record.state_energy_j["computing"]
    assert sum(record.job_energies_j) <= computing_j * (1 + 1e-9) + 1e-9
    if len(scene.platform.nodes[0].processors) == 1:
        assert sum(record.job_energies_j) == pytest.approx(computing_j, rel=1e-9, abs=1e-6)


@pytest.mark.slow
@examples(60)
@given(run_scenes(contended=True))
def test_every_requeue_is_recorded_and_told(scene: RunScene) -> None:
    """The recording has as many requeues and ends as the scheduler was told."""
    simulation, events = play_runs(scene)
    recording = simulation.recording
    requeues = [event for event in events if isinstance(event, JobRequeued)]
    assert sum(recording.requeues.values()) == len(requeues)
    assert sum(isinstance(event, JobCompleted) for event in events) == len(scene.jobs)
    ended = [PERIOD_ENDS[code] for code in recording.periods.why]
    assert "" not in ended
    finals = sum(code >= FIRST_FINAL for code in recording.periods.why)
    assert finals + len(recording.ended_idle) == len(scene.jobs)
    assert not any(map(math.isnan, recording.periods.end_s))
