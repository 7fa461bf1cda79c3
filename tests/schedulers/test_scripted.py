"""A given schedule, replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import PolicyError, play
from hpcosim_protocol import Contention, NodeGroup, Platform, Processor
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.heuristics.scripted import Start, scripted
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.engine.site_events import NodeChange, SiteEvents
from hpcosim_sim.record.results import Run, write_results
from hpcosim_workloads.table import job_table
from support.simulating import cluster_of, jobs_of, simulate, starts
from support.site_scenes import job, table

RUN = Run(hpcosim="0", scenario="s", scheduler="p", seed=0)


CONTENTION = Contention(2.0, -0.05, 1.0, 1.0, 50.0, 1.0)
UNLIKE = Platform(
    (
        NodeGroup(2, (Processor(3, 2.1, 30.0, 5.0, contention=CONTENTION), Processor(2, 1.0))),
        NodeGroup(2, (Processor(4, 1.3, 10.0, 2.0, contention=CONTENTION),)),
    )
)


@given(
    seed=st.integers(0, 2**32),
    policy=st.sampled_from(
        ["fcfs", "easy", "smallest-high-cores", "random-random", "first-high-mem"]
    ),
)
def test_a_run_replays_itself(
    tmp_path_factory: pytest.TempPathFactory, seed: int, policy: str
) -> None:
    """The schedule.csv of a run gives the same results to the byte, contention and all."""
    rng = np.random.default_rng(seed)
    jobs = job_table(
        job_id=rng.permutation(25),
        submit_s=np.sort(rng.integers(0, 60, 25)),
        run_s=rng.uniform(1, 40, 25),
        requested_s=rng.uniform(1, 80, 25),
        cores=rng.integers(1, 12, 25),
        placement=rng.integers(0, 3, 25),
        ops=rng.uniform(1e9, 40e9, 25),
        memory_volume_mb=rng.uniform(0, 100, 25),
    )
    folder = tmp_path_factory.mktemp("runs")
    write_results(folder / "first", simulate(UNLIKE, jobs, policy).record(), RUN)
    schedule = folder / "first" / "schedule.csv"
    write_results(folder / "again", simulate(UNLIKE, jobs, f"scripted:{schedule}").record(), RUN)
    for name in ("jobs.csv", "nodes.csv", "metrics.json", "schedule.csv"):
        assert (folder / "again" / name).read_bytes() == (folder / "first" / name).read_bytes()


def test_jobs_do_not_wait_for_each_other() -> None:
    """A job starts at its time though one submitted before starts later."""
    schedule = {1: Start(0, 50.0, [0], [], "here:1"), 2: Start(1, 3.0, [1], [], "here:2")}
    simulation = simulate(cluster_of(2), jobs_of((0.0, 5.0, 1), (1.0, 5.0, 1)), scripted(schedule))
    assert starts(simulation) == {1: 50.0, 2: 3.0}


def test_job_starts_as_soon_as_its_node_is_free() -> None:
    """A start for which there is no room yet comes when there is."""
    schedule = {1: Start(0, 0.0, [0], [], "here:1"), 2: Start(1, 4.0, [0], [], "here:2")}
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
    """A job the schedule does not know is named, and so is the schedule."""
    with pytest.raises(PolicyError, match=r"the schedule mine\.csv has no line for job 1"):
        simulate(cluster_of(1), jobs_of((0.0, 5.0, 1)), scripted({}, "mine.csv"))


def test_lines_of_one_instant_start_in_their_order() -> None:
    """Jobs of one instant start in the order of the file."""
    schedule = {1: Start(1, 0.0, [0], [], "here:2"), 2: Start(0, 0.0, [0], [], "here:1")}
    simulation = simulate(cluster_of(1), jobs_of((0.0, 5.0, 1), (0.0, 3.0, 1)), scripted(schedule))
    assert starts(simulation) == {1: 3.0, 2: 0.0}


def test_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    """A spreadsheet's mark at the start of the file is no part of the first column's name."""
    file = tmp_path / "s.csv"
    file.write_text("\ufeffjob_id,start_s,nodes\n1,0,0\n", encoding="utf-8")
    assert callable(make_policy(f"scripted:{file}"))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("job_id,start\n1,2\n", ":1: column start_s is missing"),
        ("", ":1: column job_id is missing"),
        ("job_id,start_s,nodes\nx,2,0\n", ":2: expected job_id,start_s,nodes"),
        ("job_id,start_s,nodes\n1,2,0\n1,2,0\n", ":3: job 1 has a line already"),
        ("job_id,start_s,nodes\n1,,\n1,2,0\n", ":3: job 1 has a line already"),
        ("job_id,start_s,nodes\n1,2,\n", ":2: job 1: expected node numbers"),
        ("job_id,start_s,nodes\n1,2,0 0\n", ":2: job 1: expected node numbers >= 0, each once"),
        ("job_id,start_s,nodes\n1,2,-1\n", ":2: job 1: expected node numbers"),
        ("job_id,start_s,nodes\n1,nan,0\n", ":2: job 1: start_s is nan"),
        ("job_id,start_s,nodes\n1,inf,0\n", ":2: job 1: start_s is inf"),
        ("job_id,start_s,nodes\n1,1e16,0\n", ":2: job 1: start_s is 1e"),
        ("job_id,start_s,nodes,tasks\n1,1,0 1,1\n", ":2: job 1: expected a number of tasks"),
        ("job_id,start_s,nodes\n1,2\n", ":2: job 1: too few fields"),
        ("job_id,start_s,nodes\n1\n", ":2: job 1: too few fields"),
    ],
)
def test_bad_schedule(tmp_path: Path, text: str, error: str) -> None:
    """A bad schedule is refused with its line."""
    file = tmp_path / "s.csv"
    file.write_text(text)
    with pytest.raises(PolicyError, match=error):
        make_policy(f"scripted:{file}")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("1,0,9,", ":2: expected node numbers from 0 to 1, got 9"),
        ("1,0,0,3", ":2: expected 2 tasks of job 1, got 3"),
        ("1,0,0,", ":2: the nodes have too few cores for the 2 tasks"),
    ],
)
def test_schedule_of_another_platform(tmp_path: Path, line: str, error: str) -> None:
    """Nodes or tasks that do not exist are reported with the line."""
    file = tmp_path / "s.csv"
    file.write_text(f"job_id,start_s,nodes,tasks\n{line}\n")
    with pytest.raises(PolicyError, match=error):
        simulate(cluster_of(2), jobs_of((0.0, 5.0, 2)), f"scripted:{file}")


def test_missing_schedule(tmp_path: Path) -> None:
    """A schedule that is not there is named."""
    with pytest.raises(PolicyError, match=r"nowhere\.csv: the schedule cannot be read"):
        make_policy(f"scripted:{tmp_path}/nowhere.csv")


@pytest.mark.parametrize("name", ["scripted", "scripted:"])
def test_a_schedule_must_be_named(name: str) -> None:
    """Without a file the error shows the expected form."""
    with pytest.raises(PolicyError, match="names no file: expected scripted:results/"):
        make_policy(name)


def test_requeued_job_starts_at_its_next_line(tmp_path: Path) -> None:
    """A job has a line for each run; a schedule.csv with a failure of a node replays itself."""
    jobs = table(job(1, run_s=20.0, requeue=True), job(2, run_s=9.0))
    events = SiteEvents((NodeChange(at_s=5.0, nodes=(0,), kind="fail"),))
    file = tmp_path / "schedule.csv"
    file.write_text("job_id,start_s,nodes\n1,0,0\n2,1,1\n1,12.5,1\n")
    for policy in (f"scripted:{file}", f"scripted:{tmp_path / 'run' / 'schedule.csv'}"):
        simulation = Simulation(cluster_of(2), jobs, site_events=events)

        def send(decisions: Any, wake_on: Any, elapsed_s: Any, of: Simulation = simulation) -> Any:
            return of.advance(decisions, wake_on=wake_on, elapsed_s=elapsed_s)

        play(make_policy(policy), cluster_of(2), send)
        assert simulation.recording.periods.start_s.tolist() == [0.0, 1.0, 12.5]
        assert simulation.recording.end_s.tolist() == [32.5, 10.0]
        write_results(tmp_path / "run", simulation.record(), RUN)
