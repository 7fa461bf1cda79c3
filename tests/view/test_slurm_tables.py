"""The tables of `squeue` and `sinfo`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hpcosim_view.errors import SelectionError
from hpcosim_view.terminal.slurm_tables import (
    duration,
    intervals_of,
    node_list,
    nodes_at,
    queue_at,
    sinfo,
    squeue,
    states_named,
    time_in,
)
from support.frames_by_hand import small_run


def test_squeue_has_the_look_of_slurm() -> None:
    """Columns, widths and order are those of Slurm's default format; long names are cut off."""
    assert squeue(queue_at(small_run(), 25.0)) == [
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)",
        "                 4         -     job4        - PD       0:00      1 (Resources)",
        "                 6     batch     job6      ann PD       0:00      2 (Priority)",
        "                 1     batch     job1      ann  R       0:20      2 node[0-1]",
        "                 2     batch     job2 <script>  R       0:20      2 node[0-1]",
    ]


def test_long_adds_limits_and_states_in_full() -> None:
    """An unknown requested time is N/A."""
    table = squeue(queue_at(small_run(), 80.0), long=True)
    assert table[0].split()[4:7] == ["STATE", "TIME", "TIME_LIMI"]
    assert table[1].split()[4:] == ["RUNNING", "0:10", "0:30", "1", "node2"]
    assert table[2].split()[4:] == ["PENDING", "0:00", "N/A", "2", "(Priority)"]


def test_start_lists_waiting_jobs_by_expected_start() -> None:
    """The time is the simulated one; jobs without an expectation come last."""
    early, late = (squeue(queue_at(small_run(), at_s), start=True) for at_s in (22.0, 25.0))
    assert [line.split()[0] for line in early] == ["JOBID", "4", "6"]
    assert [line.split()[5] for line in early] == ["START_TIME", "N/A", "N/A"]
    assert [line.split()[7:] for line in late] == [
        *(["SCHEDNODES", "NODELIST(REASON)"], ["(null)", "(Resources)"], ["(null)", "(Priority)"]),
    ]
    assert [line.split()[5] for line in late] == ["START_TIME", "1:05", "2:00"]


def test_times_and_numbers_are_not_cut_off() -> None:
    """A long one widens its column, since a part of it is another number."""
    run = small_run()
    ids, requested_s = (np.array(run.columns[f"job.{name}"]) for name in ("id", "requested_s"))
    ids[3], requested_s[3] = 10**18 + 1, 129_634.0
    run = run._replace(columns={**run.columns, "job.id": ids, "job.requested_s": requested_s})
    table = squeue(queue_at(run, 80.0), long=True)
    assert table[1].split()[0] == "1000000000000000001"
    assert table[1].split()[5:] == ["0:10", "1-12:00:34", "1", "node2"]
    assert table[1].index(" 1 node2") == table[2].index(" 2 (Priority)")


def test_the_expected_start_is_no_start() -> None:
    """A waiting job has an expected start only, a running one a start only."""
    jobs = queue_at(small_run(), 25.0)
    starts = {job.job_id: (str(job.start_s), str(job.expected_start_s)) for job in jobs}
    assert starts[4] == ("nan", "65.0")
    assert starts[1] == ("5.0", "nan")


def test_a_job_without_explanation_has_no_reason() -> None:
    """Slurm prints (None) for it."""
    assert squeue(queue_at(small_run(), 22.0))[2].endswith("(None)")


def test_jobs_that_are_over_are_shown_on_request() -> None:
    """States have Slurm's names; a name that is unknown is an error."""
    jobs = queue_at(small_run(), 110.0, states_named("all"))
    assert {job.job_id: job.state for job in jobs} == {
        1: "completed",
        2: "timeout",
        3: "completed",
        4: "killed",
        5: "rejected",
        6: "waiting",
    }
    codes = [line.split()[4] for line in squeue(jobs)[1:]]
    assert sorted(codes) == ["CA", "CA", "CD", "CD", "PD", "TO"]
    held = {line.split()[0]: line.split()[6:] for line in squeue(jobs)[1:]}
    assert held == {
        "1": ["2", "node[0-1]"],
        "2": ["2", "(TimeLimit)"],
        "3": ["1", "node2"],
        "4": ["1", "node2"],
        "5": ["0"],
        "6": ["2", "(Priority)"],
    }
    assert states_named("pd, Running") == {"waiting", "running"}
    with pytest.raises(SelectionError, match="unknown state 'XY'; expected all, or of PD, R, S,"):
        states_named("R,XY")


