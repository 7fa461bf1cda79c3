"""A given schedule, replayed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import cluster_of, jobs_of, simulate, starts
from hpcosim_client import PolicyError, make_policy
from hpcosim_client.heuristics.scripted import Start, scripted
from hpcosim_server.results import Run, write_results
from hpcosim_server.workload.poisson import poisson

RUN = Run(hpcosim="0", scenario="s", scheduler="p", seed=0)


@given(seed=st.integers(0, 2**32), policy=st.sampled_from(["fcfs", "easy", "smallest-high_cores"]))
def test_a_results_folder_replays_itself(
    tmp_path_factory: pytest.TempPathFactory, seed: int, policy: str
) -> None:
    """The jobs.csv of a run, as a schedule, gives the same jobs.csv to the byte."""
    platform, rng = cluster_of(5, 1), np.random.default_rng(seed)
    jobs = poisson(
        rng, jobs=20, mean_interarrival_s=20.0, cores=(1, 5), run_s=(5, 80), overestimate=2.0
    )
    folder = tmp_path_factory.mktemp("runs")
    write_results(folder / "first", simulate(platform, jobs, policy), RUN)
    first = folder / "first" / "jobs.csv"
    write_results(folder / "again", simulate(platform, jobs, f"scripted:{first}"), RUN)
    assert (folder / "again" / "jobs.csv").read_bytes() == first.read_bytes()


def test_jobs_do_not_wait_for_each_other() -> None:
    """A job starts at its time though one submitted before starts later."""
    schedule = {1: Start(50.0, [0]), 2: Start(3.0, [1])}
    simulation = simulate(cluster_of(2), jobs_of((0.0, 5.0, 1), (1.0, 5.0, 1)), scripted(schedule))
    assert starts(simulation) == {1: 50.0, 2: 3.0}


def test_job_starts_as_soon_as_its_node_is_free() -> None:
    """A start for which there is no room yet comes when there is."""
    schedule = {1: Start(0.0, [0]), 2: Start(4.0, [0])}
    simulation = simulate(cluster_of(2), jobs_of((0.0, 5.5, 1), (1.0, 5.0, 1)), scripted(schedule))
    assert starts(simulation) == {1: 0.0, 2: 5.5}
    assert simulation.recording.nodes_of(1) == [0]


def test_job_without_a_start_is_rejected(tmp_path: Path) -> None:
    """An empty start_s, as of a job rejected in the run replayed, rejects the job."""
    file = tmp_path / "jobs.csv"
    file.write_text("job_id,start_s,nodes\n1,,\n2,3.0,0\n")
    simulation = simulate(cluster_of(1), jobs_of((0.0, 5.0, 1), (1.0, 5.0, 1)), f"scripted:{file}")
    assert simulation.recording.end_s.tolist() == [0.0, 8.0]


def test_job_not_in_the_schedule_is_an_error() -> None:
    """A job the schedule does not know is named."""
    with pytest.raises(PolicyError, match="the schedule has no job 1"):
        simulate(cluster_of(1), jobs_of((0.0, 5.0, 1)), scripted({}))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("job_id,start\n1,2\n", "no column 'start_s'"),
        ("job_id,start_s,nodes\nx,2,0\n", ":2: is no job_id,start_s,nodes"),
        ("job_id,start_s,nodes\n1,2,0\n1,3,0\n", ":3: job 1 is there twice"),
        ("job_id,start_s,nodes\n1,2,\n", ":2: job 1 has no start, or no nodes"),
        ("job_id,start_s,nodes\n1,nan,0\n", ":2: job 1 has no start"),
        ("job_id,start_s,nodes\n1,2,0-99999999999\n", "more than 1000000 nodes"),
        ("job_id,start_s,nodes\n1,2\n", ":2: job 1 has no start, or no nodes"),
    ],
)
def test_bad_schedule(tmp_path: Path, text: str, error: str) -> None:
    """A bad schedule is refused with its line."""
    file = tmp_path / "s.csv"
    file.write_text(text)
    with pytest.raises(PolicyError, match=error):
        make_policy(f"scripted:{file}")


def test_missing_schedule(tmp_path: Path) -> None:
    """A schedule that is not there is named."""
    with pytest.raises(PolicyError, match=r"nowhere\.csv can't be read: No such file"):
        make_policy(f"scripted:{tmp_path}/nowhere.csv")
