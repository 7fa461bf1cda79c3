"""Results folders as frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hpcosim_sim.record.results import Run, write_results
from hpcosim_view.run.folder import read_folder
from hpcosim_view.run.frame import Frame
from hpcosim_view.run.moment import moment
from support.simulating import cluster_of, jobs_of, simulate


@pytest.fixture
def small(tmp_path: Path) -> Frame:
    """Two jobs that run, one after the other, and one that is rejected."""
    jobs = jobs_of((0.0, 10.0, 3, 20.0), (1.0, 5.0, 4), (2.0, 1.0, 9))
    simulation = simulate(cluster_of(2, 2), jobs)
    run = Run(scenario="a", scheduler="fcfs", seed=3, hpcosim="1", complete=True)
    write_results(tmp_path / "out", simulation.record(), run)
    return read_folder(tmp_path / "out")


def test_a_folder_has_submissions_starts_and_ends(small: Frame) -> None:
    """Jobs are in order of submission, starts and ends in order of time."""
    columns = small.columns
    assert columns["job.id"].tolist() == [1, 2, 3]
    assert columns["job.requested_s"].tolist() == [20.0, 5.0, 1.0]
    assert columns["start.job"].tolist() == [0, 1]
    assert columns["start.time_s"].tolist() == [0.0, 10.0]
    assert columns["end.job"].tolist() == [2, 0, 1]
    assert columns["end.time_s"].tolist() == [2.0, 10.0, 15.0]
    assert small.about["nodes"] == [[2, 2, "group 0"]]
    assert (small.about["start_s"], small.about["now_s"]) == (0.0, 15.0)


def test_a_moment_has_queue_running_jobs_and_nodes(small: Frame) -> None:
    """At 4 s job 1 runs on three of four cores and job 2 waits."""
    then = moment(small, 4.0)
    assert then.waiting.job.tolist() == [1]
    assert then.running.job.tolist() == [0]
    assert then.running.nodes == [[(0, 1)]]
    assert (then.running.used_s.tolist(), then.running.left_s.tolist()) == ([4.0], [16.0])
    assert then.nodes.allocated.tolist() == [2, 1]
    assert np.all(then.nodes.power == 0)