def test_hostile_names_stay_in_their_cell() -> None:
    """Names cannot end a line, control the terminal or change the direction of text."""
    hostile = "\u202e\x1b[31m\nred"
    table = squeue(queue_at(small_run(users=["宽" * 9, hostile]), 25.0))
    assert all(line.isprintable() for line in table)
    assert table[4].split()[3] == "??[31m-r"
    assert table[3].index(" R ") - table[4].index(" R ") == -4  # 4 characters are 8 cells wide


def test_sinfo_has_the_look_of_slurm() -> None:
    """A row for each node group and state; nodes that are not on have Slurm's suffix."""
    assert sinfo(nodes_at(small_run(), 25.0)) == [
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST",
        "big          up   infinite      1    mix node0",
        "big          up   infinite      1  alloc node1",
        "small        up   infinite      1   idle node2",
    ]
    assert sinfo(nodes_at(small_run(), 68.0))[1].split()[3:] == ["2", "mix", "node[0-1]"]
    states = {at_s: nodes_at(small_run(), at_s)[-1].state for at_s in (35.0, 45.0, 65.0, 75.0)}
    assert states == {35.0: "idle%", 45.0: "idle~", 65.0: "idle#", 75.0: "alloc"}


def test_partitions_and_nodes_have_the_names_of_the_platform() -> None:
    """A node may be in several partitions; the default one has a star."""
    run = small_run()
    partitions = [["all", [[0, 2]], "up", None, True], ["night", [[2, 2]], "down", 3600.0, False]]
    about = {**run.about, "node_names": "n[08-09],big", "node_partitions": partitions}
    run = run._replace(about=about)
    assert sinfo(nodes_at(run, 25.0)) == [
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST",
        "all*         up   infinite      1    mix n08",
        "all*         up   infinite      1  alloc n09",
        "all*         up   infinite      1   idle big",
        "night      down    1:00:00      1   idle big",
    ]
    assert squeue(queue_at(run, 25.0))[-1].endswith(" n[08-09]")


def test_node_lists_are_in_brackets() -> None:
    """One node has no brackets."""
    assert node_list(intervals_of([0, 1, 2, 3, 7])) == "node[0-3,7]"
    assert node_list(intervals_of([7])) == "node7"
    assert node_list(intervals_of([3, 4])) == "node[3-4]"
    assert node_list([]) == ""


def test_durations_are_those_of_slurm() -> None:
    """Days and hours appear when they are needed."""
    shown = [duration(seconds) for seconds in (0, 59.9, 60, 3723, 90061, math.nan, math.inf)]
    assert shown == ["0:00", "0:59", "1:00", "1:02:03", "1-01:01:01", "N/A", "N/A"]


@pytest.mark.parametrize(
    ("text", "at_s"),
    [
        *[("0", 0), ("12.5", 12.5), ("1e2", 100), ("90s", 90), ("1.5m", 90), ("50%", 55)],
        *[("100%", 110), ("00:01:30", 90), ("0-00:01:30", 90), ("0:01", 1)],
        *[("1:45", 105), ("0:1:45", 105), ("1:30", 90), ("0-0", 0), ("0-0:1", 60)],
    ],
)
def test_times_have_many_forms(text: str, at_s: float) -> None:
    """Seconds, units, Slurm's form and parts of the run."""
    assert time_in(small_run(), text) == at_s


@pytest.mark.parametrize("at_s", [0.5, 59.5, 60.0, 105.0, 3723.25, 86_400.0, 200_000.75])
def test_a_printed_time_reads_back(at_s: float) -> None:
    """It is the same second; in the second of the begin it is the begin."""
    for start_s in (0.25, at_s):
        run = small_run(start_s=start_s, now_s=200_001.0)
        read_s = time_in(run, duration(at_s))
        assert read_s == max(math.floor(at_s), start_s)
        assert duration(read_s) == duration(at_s)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "5y",
        "-1",
        "nan",
        "inf",
        "1:2:3:4",
        "1:60",
        "1-",
        "9" * 5000 + ":00",
        "٣",
        "1_0",
        "%",
    ],
)
def test_what_is_no_time_is_an_error(text: str) -> None:
    """The error lists the forms."""
    with pytest.raises(SelectionError, match="is no time; expected seconds, 90m, 36h, 2d"):
        time_in(small_run(), text)


@pytest.mark.parametrize("text", ["111", "2d", "101%", "9" * 400])
def test_a_time_outside_the_run_is_an_error(text: str) -> None:
    """The error has the begin and the end of the run."""
    with pytest.raises(SelectionError, match=r"goes from 0 s \(0%\) to 110 s"):
        time_in(small_run(), text)
