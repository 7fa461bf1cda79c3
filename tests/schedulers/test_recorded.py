"""The policy `recorded`: replay of recorded runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hpcosim_client import PolicyError
from hpcosim_protocol import JobRequest, NodeGroup, Platform, Processor
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.heuristics.recorded import RecordedRun, read_recorded, recorded
from hpcosim_workloads.table import JobTable, job_table
from support.simulating import jobs_of, simulate, starts

NAMED = Platform(
    (
        NodeGroup(2, (Processor(4),), names="n[1-2]"),
        NodeGroup(1, (Processor(4),), names="big"),
    )
)
HEADER = "job_id,submit_s,start_s,end_s,nodes,state\n"


def run(wait_s: float, nodes: str, end_s: float = np.inf) -> RecordedRun:
    """Return a run that starts a time after the submission."""
    return RecordedRun(wait_s, end_s, nodes, "runs.csv:2")


def test_jobs_start_when_and_where_they_did() -> None:
    """A later job may start first; names are those of the platform."""
    jobs = jobs_of((0, 10, 4), (1, 10, 2))
    simulation = simulate(NAMED, jobs, recorded({1: [run(20.0, "big")], 2: [run(4.0, "n2")]}))
    assert starts(simulation) == {1: 20.0, 2: 5.0}
    columns = simulation.recording
    assert [columns.nodes_of(row) for row in (0, 1)] == [[2], [1]]


def test_a_job_has_tasks_on_each_of_its_nodes() -> None:
    """Cores per node are unknown: one task on each, and the rest in their order."""
    jobs = jobs_of((0, 10, 6))
    simulation = simulate(NAMED, jobs, recorded({1: [run(0.0, "n[1-2],big")]}))
    assert simulation.recording.nodes_of(0) == [0, 1, 2]


def test_a_job_waits_for_its_nodes() -> None:
    """A job that runs longer than recorded delays the next one on its nodes only."""
    jobs = jobs_of((0, 30, 4), (0, 10, 4), (0, 10, 4))
    runs = {1: [run(0.0, "n1")], 2: [run(20.0, "n1")], 3: [run(20.0, "n2")]}
    assert starts(simulate(NAMED, jobs, recorded(runs))) == {1: 0.0, 2: 30.0, 3: 20.0}


def test_the_job_that_ended_first_starts_first() -> None:
    """Of two jobs that started in the same second on the same node."""
    jobs = jobs_of((0, 10, 4), (0, 0.5, 4))
    runs = {1: [run(20.0, "n1", 30.0)], 2: [run(20.0, "n1", 20.0)]}
    assert starts(simulate(NAMED, jobs, recorded(runs))) == {1: 20.5, 2: 20.0}


def test_a_requeued_job_runs_as_often_as_it_did() -> None:
    """Its first run ends at its recorded end, and the work begins anew."""
    jobs = requeueable((0, 10, 4))
    runs = {1: [run(0.0, "n1", 4.0), run(50.0, "n2", 60.0)]}
    simulation = simulate(NAMED, jobs, recorded(runs))
    assert starts(simulation) == {1: 50.0}
    assert simulation.recording.end_s[0] == 60.0
    assert simulation.recording.nodes_of(0) == [1]


def test_a_job_without_nodes_starts_anywhere() -> None:
    """Tables without nodes are replayed by their times."""
    assert starts(simulate(NAMED, jobs_of((5, 10, 12)), recorded({1: [run(2.0, "")]}))) == {1: 7.0}


def test_a_job_that_cannot_be_on_its_nodes_is_rejected() -> None:
    """It does not wait for ever."""
    simulation = simulate(NAMED, jobs_of((0, 10, 8)), recorded({1: [run(3.0, "n1")]}))
    assert np.isnan(simulation.recording.start_s[0])


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ({1: [run(0.0, "n7")]}, "runs.csv:2: unknown node 'n7'; the nodes are 'n\\[1-2\\],big'"),
        ({}, "the recorded runs mine.csv have no line for job 1"),
    ],
)
def test_runs_of_another_cluster_are_an_error(
    runs: dict[int, list[RecordedRun]], message: str
) -> None:
    """The message names the line, or the file and the job."""
    with pytest.raises(PolicyError, match=message):
        simulate(NAMED, jobs_of((0, 10, 1)), recorded(runs, "mine.csv"))


def test_the_file_of_an_import_is_read(tmp_path: Path) -> None:
    """Runs are relative to the submission, in order of time."""
    path = tmp_path / "jobs.recorded.csv"
    path.write_text(HEADER + "7,5,90,,n2,COMPLETED\n7,5,10,40,n1,NODE_FAIL\n")
    assert read_recorded(path) == {
        7: [
            RecordedRun(5.0, 35.0, "n1", f"{path}:3"),
            RecordedRun(85.0, np.inf, "n2", f"{path}:2"),
        ]
    }
    make_policy(f"recorded:{path}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job_id\n", "column submit_s is missing"),
        (HEADER + "x,0,1,2,n1,\n", "jobs.csv:2: expected job_id,submit_s"),
        (HEADER + "1,5,4,9,n1,\n", "job 1: expected 0 <= submit_s <= start_s <= end_s"),
        (HEADER + "1,0,nan,9,n1,\n", "job 1: expected 0 <= submit_s <= start_s <= end_s"),
    ],
)
def test_an_invalid_file_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    """The message has file and line."""
    path = tmp_path / "jobs.csv"
    path.write_text(text)
    with pytest.raises(PolicyError, match=message):
        make_policy(f"recorded:{path}")


def test_the_name_needs_a_file() -> None:
    """The message has an example."""
    with pytest.raises(PolicyError, match="names no file: expected recorded:jobs"):
        make_policy("recorded")


def requeueable(*jobs: tuple[float, float, int]) -> JobTable:
    """Return jobs that may be requeued."""
    return job_table(
        job_id=range(1, len(jobs) + 1),
        submit_s=[job[0] for job in jobs],
        run_s=[job[1] for job in jobs],
        requested_s=[job[1] for job in jobs],
        cores=[job[2] for job in jobs],
        request=0,
        requests=(JobRequest(requeue=True),),
    )
