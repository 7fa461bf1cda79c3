"""Jobs that were suspended or requeued, in tables, figures and exports."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hpcosim_sim.record.recording import STATES
from hpcosim_view.export.parquet import write_parquet
from hpcosim_view.export.swf import swf_lines
from hpcosim_view.figure import _rectangles
from hpcosim_view.run.extracts import TIME_UNITS, job_changes, queue_of, states_of, used_cores_of
from hpcosim_view.run.frame import Frame, frame, periods_of
from hpcosim_view.run.moment import moment
from hpcosim_view.terminal.slurm_tables import queue_at, squeue
from hpcosim_view.terminal.top import Order, running_rows


@pytest.fixture
def run() -> Frame:
    """Job 1 is suspended from 20 to 30 s; job 2 is requeued at 15 s and starts again at 40 s.

    Job 3 is requeued at 50 s and does not start again; job 4 is suspended from 56 s on.
    """
    over = STATES.index("completed")
    return frame(
        {
            "scenario": "s",
            "scheduler": "p",
            "seed": 1,
            "start_s": 0.0,
            "now_s": 60.0,
            "nodes": [[2, 4, "n"]],
        },
        {
            "job.id": [1, 2, 3, 4],
            "job.submit_s": [0.0, 5.0, 45.0, 50.0],
            "job.requested_s": [100.0] * 4,
            "job.cores": [2, 2, 2, 2],
            "job.placement": [0] * 4,
            **{f"job.{name}": [-1] * 4 for name in ("user", "group", "partition")},
            "start.job": [0, 1, 0, 1, 2, 3],
            "start.time_s": [0.0, 10.0, 30.0, 40.0, 45.0, 51.0],
            "start.boxes": [1] * 6,
            "box.first": [0, 2, 0, 2, 4, 6],
            "box.last": [1, 3, 1, 3, 5, 7],
            "pause.start": [1, 0, 4, 5],
            "pause.time_s": [15.0, 20.0, 50.0, 56.0],
            "pause.why": [2, 1, 3, 1],
            "end.job": [0, 1],
            "end.time_s": [50.0, 58.0],
            "end.state": [over, over],
            "end.energy_j": [1.0, 1.0],
        },
    )


def test_periods_of_a_run_have_its_start_and_its_computing_time(run: Frame) -> None:
    """A resumed period belongs to the run before it, a start after a requeue to another one."""
    periods = periods_of(run)
    np.testing.assert_equal(periods.end_s, [20.0, 15.0, 50.0, 58.0, 50.0, 56.0])
    assert periods.resumes.tolist() == [False, False, True, False, False, False]
    assert periods.run_start_s.tolist() == [0.0, 10.0, 0.0, 40.0, 45.0, 51.0]
    computed_s = periods.computed_s(run.columns["start.time_s"], 35.0)
    assert computed_s.tolist() == [25.0, 5.0, 25.0, 0.0, 0.0, 0.0]


def test_states_at_the_end_of_the_run(run: Frame) -> None:
    """A requeued job waits, a suspended one counts as running."""
    assert states_of(run) == ["completed", "completed", "waiting", "running"]


def test_squeue_shows_suspended_jobs_and_time_without_suspension(run: Frame) -> None:
    """Slurm's state of a suspended job is S; its time stands still."""
    rows = [line.split() for line in squeue(queue_at(run, 25.0))[1:]]
    assert [(row[0], row[4], row[5]) for row in rows] == [("2", "PD", "0:00"), ("1", "S", "0:20")]
    (waiting, first) = queue_at(run, 35.0)
    assert (waiting.state, waiting.used_s) == ("waiting", 0.0)
    assert (first.state, first.start_s, first.used_s) == ("running", 0.0, 25.0)
    ended = {job.job_id: job for job in queue_at(run, 60.0, {"completed"})}
    assert (ended[1].used_s, ended[2].start_s, ended[2].used_s) == (40.0, 40.0, 18.0)


def test_a_job_without_a_partition_has_the_default_one(run: Frame) -> None:
    """As Slurm shows it; without partitions on the platform it is unknown."""
    parts = [["gpu", [[0, 0]], "up", None, False], ["batch", [[1, 1]], "up", None, True]]
    site = run._replace(about={**run.about, "node_partitions": parts})
    assert [job.partition for job in queue_at(site, 25.0)] == ["batch", "batch"]
    assert [job.partition for job in queue_at(run, 25.0)] == ["", ""]


def test_top_marks_suspended_jobs(run: Frame) -> None:
    """Suspended jobs follow the running ones."""
    rows = running_rows(run, moment(run, 57.0), Order()).cells
    assert [(row[0], row[3], row[6]) for row in rows] == [
        ("2", "0:17", "node0"),
        ("4", "0:05", "suspended on node1"),
    ]


def test_cores_and_queue_between_periods(run: Frame) -> None:
    """Cores are free while a job is suspended, and a requeued job waits again."""
    at_s = np.array([2.0, 7, 12, 17, 25, 35, 42, 47, 52, 57, 59])
    assert used_cores_of(run).at(at_s).tolist() == [2, 2, 4, 2, 0, 2, 4, 6, 4, 2, 0]
    assert queue_of(run).at(at_s).tolist() == [0, 1, 0, 1, 1, 1, 0, 0, 1, 1, 1]


def test_changes_of_periods_are_in_order(run: Frame) -> None:
    """Each period begins and ends once."""
    changes = list(job_changes(run))
    assert [change.time_s for change in changes] == sorted(change.time_s for change in changes)
    assert [(c.start, c.time_s) for c in changes if not c.starts] == [
        *((1, 15.0), (0, 20.0), (4, 50.0), (2, 50.0), (5, 56.0), (3, 58.0)),
    ]
    assert sorted(c.start for c in changes if c.starts) == list(range(6))


def test_rectangles_of_the_figure_are_periods(run: Frame) -> None:
    """Each ends with its period, not with its job."""
    second = next(unit for unit in TIME_UNITS if unit.size == 1)
    left, right, *_ = _rectangles(run, second).T
    assert left.tolist() == [0.0, 10.0, 30.0, 40.0, 45.0, 51.0]
    assert right.tolist() == [20.0, 15.0, 50.0, 58.0, 50.0, 56.0]


def test_swf_has_the_last_run_without_suspensions(run: Frame) -> None:
    """Wait and run time of job 1 are 0 and 40 s, of job 2 35 and 18 s; job 3 waits."""
    lines = list(swf_lines(run))
    assert "; Preemption: TS\n" in lines
    jobs = [line.split() for line in lines if not line.startswith(";")]
    assert [(job[2], job[3], job[4]) for job in jobs] == [
        ("0", "40", "2"),
        ("35", "18", "2"),
        ("-1", "-1", "-1"),
        ("1", "-1", "2"),
    ]


def test_parquet_has_all_periods(run: Frame, tmp_path: Path) -> None:
    """The table of jobs has the last run, `runs.parquet` each computing period."""
    parquet = pytest.importorskip("pyarrow.parquet")
    names = ("jobs.parquet", "runs.parquet")
    write_parquet(run, {name: tmp_path / name for name in names})
    jobs, periods = (parquet.read_table(tmp_path / name).to_pydict() for name in names)
    assert jobs["start_s"] == [0.0, 40.0, None, 51.0]
    assert jobs["nodes"] == [[0], [0], None, [1]]
    assert periods["job_id"] == [1, 2, 1, 2, 3, 4]
    assert periods["end"] == [
        *("suspended", "requeued", "completed", "completed", "requeued_node_failed", "suspended"),
    ]
