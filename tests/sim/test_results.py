"""The files of a results folder."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from hpcosim_protocol import AllocateJob, Explain, NodeGroup, Platform, Processor
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.errors import ResultsError
from hpcosim_sim.record.results import Run, metrics_of, write_results
from hpcosim_sim.record.tables import TABLES, Table, intervals
from support.paths import ROOT
from support.processes import SOON_S
from support.simulating import cluster_of, jobs_of

RUN = Run(
    hpcosim="1.2", scenario="small", scheduler="by hand", seed=7, complete=True,
    ended_because="all jobs are over", skipped={"corrupt_lines": 2, "out_of_order": 5},
)  # fmt: skip
FILES = ["jobs.csv", "metrics.json", "nodes.csv", "run.json", "schedule.csv"]


def small_run(steps: int = 9) -> Simulation:
    """Return a run of four jobs on three nodes, after so many steps of six.

    Job 1 runs on nodes 0 and 2 from 0.5 to 4.5 s, job 2 on node 0 from 4.5 to 6 s, job 3 on
    all from 6 to 7 s; job 4 is too large.
    """
    platform = Platform(
        (
            NodeGroup(2, (Processor(1, 1.0, 100.0, 10.0, 0.5),)),
            NodeGroup(1, (Processor(2, 1.0, 60.0, 5.0, 0.25),)),
        )
    )
    table = jobs_of((0.5, 4.0, 2), (1.0, 1.5, 1), (2.0, 1.0, 3), (2.0, 1.0, 9))
    simulation = Simulation(platform, table)
    decisions = [
        [],
        [AllocateJob(1, [2, 0], [1, 1])],
        [],
        [],
        [AllocateJob(2, [0])],
        [AllocateJob(3, [2, 1], [2, 1])],
    ]
    for wanted in decisions[:steps]:
        simulation.advance(wanted)
    return simulation


JOBS = """\
job_id,submit_s,start_s,end_s,state,cores,nodes,energy_j,reason,requested_s,placement,user,group,partition,account,qos,name,runs,suspended_s,lost_core_s
1,0.5,0.5,4.5,completed,2,0 2,700.0,,4.0,cores,,,,,,,1,0.0,0.0
2,1.0,4.5,6.0,completed,1,0,165.0,,1.5,cores,,,,,,,1,0.0,0.0
3,2.0,6.0,7.0,completed,3,1-2,180.0,,1.0,cores,,,,,,,1,0.0,0.0
4,2.0,,2.0,rejected,9,,0.0,requests 9 cores; the platform has 4,1.0,cores,,,,,,,0,0.0,0.0
"""
NODES = """\
start_s,end_s,nodes,state,power_w
0.5,4.5,2,computing,65.0
0.5,6.0,0,computing,110.0
0.5,6.0,1,idle,50.0
4.5,6.0,2,idle,15.0
6.0,7.0,0,idle,50.0
6.0,7.0,1,computing,110.0
6.0,7.0,2,computing,70.0
"""
JOBS_HALFWAY = """\
job_id,submit_s,start_s,end_s,state,cores,nodes,energy_j,reason,requested_s,placement,user,group,partition,account,qos,name,runs,suspended_s,lost_core_s
1,0.5,0.5,,running,2,0 2,262.5,,4.0,cores,,,,,,,1,0.0,0.0
2,1.0,,,waiting,1,,0.0,,1.5,cores,,,,,,,0,0.0,0.0
3,2.0,,,waiting,3,,0.0,,1.0,cores,,,,,,,0,0.0,0.0
4,2.0,,2.0,rejected,9,,0.0,requests 9 cores; the platform has 4,1.0,cores,,,,,,,0,0.0,0.0
"""
NODES_HALFWAY = """\
start_s,end_s,nodes,state,power_w
0.5,2.0,0,computing,110.0
0.5,2.0,1,idle,50.0
0.5,2.0,2,computing,65.0
"""


def lines_of(path: Path) -> list[str]:
    """Return the lines of a file with the rows sorted."""
    head, *rest = path.read_text().splitlines()
    return [head, *sorted(rest)]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.file)
def test_every_row_has_the_columns_of_its_table(table: Table) -> None:
    """A row has a cell for each column, and each column has a definition."""
    simulation = small_run(2)
    simulation.advance([Explain(2, "Resources", 4.5)])
    simulation.recording.changed_drain(4.5, 0, drained=True)
    rows = list(csv.reader(io.StringIO("".join(table.text(simulation.record())))))
    assert len(rows) > 1
    assert {len(row) for row in rows} == {len(table.columns)}
    assert all(column.meaning for column in table.columns)


def test_jobs(tmp_path: Path) -> None:
    """jobs.csv has a row for each job, in order of submission."""
    write_results(tmp_path / "out", small_run().record(), RUN)
    assert (tmp_path / "out/jobs.csv").read_bytes() == JOBS.encode()


def test_nodes(tmp_path: Path) -> None:
    """nodes.csv has a row for each period; consecutive jobs with equal power share one."""
    write_results(tmp_path / "out", small_run().record(), RUN)
    assert lines_of(tmp_path / "out/nodes.csv") == NODES.splitlines()


def test_nodes_are_sorted_by_end(tmp_path: Path) -> None:
    """The rows of nodes.csv are sorted by the end of the period."""
    write_results(tmp_path / "out", small_run().record(), RUN)
    lines = (tmp_path / "out/nodes.csv").read_text().splitlines()[1:]
    ends_s = [float(line.split(",")[1]) for line in lines]
    assert ends_s == sorted(ends_s)


def test_nodes_in_one_state_share_a_line(tmp_path: Path) -> None:
    """Nodes with equal state, power and period share a row."""
    simulation = Simulation(cluster_of(5), jobs_of((0.0, 2.0, 3)))
    simulation.advance()
    simulation.advance([AllocateJob(1, [0, 1, 4])])
    write_results(tmp_path / "out", simulation.record(), RUN)
    assert lines_of(tmp_path / "out/nodes.csv")[1:] == [
        "0.0,2.0,0-1 4,computing,110.0",
        "0.0,2.0,2-3,idle,50.0",
    ]


def test_metrics(tmp_path: Path) -> None:
    """metrics.json has all metrics; `jobs_skipped` excludes jobs that the reader kept."""
    simulation = small_run()
    write_results(tmp_path / "out", simulation.record(), RUN)
    written = json.loads((tmp_path / "out/metrics.json").read_text())
    assert written == metrics_of(simulation.record(), RUN)
    assert written["jobs_skipped"] == 2


def test_run(tmp_path: Path) -> None:
    """run.json contains the description of the run and the platform."""
    write_results(tmp_path / "out", small_run().record(), RUN)
    written = json.loads((tmp_path / "out/run.json").read_text())
    expected = {
        "hpcosim": "1.2",
        "scenario": "small",
        "scheduler": "by hand",
        "seed": 7,
        "complete": True,
        "ended_because": "all jobs are over",
        "skipped": {"corrupt_lines": 2, "out_of_order": 5},
    }
    assert written.items() >= expected.items()


def test_an_incomplete_run(tmp_path: Path) -> None:
    """An incomplete run has jobs without an end and periods up to the current time."""
    write_results(tmp_path / "out", small_run(3).record(), RUN)
    assert (tmp_path / "out/jobs.csv").read_text() == JOBS_HALFWAY
    assert lines_of(tmp_path / "out/nodes.csv") == NODES_HALFWAY.splitlines()


def test_a_run_that_has_not_begun(tmp_path: Path) -> None:
    """A run of duration 0 has no periods and no NaN in its metrics."""
    write_results(tmp_path / "out", small_run(0).record(), RUN)
    assert (tmp_path / "out/jobs.csv").read_text() == JOBS.splitlines()[0] + "\n"
    assert (tmp_path / "out/nodes.csv").read_text() == NODES.splitlines()[0] + "\n"
    metrics = json.loads((tmp_path / "out/metrics.json").read_text())
    assert set(metrics.values()) == {0, 2}


def test_times_are_exact(tmp_path: Path) -> None:
    """Times in the files round-trip to the exact float."""
    third = 1 / 3
    simulation = Simulation(cluster_of(1), jobs_of((third, 1e-7, 1), (1e9 + third, 1.0, 1)))
    simulation.advance()
    simulation.advance([AllocateJob(1, [0])])
    simulation.advance()
    simulation.advance([AllocateJob(2, [0])])
    write_results(tmp_path / "out", simulation.record(), RUN)
    rows = [line.split(",") for line in (tmp_path / "out/jobs.csv").read_text().splitlines()[1:]]
    recording = simulation.recording
    assert [float(row[1]) for row in rows] == [third, 1e9 + third]
    assert [float(row[3]) for row in rows] == list(recording.end_s)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([], ""),
        ([4], "4"),
        ([0, 1], "0-1"),
        ([0, 2], "0 2"),
        ([7, 3, 1, 2, 0, 9, 8], "0-3 7-9"),
        (range(1000), "0-999"),
    ],
)
def test_intervals(numbers: list[int], expected: str) -> None:
    """`intervals` sorts its numbers."""
    assert intervals(numbers) == expected


# --- the folder -------------------------------------------------------------------------------


def test_only_the_four_files(tmp_path: Path) -> None:
    """The results folder, with missing parents created, contains exactly the result files."""
    write_results(tmp_path / "a/b/out", small_run().record(), RUN)
    assert sorted(file.name for file in (tmp_path / "a/b/out").iterdir()) == FILES
    assert [file.name for file in (tmp_path / "a/b").iterdir()] == ["out"]


def test_earlier_results_are_replaced(tmp_path: Path) -> None:
    """Results replace earlier results; other files in the folder stay."""
    out = tmp_path / "out"
    write_results(out, small_run(3).record(), RUN)
    (out / "notes.txt").write_text("mine")
    write_results(out, small_run().record(), RUN)
    assert (out / "jobs.csv").read_text() == JOBS
    assert (out / "notes.txt").read_text() == "mine"
    assert sorted(file.name for file in out.iterdir()) == sorted([*FILES, "notes.txt"])


@pytest.mark.parametrize("where", ["file", "file/out", "file/a/out"])
def test_a_file_in_place_of_the_folder_is_an_error(tmp_path: Path, where: str) -> None:
    """A file in place of the folder gives an error that names it, and the file stays."""
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ResultsError, match=str(tmp_path / where)):
        write_results(tmp_path / where, small_run().record(), RUN)
    assert (tmp_path / "file").read_text() == "mine"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


FULL_DISK = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from support.full_disk import files_up_to
from support.simulating import cluster_of, jobs_of
from hpcosim_sim.errors import ResultsError
from hpcosim_sim.record.results import Run, write_results
from hpcosim_sim.engine.simulation import Simulation
simulation = Simulation(cluster_of(1), jobs_of(*[(0.0, 1.0, 1)] * 2000))
simulation.advance()
files_up_to(20_000)()
try:
    run = Run(hpcosim="0", scenario="", scheduler="", seed=0)
    write_results(Path({out!r}), simulation.record(), run)
except ResultsError as error:
    print(error)
"""


@pytest.mark.slow
def test_full_disk(tmp_path: Path) -> None:
    """A full disk gives an error, and the earlier results stay unchanged."""
    out = tmp_path / "out"
    write_results(out, small_run().record(), RUN)
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    program = FULL_DISK.format(tests=str(ROOT / "tests"), out=str(out))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=SOON_S
    )
    assert done.stderr == ""
    assert str(out) in done.stdout
    assert "File too large" in done.stdout
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


def test_a_folder_in_place_of_a_file_is_an_error(tmp_path: Path) -> None:
    """A folder in place of a result file gives an error, and all files stay unchanged."""
    out = tmp_path / "out"
    write_results(out, small_run(3).record(), RUN)
    (out / "run.json").unlink()
    (out / "run.json").mkdir()
    with pytest.raises(ResultsError):
        write_results(out, small_run().record(), RUN)
    assert (out / "jobs.csv").read_text() == JOBS_HALFWAY
    assert lines_of(out / "nodes.csv") == NODES_HALFWAY.splitlines()
