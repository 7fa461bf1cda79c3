"""Job records of Slurm's accounting as jobs."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hpcosim_protocol.hosts import NodeNames
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library
from hpcosim_scenarios.running.policies import chosen_by
from hpcosim_scenarios.running.run import opened_with
from hpcosim_slurm.files.output import InputError
from hpcosim_slurm.files.record_jobs import RecordOptions
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.sacct import import_sacct
from hpcosim_slurm.files.slurm.convert import import_slurm
from hpcosim_workloads.logs.job_lines import read_jsonl
from support.paths import SHARED
from support.slurm_site import COLUMNS, PENDING, record, sacct_text

GOLDEN = SHARED / "golden" / "slurm"
needs_golden = pytest.mark.skipif(
    not GOLDEN.is_dir(), reason="the recorded runs of Slurm are not on this machine"
)

Jobs = list[dict[str, Any]]


def imported(
    tmp_path: Path, *records: Mapping[str, str], **options: Any
) -> tuple[Jobs, list[dict[str, str]], ImportReport]:
    """Return the jobs, the recorded runs and the report of records."""
    path = tmp_path / "sacct.psv"
    path.write_text(sacct_text(*records))
    return read(path, tmp_path, **options)


def read(
    path: Path, tmp_path: Path, **options: Any
) -> tuple[Jobs, list[dict[str, str]], ImportReport]:
    """Return the jobs, the recorded runs and the report of a file."""
    out = tmp_path / "jobs.jsonl"
    report = import_sacct(path, out, RecordOptions(**options))
    jobs = [json.loads(line) for line in out.read_text().splitlines()]
    with (tmp_path / "jobs.recorded.csv").open(newline="") as file:
        return jobs, list(csv.DictReader(file)), report


def test_a_job_has_its_fields(tmp_path: Path) -> None:
    """Times are relative to the first submission, memory is that of each core."""
    (job,), (run,), _ = imported(tmp_path, record())
    assert job == {
        "job_id": 101,
        "submit_s": 0,
        "cores": 8,
        "run_s": 3600,
        "requested_s": 7200,
        "user": "ada",
        "group": "phys",
        "account": "physics",
        "qos": "normal",
        "partition": "cpu",
        "name": "solve",
        "requeue": True,
        "memory_mb": 2000,
    }
    assert run == {
        "job_id": "101",
        "submit_s": "0",
        "start_s": "300",
        "end_s": "3900",
        "nodes": "c01",
        "state": "COMPLETED",
    }


def test_steps_and_waiting_jobs_are_dropped_with_counts(tmp_path: Path) -> None:
    """The tasks of an array that waited together count one by one."""
    jobs, _, report = imported(
        tmp_path,
        record(),
        {"JobID": "101.batch", "JobIDRaw": "101.batch"},
        {"JobID": "101.0", "JobIDRaw": "101.0"},
        record(JobID="102", **{**PENDING, "State": "CANCELLED by 1000"}),
        record(JobID="103_[3-7,9%2]", JobIDRaw="103", **PENDING),
    )
    assert [job["job_id"] for job in jobs] == [101]
    assert report.count("dropped", "steps of jobs") == 2
    assert report.count("dropped", "jobs cancelled while pending") == 1
    assert report.count("dropped", "jobs that still waited") == 6


def test_the_records_of_a_requeued_job_are_one_job(tmp_path: Path) -> None:
    """Its run time is that of the last run; every run is recorded."""
    jobs, runs, _ = imported(
        tmp_path,
        record(State="NODE_FAIL", ElapsedRaw="600", End="2026-03-02T08:15:00"),
        record(
            Submit="2026-03-02T08:15:00",
            Eligible="2026-03-02T08:17:01",
            Start="2026-03-02T08:20:00",
            End="2026-03-02T09:20:00",
            NodeList="c02",
        ),
    )
    assert [(job["submit_s"], job["run_s"], job["requeue"]) for job in jobs] == [(0, 3600, True)]
    assert "begin_s" not in jobs[0]
    assert [(run["start_s"], run["end_s"], run["nodes"]) for run in runs] == [
        ("300", "900", "c01"),
        ("1200", "4800", "c02"),
    ]


def test_a_number_that_is_used_again_is_another_job(tmp_path: Path) -> None:
    """The second job gets a new number; equal records are one."""
    later = {name: f"2027-03-02T0{8 + hour}:00:00" for hour, name in enumerate(("Submit", "Start"))}
    jobs, _, report = imported(
        tmp_path, record(), record(), record(**later, End="2027-03-02T10:00:00")
    )
    assert [job["job_id"] for job in jobs] == [101, 102]
    assert report.count("dropped", "repeated records") == 1
    assert report.count("guessed", "job numbers that were used again: new numbers") == 1


def test_tasks_of_an_array_keep_index_and_limit(tmp_path: Path) -> None:
    """The limit is in the record of the waiting tasks, or in the command line."""
    jobs, _, _ = imported(
        tmp_path,
        record(JobID="200_1", JobIDRaw="201", Eligible="2026-03-02T08:04:00"),
        record(JobID="200_[2-9%3]", JobIDRaw="200", **PENDING),
        record(JobID="300_0", JobIDRaw="301", SubmitLine="sbatch -a 0-4%2 x.sh"),
    )
    arrays = [(job["array_id"], job.get("array_index", 0), job["array_limit"]) for job in jobs]
    assert arrays == [(200, 1, 3), (300, 0, 2)]
    assert all("begin_s" not in job for job in jobs)


def test_heterogeneous_jobs_are_a_job_for_each_component(tmp_path: Path) -> None:
    """Their numbers differ in the column JobIDRaw."""
    jobs, _, report = imported(
        tmp_path, record(JobID="400+0", JobIDRaw="400"), record(JobID="400+1", JobIDRaw="401")
    )
    assert [job["job_id"] for job in jobs] == [400, 401]
    assert report.count("guessed", "components of heterogeneous jobs: a job each") == 2


def test_an_unknown_wait_becomes_a_begin_time(tmp_path: Path) -> None:
    """A dependency of the command line is one if its job is in the file."""
    jobs, _, report = imported(
        tmp_path,
        record(),
        record(JobID="102", Eligible="2026-03-02T08:04:00"),
        record(JobID="103", Eligible="2026-03-02T08:04:00", SubmitLine="sbatch -d afterok:101 x"),
        record(JobID="104", Eligible="2026-03-02T08:04:00", SubmitLine="sbatch -d afterok:9 x"),
    )
    waits = [(job.get("begin_s"), job.get("dependency")) for job in jobs]
    assert waits == [(None, None), (240, None), (None, "afterok:101"), (240, None)]
    assert report.count("dropped", "dependencies on other jobs than those of the file") == 1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ReqMem": "2000Mc", "ReqTRES": "cpu=8,node=1"}, {"memory_mb": 2000}),
        ({"ReqMem": "4Gn", "ReqTRES": "cpu=8,node=1"}, {"memory_per_node_mb": 4096}),
        ({"SubmitLine": "sbatch --mem=32G x.sh"}, {"memory_per_node_mb": 32768}),
        ({"SubmitLine": "sbatch --mem=0 x.sh"}, {"all_memory": True}),
        ({"AllocTRES": "cpu=8,mem=8000M,node=1"}, {"all_memory": True}),
        (
            {"ReqTRES": "cpu=8,mem=8G,node=1,gres/gpu=2,license/matlab=1"},
            {"gres_per_node": {"gpu": 2}, "licenses": {"matlab": 1}},
        ),
        (
            {"ReqTRES": "cpu=8,mem=8G,node=2,gres/gpu:a100=4", "NNodes": "2"},
            {"gres_per_job": {"gpu:a100": 4}, "nodes_min": 2},
        ),
        (
            {
                "ReqTRES": "cpu=8,mem=8G,node=2,gres/gpu=4",
                "NNodes": "2",
                "SubmitLine": "sbatch --gres=gpu:2 -N 2 -c 4 x.sh",
            },
            {"gres_per_node": {"gpu": 2}, "nodes_max": 2, "cores_per_task": 4},
        ),
        ({"Constraints": "[rack1|rack2]"}, {"features": "[rack1|rack2]"}),
        (
            {"SubmitLine": "sbatch --exclusive -w c[01-02] -x c04 x.sh"},
            {"placement": "whole_nodes", "required_nodes": "c[01-02]", "excluded_nodes": "c04"},
        ),
        ({"TimelimitRaw": "UNLIMITED"}, {"requested_s": 365 * 86400}),
        ({"TimelimitRaw": "Partition_Limit"}, {"requested_s": 3600}),
        ({"ElapsedRaw": "0", "End": "2026-03-02T08:05:00"}, {"run_s": 0.5}),
        ({"ElapsedRaw": "", "Suspended": "00:10:00"}, {"run_s": 3000}),
        ({"State": "FAILED"}, {"fails": True}),
        ({"State": "CANCELLED by 0"}, {"fails": True}),
    ],
)
def test_fields_become_requirements(
    tmp_path: Path, changes: dict[str, str], expected: dict[str, Any]
) -> None:
    """Units, command lines and states; every file can be read by the reader of workloads."""
    (job,), _, _ = imported(tmp_path, record(**changes))
    assert {key: job.get(key) for key in expected} == expected


def test_values_that_cannot_be_expressed_are_dropped(tmp_path: Path) -> None:
    """The job stays, and the report counts the value."""
    (job,), _, report = imported(tmp_path, record(Constraints="a|b]"))
    assert "features" not in job
    assert report.count("dropped", "values of features that hpcosim cannot express") == 1


def test_local_times_over_the_end_of_summer_time(tmp_path: Path) -> None:
    """A job from 2:45 to 2:15 of the repeated hour ran for its 1,800 s."""
    (job,), (run,), report = imported(
        tmp_path,
        record(
            Submit="2026-10-25T02:30:00",
            Eligible="2026-10-25T02:30:00",
            Start="2026-10-25T02:45:00",
            End="2026-10-25T02:15:00",
            ElapsedRaw="1800",
        ),
        time_zone="Europe/Berlin",
    )
    assert (job["submit_s"], run["start_s"], run["end_s"]) == (0, "900", "2700")
    assert report.facts["second 0 of the simulation"] == "2026-10-25T00:30:00+00:00"
    assert report.count("guessed", "local times of the hour that is repeated") == 1


def test_names_are_replaced_on_request(tmp_path: Path) -> None:
    """The file of names gives a second import the same ones; numbers start at 1."""
    names = tmp_path / "private.json"
    options = {"anonymize": True, "names": names, "force": True}
    jobs, runs, _ = imported(
        tmp_path,
        record(User="eve"),
        record(JobID="999", SubmitLine="sbatch -d after:101 x"),
        **options,
    )
    assert [job["job_id"] for job in jobs] == [1, 2]
    assert [run["job_id"] for run in runs] == ["1", "2"]
    assert jobs[1]["dependency"] == "after:1"
    assert [job["user"] for job in jobs] == ["user1", "user2"]
    text = (tmp_path / "jobs.jsonl").read_text()
    assert not any(word in text for word in ("eve", "ada", "physics", "solve", "phys", "999"))
    jobs, _, _ = imported(tmp_path, record(), **options)
    assert jobs[0]["user"] == "user2"


def test_start_leaves_earlier_jobs_out(tmp_path: Path) -> None:
    """The given time is second 0."""
    jobs, _, report = imported(
        tmp_path,
        record(),
        record(JobID="102", Submit="2026-03-02T08:03:00", Eligible="2026-03-02T08:03:00"),
        start="2026-03-02T08:02:00",
    )
    assert [(job["job_id"], job["submit_s"]) for job in jobs] == [(102, 60)]
    assert report.count("dropped", "jobs submitted before --start") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "sacct.psv: the file is empty; make the file with `sacct"),
        ("JobID JobName\n", "sacct.psv:1: expected the names of columns separated by '|'"),
        (
            "JobID|State\n1|COMPLETED\n",
            "the columns Submit, Start, End/ElapsedRaw/Elapsed, ReqTRES",
        ),
        ("JobID|JobID\n", "the column 'JobID' is there twice"),
        (sacct_text(), "no job that started was found; the file has no records"),
        (sacct_text(record(**PENDING)), "dropped: 1 jobs that still waited (line 2)"),
        (
            sacct_text(record(Submit="yesterday")),
            "1 records with an invalid field (Submit) (line 2)",
        ),
    ],
)
def test_a_file_without_jobs_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    """The message has file and line and says what was expected; nothing is written."""
    path = tmp_path / "sacct.psv"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        import_sacct(path, tmp_path / "jobs.jsonl")
    assert message in str(error.value)
    assert [each.name for each in tmp_path.iterdir()] == ["sacct.psv"]


def test_jobs_cannot_have_the_name_of_the_recorded_runs(tmp_path: Path) -> None:
    """One file would replace the other."""
    path = tmp_path / "sacct.psv"
    path.write_text(sacct_text(record()))
    with pytest.raises(InputError, match="the recorded runs get this name"):
        import_sacct(path, tmp_path / "a.recorded.csv")
    with pytest.raises(InputError, match="the recorded runs get this name"):
        import_sacct(path, tmp_path / "jobs.recorded.csv")


def test_existing_files_are_replaced_only_on_request(tmp_path: Path) -> None:
    """The file stays as it was."""
    out = tmp_path / "jobs.recorded.csv"
    out.write_text("mine")
    with pytest.raises(InputError, match=r"jobs.recorded.csv: the file exists; .* --force"):
        imported(tmp_path, record())
    assert out.read_text() == "mine"
    assert not (tmp_path / "jobs.jsonl").exists()
    imported(tmp_path, record(), force=True)


@pytest.mark.parametrize("zipped", [False, True])
def test_a_file_that_is_cut_off_is_imported_with_a_report(tmp_path: Path, zipped: bool) -> None:
    """Whether it is compressed or not."""
    numbers = range(1, 2001)
    text = sacct_text(*(record(JobID=str(number), JobName=str(number**7)) for number in numbers))
    content = gzip.compress(text.encode()) if zipped else text.encode()
    path = tmp_path / "sacct.psv"
    path.write_bytes(content[: len(content) // 2])
    jobs, _, report = read(path, tmp_path)
    assert 500 < len(jobs) < 2000
    found = {
        "dropped": "the rest of a compressed file that is cut off",
        "guessed": "the last line has no line end: the file may be cut off",
    }
    assert report.count("dropped", found["dropped"]) == zipped
    assert report.count("guessed", found["guessed"]) == (not zipped)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_a_file_in_utf_16_is_named(tmp_path: Path, encoding: str) -> None:
    """With a byte order mark, and without one."""
    path = tmp_path / "sacct.psv"
    path.write_bytes(sacct_text(record()).encode(encoding))
    with pytest.raises(InputError, match=r"sacct.psv:1: expected a file in UTF-8, got one in UTF"):
        read(path, tmp_path)


@pytest.mark.parametrize("columns", [COLUMNS, ["JobIDRaw", "Start", "User"]])
def test_a_file_without_its_header_is_named(tmp_path: Path, columns: list[str]) -> None:
    """Whether two fields of its first record are equal or not."""
    path = tmp_path / "sacct.psv"
    path.write_text(sacct_text(record(), record(User="bob"), columns=columns).partition("\n")[2])
    with pytest.raises(InputError, match="the first line must be the names of the columns"):
        read(path, tmp_path)


@pytest.mark.slow
def test_truncated_and_damaged_files_give_a_report_or_a_message(tmp_path: Path) -> None:
    """Whatever is cut off or flipped: valid jobs are written, or the error is an InputError."""
    whole = sacct_text(
        record(),
        record(JobID="200_1", JobIDRaw="201", SubmitLine="sbatch -a 1-3%2 -d afterok:101 x.sh"),
        record(JobID="300+1", JobIDRaw="301", ReqTRES="cpu=2,mem=1G,node=2,gres/gpu=2"),
        record(JobID="102", **PENDING),
    ).encode()
    path, out = tmp_path / "sacct.psv", tmp_path / "jobs.jsonl"
    damaged = [whole[:end] for end in range(0, len(whole), 17)]
    for at in range(0, len(whole), 29):
        damaged += [whole[:at] + new + whole[at + 1 :] for new in (b"|", b"\xff", b"9", b"\n")]
    for content in damaged:
        path.write_bytes(content)
        out.unlink(missing_ok=True)
        with suppress(InputError):
            import_sacct(path, out, RecordOptions(force=True))
        assert not out.exists() or len(read_jsonl(out, nodes_of=lambda text: ()))


@needs_golden
def test_the_recorded_run_of_slurm(tmp_path: Path) -> None:
    """All 500 jobs, with waits of 1,208.6 s on average as its README states."""
    jobs, runs, report = read(GOLDEN / "run1" / "sacct.psv", tmp_path)
    assert len(jobs) == len(runs) == 500
    assert not report.count("dropped")
    wait_s = sum(float(run["start_s"]) - float(run["submit_s"]) for run in runs) / 500
    assert wait_s == pytest.approx(1208.6, abs=1.0)
    assert sum(job.get("fails", False) for job in jobs) == 63


@needs_golden
@pytest.mark.slow
@pytest.mark.parametrize("name", ["run1", "scenes/node_fail", "scenes/shapes"])
def test_a_recorded_run_of_slurm_is_replayed(tmp_path: Path, name: str) -> None:
    """Each job starts within half a second of its recorded start, on its recorded nodes.

    Jobs of less than a second are simulated with half a second, which delays others.
    """
    import_slurm(GOLDEN / "etc" / "slurm.conf", tmp_path / "cluster.yaml")
    _, runs, _ = read(GOLDEN / name / "sacct.psv", tmp_path)
    last = {int(run["job_id"]): run for run in runs}
    path = tmp_path / "cluster.yaml"
    loaded = Library([path]).default
    with opened_with(chosen_by(loaded.scenario, path, "recorded"), loaded) as (opened, policy):
        run_in_process(opened, policy)
    recording = opened.simulation.recording
    names = NodeNames(loaded.scenario.platform)
    for row, job_id in enumerate(recording.job_id):
        assert recording.start_s[row] == pytest.approx(float(last[job_id]["start_s"]), abs=0.5)
        assert set(recording.nodes_of(row)) == set(names.numbers(last[job_id]["nodes"]))


@needs_golden
@pytest.mark.parametrize(
    ("scene", "jobs", "runs"),
    [
        *[("arrays", 37, 37), ("begin_hold", 20, 20), ("deps", 28, 28), ("limits", 23, 23)],
        *[("node_fail", 19, 23), ("preempt_qos", 29, 35), ("resv", 21, 21), ("shapes", 40, 40)],
    ],
)
def test_scenes_of_slurm(tmp_path: Path, scene: str, jobs: int, runs: int) -> None:
    """Requeues are further runs; features with the delimiter of sacct are whole."""
    found, recorded, report = read(GOLDEN / "scenes" / scene / "sacct.psv", tmp_path)
    assert (len(found), len(recorded)) == (jobs, runs)
    assert not any("invalid" in what for what in report.entries.get("dropped", {}))


def test_columns_may_be_in_any_order(tmp_path: Path) -> None:
    """A final delimiter, as of `sacct -p`, is accepted."""
    path = tmp_path / "sacct.psv"
    path.write_text(sacct_text(record(), columns=[*reversed(COLUMNS), ""]))
    jobs, _, _ = read(path, tmp_path)
    assert jobs[0]["cores"] == 8
