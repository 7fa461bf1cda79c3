"""Simulations of jobs whose run time is 0."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_protocol import (
    AllocateJob,
    Contention,
    JobCompleted,
    JobStarted,
    NodeGroup,
    Platform,
    Processor,
)
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.model.jobs import jobs_of as jobs_of_scenario
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_sim.record.metrics import measure
from hpcosim_workloads.errors import WorkloadError
from support.examples import examples
from support.simulating import cluster_of, jobs_of, simulate, starts

Row = tuple[float, float, int, float]
ROWS = st.lists(
    st.tuples(
        st.integers(0, 6).map(float),
        st.sampled_from([0.0, 0.0, 1.0, 2.5]),
        st.integers(1, 3),
        st.sampled_from([3.0, 5.0]),
    ),
    min_size=1,
    max_size=10,
).map(sorted)


@examples(60)
@given(ROWS, st.sampled_from(["fcfs", "easy", "conservative", "minmin"]))
def test_zero_run_time_ends_at_its_start(rows: list[Row], policy: str) -> None:
    """A job ends its run time after its start, and events never go back in time."""
    simulation = simulate(cluster_of(3, 4), jobs_of(*rows), policy)
    recording = simulation.recording
    for row, (_, run_s, _, _) in enumerate(rows):
        assert recording.end_s[row] - recording.start_s[row] == run_s
    periods = recording.periods
    times_s = [
        periods.start_s[change] if change >= 0 else periods.end_s[~change]
        for change in recording.changes
    ]
    assert all(before <= after for before, after in pairwise(times_s))
    assert all(math.isfinite(value) for value in measure(simulation.record()).values())


@examples(60)
@given(ROWS)
def test_zero_run_time_uses_no_energy(rows: list[Row]) -> None:
    """On a cluster with room for all jobs, jobs of run time 0 change no energy and no start."""
    platform = cluster_of(30)
    end = (99.0, 1.0, 1, 1.0)  # the same end of both runs
    jobs = jobs_of((0.0, 1.0, 1, 1.0), *rows, end)
    some = simulate(platform, jobs, "fcfs")
    rest = simulate(platform, jobs.take(jobs.run_s > 0), "fcfs")
    assert some.record().energy_j == pytest.approx(rest.record().energy_j, rel=1e-12)
    assert starts(rest).items() <= starts(some).items()
    energies_j = some.record().job_energies_j
    for row, run_s in enumerate(jobs.run_s):
        assert (energies_j[row] == 0.0) == (run_s == 0.0)


@pytest.mark.parametrize("memory_volume_mb", [0.0, 500.0])
def test_zero_run_time_beside_a_job_with_contention(memory_volume_mb: float) -> None:
    """A job of run time 0 ends at its start also on a processor whose jobs share bandwidth."""
    contention = Contention(100.0, -0.001, 1.0, 10.0, 1000.0, 10.0)
    processor = Processor(4, 1.0, 100.0, contention=contention)
    jobs = jobs_of((0.0, 10.0, 2), (1.0, 0.0, 2))
    jobs.memory_volume_mb[:] = memory_volume_mb
    simulation = Simulation(Platform((NodeGroup(1, (processor,)),)), jobs, Rules(reference_ghz=1.0))
    simulation.advance()
    simulation.advance([AllocateJob(1, [0])], wake_on=["job_submitted"])
    batch = simulation.advance([AllocateJob(2, [0])], wake_on=["job_completed"])
    assert [type(event) for event in batch.events] == [JobStarted, JobCompleted]
    assert {event.time_s for event in batch.events} == {1.0}


SCENARIO = """\
name: s
platform:
  nodes: [{{count: 1, processors: [{{cores: 4, clock_ghz: 1, static_w: 9, dynamic_w: 1}}]}}]
scheduler: {{name: fcfs}}
workload:
{workload}"""


def scenario_of(folder: Path, workload: str, log: str = "") -> Path:
    """Write a scenario and its log, and return the scenario."""
    (folder / "log.swf").write_text(log)
    path = folder / "s.yaml"
    path.write_text(SCENARIO.format(workload=workload))
    return path


def line(job_id: int, run_s: int = 0, allocated: int = 2, requested: int = 4) -> str:
    """Return a line of a log."""
    return f"{job_id} {job_id} -1 {run_s} {allocated} -1 -1 {requested} 9 -1 1 1 1 1 1 1 -1 -1\n"


def test_settings_of_a_scenario_reach_the_reader(tmp_path: Path) -> None:
    """`workload.zero_run_time` and `workload.sizes` apply to the log that a scenario names."""
    text = "  swf: log.swf\n  zero_run_time: keep\n  sizes: allocated\n"
    path = scenario_of(tmp_path, text, line(1) + line(2, 5))
    jobs = jobs_of_scenario(load_scenario(path), tmp_path)
    assert (jobs.run_s.tolist(), jobs.cores.tolist()) == ([0.0, 5.0], [2, 2])


def test_settings_reach_the_log_of_a_model(tmp_path: Path) -> None:
    """A model that imitates a log reads it by the same settings."""
    text = (
        "  synthetic: {model: sampled, swf: log.swf, jobs: 2}\n"
        "  zero_run_time: keep\n  sizes: allocated\n"
    )
    path = scenario_of(tmp_path, text, line(1) + line(2))
    jobs = jobs_of_scenario(load_scenario(path), tmp_path)
    assert (jobs.run_s.tolist(), jobs.cores.tolist()) == ([0.0, 0.0], [2, 2])


@pytest.mark.parametrize("setting", ["zero_run_time: keep", "sizes: allocated"])
def test_settings_without_a_log(tmp_path: Path, setting: str) -> None:
    """A reader's setting in a scenario without a log is an error that names the field."""
    path = scenario_of(tmp_path, f"  inline: [{{job_id: 1, submit_s: 0}}]\n  {setting}\n")
    with pytest.raises(ScenarioError, match=rf":7: workload\.{setting.split(':')[0]}: "):
        load_scenario(path)


def test_log_without_usable_jobs(tmp_path: Path) -> None:
    """The error says how many jobs each rule dropped, and which setting keeps them."""
    path = scenario_of(tmp_path, "  swf: log.swf\n", line(1) + line(2) + line(3, 5, -1, -1))
    with pytest.raises(WorkloadError) as caught:
        jobs_of_scenario(load_scenario(path), tmp_path)
    what = str(caught.value)
    assert what.startswith(f"{tmp_path / 'log.swf'}: all 3 jobs were dropped: ")
    assert "2 by rule run_time_unknown_or_zero" in what
    assert "set workload.zero_run_time to keep" in what
    assert "1 by rule cores_unknown" in what


def test_jsonl_without_usable_jobs(tmp_path: Path) -> None:
    """A file of JSON lines that are all corrupt names the rule."""
    path = scenario_of(tmp_path, "  json: log.swf\n  lenient: true\n", "x\n")
    with pytest.raises(WorkloadError, match="all 1 jobs were dropped: 1 by rule corrupt_lines"):
        jobs_of_scenario(load_scenario(path), tmp_path)


def test_skipped_jobs_of_a_run_are_those_of_the_window(tmp_path: Path) -> None:
    """A scenario's `workload.jobs` limits the counts to its window."""
    log = "".join(line(number, number % 2) for number in range(20))
    path = scenario_of(tmp_path, "  swf: log.swf\n  jobs: [2, 5]\n", log)
    jobs = jobs_of_scenario(load_scenario(path), tmp_path)
    assert jobs.skipped == {"run_time_unknown_or_zero": 3}
