"""Schedules as job logs in the Standard Workload Format."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies

from hpcosim_sim.record.recording import STATES
from hpcosim_view.export.swf import STATUS, swf_lines, whole
from hpcosim_view.run.frame import frame
from hpcosim_workloads.logs.swf import read_swf
from support.examples import examples
from support.frames_by_hand import small_run


def jobs_of(text: str) -> dict[int, list[int]]:
    """Return the fields of each job by job number, without the first."""
    rows = [list(map(int, line.split())) for line in text.splitlines() if not line.startswith(";")]
    assert all(len(row) == 18 for row in rows)
    return {row[0]: row[1:] for row in rows}


def test_a_job_has_the_18_fields_of_the_standard() -> None:
    """Times are whole seconds that add up; what is unknown is -1."""
    jobs = jobs_of("".join(swf_lines(small_run())))
    none = -1
    assert jobs == {
        # submit wait run procs cpu mem procs time mem status user group exe queue part. prec. think
        1: [5, 0, 65, 5, none, none, 5, 120, none, 1, 1, 7, none, none, 1, none, none],
        2: [5, 0, 61, 2, none, none, 2, 61, none, 0, 2, 7, none, none, 1, none, none],
        3: [11, 1, 0, 1, none, none, 1, 1, none, 1, 1, none, none, none, 1, none, none],
        4: [20, 50, 30, 2, none, none, 2, 30, none, 5, none, none, none, none, none, none, none],
        5: [21, 0, none, none, none, none, 99, 10, none, 5, 1, 7, none, none, 1, none, none],
        6: [22, none, none, none, none, none, 8, none, none, none, 1, 7, none, none, 1, none, none],
    }


def test_the_header_describes_the_machine_and_the_names() -> None:
    """Names are one printable line of limited length, whatever they contain."""
    lines = [line for line in swf_lines(small_run()) if line.startswith(";")]
    assert lines[:2] == ["; Version: 2.2\n", "; Computer: simulated by hpcosim, scenario small\n"]
    for line in ("MaxJobs: 6", "MaxNodes: 3", "MaxProcs: 10", "Partition: 1 batch"):
        assert f"; {line}\n" in lines
    assert "; Note: user 1 is ann\n" in lines
    [hostile] = [line for line in lines if line.startswith("; Note: user 2 is <script>")]
    assert len(hostile) < 300
    assert hostile[:-1].isprintable()
    assert not any("group" in line for line in lines)  # their names are numbers


def test_the_log_is_read_by_hpcosim(tmp_path: Path) -> None:
    """The jobs that ran are jobs of a workload with the same run times, cores and users."""
    log = tmp_path / "run.swf"
    log.write_text("".join(swf_lines(small_run())), encoding="utf-8")
    table = read_swf(log)
    assert table.job_id.tolist() == [1, 2, 4]
    assert table.run_s.tolist() == [65, 61, 30]
    assert table.cores.tolist() == [5, 2, 2]
    assert [job.user for job in table.rows()] == ["1", "2", ""]
    assert table.skipped == {"run_time_unknown_or_zero": 3}


def test_job_numbers_begin_at_1() -> None:
    """Job ids from 0 are shifted by one, and a note says so."""
    run = frame(
        {"scenario": "x", "scheduler": "y", "seed": 0, "start_s": 0, "now_s": 1, "nodes": []},
        {
            **{f"job.{name}": [0, 0] for name in ("submit_s", "requested_s", "placement")},
            **{f"job.{name}": [-1, -1] for name in ("user", "group", "partition")},
            "job.id": [0, 1],
            "job.cores": [1, 1],
        },
    )
    text = "".join(swf_lines(run))
    assert list(jobs_of(text)) == [1, 2]
    assert "; Note: job numbers are the job ids of the results plus 1\n" in text


def test_every_state_has_a_status() -> None:
    """The states of jobs and the table of statuses are the same set."""
    assert set(STATUS) == set(STATES)


@examples(200)
@given(strategies.lists(strategies.floats(0, 1e9), min_size=2, max_size=20))
def test_rounding_keeps_the_order_of_times(times_s: list[float]) -> None:
    """Jobs that follow each other on a core do so in whole seconds, too."""
    rounded = [whole(time_s) for time_s in sorted(times_s)]
    assert rounded == sorted(rounded)
    assert all(abs(a - b) <= 0.5 for a, b in zip(rounded, sorted(times_s), strict=True))


@pytest.mark.parametrize(
    ("time_s", "expected"), [(0.5, 1), (1.5, 2), (2.49, 2), (float("nan"), -1)]
)
def test_halves_are_rounded_up(time_s: float, expected: int) -> None:
    """Rounding does not depend on whether the second is even."""
    assert whole(time_s) == expected
