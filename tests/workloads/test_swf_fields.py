"""Fields of SWF logs that are read on request: status, queue, preceding job and think time."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcosim_protocol import Dependency, JobRequest
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.model.jobs import jobs_of
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.logs.job_lines import JobProfile
from hpcosim_workloads.logs.swf import SwfFields, read_swf
from hpcosim_workloads.table import JobSpec


def line(
    job_id: int = 1,
    run: int = 10,
    status: object = 1,
    queue: object = 3,
    preceding: object = -1,
    think: object = -1,
) -> str:
    """Return a line of a log: 4 cores, user 5, group 6, executable 7, queue, partition 8."""
    return f"{job_id} 0 0 {run} 4 -1 -1 4 20 -1 {status} 5 6 7 {queue} 8 {preceding} {think}"


def read(folder: Path, fields: SwfFields, *lines: str) -> dict[int, JobSpec]:
    """Return the jobs of a log by number."""
    path = folder / "log.swf"
    path.write_text("\n".join(lines))
    return {job.job_id: job for job in read_swf(path, fields=fields).rows()}


def test_the_default_reads_none_of_them(tmp_path: Path) -> None:
    """Failed jobs complete, nobody waits, and texts in these fields do no harm."""
    found = read(tmp_path, SwfFields(), line(1, status=0), line(2, preceding=1, queue="x"))
    assert [(job.fails, job.request, job.partition) for job in found.values()] == [
        (False, None, "8")
    ] * 2


@pytest.mark.parametrize(("status", "fails"), [(0, True), (5, True), (1, False), (-1, False)])
def test_failed_and_cancelled_jobs_can_fail(tmp_path: Path, status: int, fails: bool) -> None:
    """A job that was cancelled after its start ends in another state than `completed`."""
    found = read(tmp_path, SwfFields(failed_jobs="fail"), line(status=status))
    assert found[1].fails == fails


@pytest.mark.parametrize("run", [0, -1])
def test_jobs_cancelled_while_they_waited_are_dropped(tmp_path: Path, run: int) -> None:
    """They are counted by a rule of their own, also if jobs of run time 0 are kept."""
    path = tmp_path / "log.swf"
    path.write_text("\n".join([line(1), line(2, run=run, status=5)]))
    table = read_swf(path, fields=SwfFields(failed_jobs="fail"), zero_run_time="keep")
    assert table.job_id.tolist() == [1]
    assert table.skipped == {"cancelled_while_waiting": 1}


def test_a_job_can_wait_for_its_preceding_job(tmp_path: Path) -> None:
    """The think time is the delay; below 0 it is unknown and counts as 0."""
    lines = line(1), line(2, preceding=1, think=30), line(3, preceding=2)
    found = read(tmp_path, SwfFields(preceding_jobs="wait"), *lines)
    assert [job.request for job in found.values()] == [
        None,
        JobRequest(dependencies=(Dependency("afterany", (1,), 30.0),)),
        JobRequest(dependencies=(Dependency("afterany", (2,)),)),
    ]


@pytest.mark.parametrize(
    ("preceding", "think", "what"),
    [
        (2, 0, r"field 17 \(preceding job\): expected a job number below 2, got 2"),
        ("a", 0, r"field 17 \(preceding job\): expected an integer, got 'a'"),
        (1, "b", r"field 18 \(think time\): expected a number, got 'b'"),
        (1, "nan", r"field 18 \(think time\): expected a number up to"),
    ],
)
def test_an_invalid_preceding_job_is_an_error(
    tmp_path: Path, preceding: object, think: object, what: str
) -> None:
    """The error names line and field."""
    bad = line(2, preceding=preceding, think=think)
    with pytest.raises(WorkloadError, match=rf"log\.swf:2: {what}"):
        read(tmp_path, SwfFields(preceding_jobs="wait"), line(1), bad)


def test_the_queue_can_be_the_partition(tmp_path: Path) -> None:
    """Field 15 replaces field 16."""
    found = read(tmp_path, SwfFields(partition_field="queue"), line(1), line(2, queue=-1))
    assert [job.partition for job in found.values()] == ["3", ""]


def test_a_profile_states_what_jobs_of_a_log_require(tmp_path: Path) -> None:
    """Memory for the job is divided among its cores; dependencies of the log stay."""
    path = tmp_path / "log.swf"
    path.write_text("\n".join([line(1), line(2, preceding=1), line(3).replace(" 7 ", " 1 ")]))
    profile = JobProfile(gres_per_node={"gpu": 1}, memory_per_job_mb=400)
    fields = SwfFields(preceding_jobs="wait")
    one, two, three = read_swf(path, profiles={"7": profile}, fields=fields).rows()
    assert (one.memory_mb, one.request) == (100, JobRequest(gres_per_node={"gpu": 1}))
    waits = (Dependency("afterany", (1,)),)
    assert two.request == JobRequest(gres_per_node={"gpu": 1}, dependencies=waits)
    assert (three.memory_mb, three.request) == (0, None)


def test_a_profile_that_does_not_fit_a_job_is_an_error(tmp_path: Path) -> None:
    """The error names the profile, the job and the field."""
    path = tmp_path / "log.swf"
    path.write_text(line(1))
    with pytest.raises(WorkloadError, match=r"profile '7' does not fit job 1 .*cores_per_task"):
        read_swf(path, profiles={"7": JobProfile(cores_per_task=3)})


SCENARIO = """\
name: s
platform: {nodes: [{count: 1, processors: [{cores: 8, static_w: 9, dynamic_w: 1}]}]}
workload:
"""


def test_a_scenario_chooses_the_fields(tmp_path: Path) -> None:
    """The keys of the workload section are those of the reader."""
    (tmp_path / "log.swf").write_text("\n".join([line(1, status=0), line(2, preceding=1)]))
    path = tmp_path / "s.yaml"
    keys = "swf: log.swf, failed_jobs: fail, preceding_jobs: wait, partition_field: queue"
    path.write_text(f"{SCENARIO}  {{{keys}}}\n")
    one, two = jobs_of(load_scenario(path), tmp_path).rows()
    assert (one.fails, one.partition) == (True, "3")
    assert two.request is not None


@pytest.mark.parametrize("key", ["failed_jobs: fail", "preceding_jobs: wait"])
def test_the_settings_need_a_log(tmp_path: Path, key: str) -> None:
    """They do not apply to jobs that the scenario lists."""
    path = tmp_path / "s.yaml"
    path.write_text(f"{SCENARIO}  inline: []\n  {key}\n")
    with pytest.raises(ScenarioError, match=r"s.yaml:5: workload.*applies to job logs"):
        load_scenario(path)
