"""Accounting of PBS, LSF, Grid Engine and OAR as jobs, recorded runs and a scenario."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from hpcosim_scenarios.model.file import load_scenario
from hpcosim_slurm.files.accounting import READERS, AccountingOptions, import_accounting
from hpcosim_slurm.files.observed_platform import KnownNodes
from hpcosim_slurm.files.output import InputError
from hpcosim_slurm.files.record_jobs import RecordOptions
from hpcosim_slurm.files.report import ImportReport
from support.accounting_files import (
    FIRST_S,
    SiteJob,
    lines_by_manager,
    lsf_line,
    oar_mysql,
    oar_postgres,
    oar_tables,
    pbs_lines,
    sge_lines,
    site_jobs,
)
from support.commands import invoke

JOB = SiteJob(101, FIRST_S, FIRST_S + 300, FIRST_S + 3900)
STATES = {"done": "COMPLETED", "failed": "FAILED", "killed": "CANCELLED", "limit": "TIMEOUT"}


class Imported(NamedTuple):
    """What an import wrote."""

    jobs: list[dict[str, Any]]
    runs: list[dict[str, str]]
    platform: dict[str, Any]
    report: ImportReport


def imported(
    tmp_path: Path,
    manager: str,
    lines: Sequence[str],
    known: KnownNodes = KnownNodes(),  # noqa: B008
    **options: Any,
) -> Imported:
    """Return what is made of lines; the last one has an end."""
    path = tmp_path / "accounting"
    path.write_text("".join(f"{line}\n" for line in lines))
    return read(tmp_path, manager, [path], known, **options)


def read(
    tmp_path: Path,
    manager: str,
    paths: Sequence[Path],
    known: KnownNodes = KnownNodes(),  # noqa: B008
    **options: Any,
) -> Imported:
    """Return what is made of files."""
    out = tmp_path / "site"
    records = RecordOptions(force=True, **options)
    report = import_accounting(manager, paths, out, AccountingOptions(records=records, known=known))
    jobs = [json.loads(line) for line in (out / "jobs.jsonl").read_text().splitlines()]
    with (out / "jobs.recorded.csv").open(newline="") as file:
        runs = list(csv.DictReader(file))
    scenario = out / "cluster.yaml"
    platform = yaml.safe_load(scenario.read_text())["platform"] if scenario.exists() else {}
    return Imported(jobs, runs, platform, report)


# The whole of each format, beside a slow and obvious reading of it.


Times = tuple[float, float, float, float]
"""Submission, wait and run time, s, and cores of a job."""


def pbs_times(lines: Sequence[str]) -> list[Times]:
    """Return the times of the jobs of a log of PBS."""

    def value(line: str, key: str) -> float:
        return float(line.split(f" {key}=")[1].split(" ")[0])

    found = []
    for line in lines:
        if line.split(";")[1] == "E":
            submit, start, end = (value(line, key) for key in ("ctime", "start", "end"))
            cores = value(line, "Resource_List.ncpus")
            found.append((submit, start - submit, end - start, cores))
    return found


def lsf_times(lines: Sequence[str]) -> list[Times]:
    """Return the times of the jobs of `lsb.acct`: these fields come before all texts."""
    found = []
    for line in lines:
        words = line.split(" ")
        submit, start, end = float(words[7]), float(words[10]), float(words[2])
        found.append((submit, start - submit, end - start, float(words[6])))
    return found


def sge_times(lines: Sequence[str]) -> list[Times]:
    """Return the times of the jobs of Grid Engine's file, without tasks of parallel jobs."""
    found = []
    for line in lines:
        fields = line.split(":")
        if fields[41] == "NONE":
            submit, start, end = (float(fields[place]) for place in (8, 9, 10))
            found.append((submit, start - submit, end - start, float(fields[34])))
    return found


def oar_times(lines: Sequence[str]) -> list[Times]:
    """Return the times of the jobs of a dump of OAR by `pg_dump`."""
    tables: dict[str, list[dict[str, str]]] = {}
    table, columns = "", [""]
    for line in lines:
        if line.startswith("COPY"):
            table = line.split(" ")[1]
            columns = line[line.index("(") + 1 : line.index(")")].split(", ")
        elif line == "\\.":
            table = ""
        elif table:
            row = dict(zip(columns, line.split("\t"), strict=True))
            tables.setdefault(table, []).append(row)
    found = []
    for job in tables["public.jobs"]:
        assigned = [
            each
            for each in tables["public.assigned_resources"]
            if each["moldable_job_id"] == job["assigned_moldable_job"]
        ]
        submit, start, end = (
            float(job[name]) for name in ("submission_time", "start_time", "stop_time")
        )
        found.append((submit, start - submit, end - start, float(len(assigned))))
    return found


REFERENCES = {"pbs": pbs_times, "lsf": lsf_times, "sge": sge_times, "oar": oar_times}


@pytest.mark.parametrize("manager", REFERENCES)
def test_jobs_are_those_of_a_slow_reading(tmp_path: Path, manager: str) -> None:
    """Submissions, waits, run times and cores of all jobs, and with them the core-seconds."""
    lines = lines_by_manager(site_jobs(60))[manager]
    jobs, runs, _, _ = imported(tmp_path, manager, lines)
    start_s = {run["job_id"]: float(run["start_s"]) for run in runs}
    found = sorted(
        (
            job["submit_s"],
            start_s[str(job["job_id"])] - job["submit_s"],
            job["run_s"],
            job["cores"],
        )
        for job in jobs
    )
    expected = REFERENCES[manager](lines)
    origin_s = min(submit_s for submit_s, *_ in expected)
    assert found == sorted((submit_s - origin_s, *rest) for submit_s, *rest in expected)
    assert len(found) == 60


@pytest.mark.parametrize("manager", ["pbs", "lsf", "sge", "oar", "oar mysql"])
def test_every_manager_states_the_same_site(tmp_path: Path, manager: str) -> None:
    """States, nodes, limits and names; hosts become nodes, and queues partitions of them."""
    site = site_jobs(60)
    jobs, runs, platform, report = imported(
        tmp_path, manager.split()[0], lines_by_manager(site)[manager]
    )
    recorded = {int(run["job_id"]): run for run in runs}
    for job, written in zip(site, jobs, strict=True):
        run = recorded[job.number]
        assert run["state"] == STATES[job.end]
        assert run["nodes"].split(",") == list(job.nodes)
        assert written["requested_s"] == job.limit_s
        assert written.get("fails", False) == (job.end != "done")
        assert (written["user"], written["account"]) == (job.user, "physics")
        assert (written["partition"], written["name"]) == (job.queue, "solve")
    (group,) = platform["nodes"]
    assert (group["names"], group["processors"][0]["cores"]) == ("n[1-6]", 16)
    assert platform["partitions"] == [
        {"name": "long", "nodes": "n[1-4]"},
        {"name": "short", "nodes": "n[5-6]"},
    ]
    killed = sum(job.end == "killed" for job in site)
    assert f"{killed} CANCELLED" in report.facts["jobs by state"]


def test_both_dumps_of_oar_give_the_same_files(tmp_path: Path) -> None:
    """A statement of `mysqldump` has many rows in a line."""
    site = site_jobs(20)
    written = []
    for lines in (oar_postgres(site), oar_mysql(site), oar_mysql(site, rows_a_line=1)):
        imported(tmp_path, "oar", lines)
        written.append((tmp_path / "site" / "jobs.jsonl").read_bytes())
    assert written[0] == written[1] == written[2]


@pytest.mark.slow
@pytest.mark.parametrize("manager", READERS)
def test_the_recorded_run_repeats_the_waits(tmp_path: Path, manager: str) -> None:
    """On the scenario that the import wrote, which is valid."""
    site = site_jobs(30)
    imported(tmp_path, manager, lines_by_manager(site)[manager])
    scenario = tmp_path / "site" / "cluster.yaml"
    result = invoke("compare", str(scenario), "--schedulers", "recorded,easy", "--json")
    assert result.status == 0, result.err
    waits = [job.start_s - job.submit_s for job in site]
    found = json.loads(result.out)["recorded"]["mean_wait_s"]
    assert found == pytest.approx(sum(waits) / len(waits))


def test_nodes_of_the_scenario(tmp_path: Path) -> None:
    """Without hosts in the accounting, nodes and cores must be stated."""
    lines = [re.sub(r"exec_\w+=\S+ ", "", line) for line in pbs_lines(JOB)]
    without = imported(tmp_path, "pbs", lines)
    assert without.platform == {}
    assert "add --nodes and --cores-per-node" in without.report.facts["scenario"]
    stated = imported(tmp_path, "pbs", lines, KnownNodes(nodes=4, cores=16))
    assert stated.platform["nodes"][0]["count"] == 4
    assert stated.platform["partitions"] == [{"name": "long", "nodes": "ALL"}]
    what = "queues whose nodes are not recorded: all nodes"
    assert stated.report.count("guessed", what) == 1


def test_stated_nodes_are_at_least_the_recorded_ones(tmp_path: Path) -> None:
    """More nodes are added to those on which jobs ran; cores are at least the stated ones."""
    lines = pbs_lines(replace(JOB, nodes=("n1", "n2"), cores=4))
    platform = imported(tmp_path, "pbs", lines, KnownNodes(nodes=5, cores=8)).platform
    assert [(group.get("names"), group["count"]) for group in platform["nodes"]] == [
        ("n[1-2]", 2),
        (None, 3),
    ]
    assert {group["processors"][0]["cores"] for group in platform["nodes"]} == {8}
    load_scenario(tmp_path / "site" / "cluster.yaml")
    with pytest.raises(InputError, match="--nodes: jobs ran on 2 hosts"):
        imported(tmp_path, "pbs", lines, KnownNodes(nodes=1))


def test_a_host_whose_name_is_a_number_of_yaml(tmp_path: Path) -> None:
    """It is quoted in the scenario, which is valid."""
    imported(tmp_path, "pbs", pbs_lines(replace(JOB, nodes=("1e9",))))
    load_scenario(tmp_path / "site" / "cluster.yaml")


def test_names_and_earlier_jobs_can_be_left_out(tmp_path: Path) -> None:
    """As with sacct."""
    lines = [*pbs_lines(JOB), *pbs_lines(replace(JOB, number=102, submit_s=FIRST_S + 100))]
    jobs, _, _, report = imported(
        tmp_path, "pbs", lines, start="2026-03-02T08:01:00", anonymize=True
    )
    assert [(job["job_id"], job["submit_s"], job["user"]) for job in jobs] == [(1, 40, "user1")]
    assert report.count("dropped", "jobs submitted before --start") == 1


# PBS


def test_pbs_jobs_of_several_files(tmp_path: Path) -> None:
    """A job may begin in one file and end in the next; the report names the files."""
    first, second = tmp_path / "20260302", tmp_path / "20260303"
    lines = pbs_lines(JOB)
    first.write_text("\n".join([*lines[:2], *pbs_lines(replace(JOB, number=102))[:2], ""]))
    second.write_text(f"{lines[2]}\nnonsense\n")
    found = read(tmp_path, "pbs", [first, second])
    assert [job["job_id"] for job in found.jobs] == [101]
    dropped = found.report.as_dict()["dropped"]
    assert isinstance(dropped, dict)
    assert dropped["jobs without an end in the files"] == {"count": 1, "first": ["20260302:3"]}
    assert ["20260303:2"] in [entry["first"] for entry in dropped.values()]


def test_pbs_reruns_are_runs_of_one_job(tmp_path: Path) -> None:
    """An R record states a run that was requeued."""
    queued, started, ended = pbs_lines(JOB)
    again = pbs_lines(replace(JOB, start_s=FIRST_S + 5000, end_s=FIRST_S + 6000))
    rerun = ended.replace(";E;", ";R;")
    jobs, runs, _, _ = imported(tmp_path, "pbs", [queued, started, rerun, *again[1:]])
    assert [(job["run_s"], job["requeue"]) for job in jobs] == [(1000, True)]
    assert [(run["start_s"], run["state"]) for run in runs] == [
        ("300", "REQUEUED"),
        ("5000", "COMPLETED"),
    ]


def test_pbs_subjobs_are_the_tasks_of_an_array(tmp_path: Path) -> None:
    """The first has the number of the array; the record of the whole array is dropped."""
    tasks = [replace(JOB, number=7, task=task, nodes=(f"n{task}",)) for task in (1, 2)]
    lines = [line for task in tasks for line in pbs_lines(task)]
    whole = pbs_lines(JOB)[-1].replace(";101.head;", ";7[].head;") + " max_run_subjobs=5"
    jobs, _, _, report = imported(tmp_path, "pbs", [*lines, whole])
    assert [
        (job["job_id"], job["array_id"], job["array_index"], job["array_limit"]) for job in jobs
    ] == [(7, 7, 1, 5), (8, 7, 2, 5)]
    what = "records of whole arrays: their subjobs are the jobs"
    assert report.count("dropped", what) == 1


def test_numbers_of_arrays_that_are_used_again(tmp_path: Path) -> None:
    """Tasks of the earlier array become jobs of their own."""
    early = replace(JOB, number=7, task=1)
    late = replace(early, submit_s=JOB.end_s, start_s=JOB.end_s + 9, end_s=JOB.end_s + 99)
    jobs, _, _, report = imported(tmp_path, "pbs", [*pbs_lines(early), *pbs_lines(late)])
    assert [(job["job_id"], job.get("array_id")) for job in jobs] == [(7, None), (8, 7)]
    what = "tasks of arrays whose number was used again: jobs of their own"
    assert report.count("guessed", what) == 1


def test_pbs_jobs_that_never_ran_are_counted(tmp_path: Path) -> None:
    """Deleted while they waited, still waiting, or running at the end of the files."""
    lines = pbs_lines(JOB)
    deleted = replace(JOB, number=102)
    lines += [pbs_lines(deleted)[0], "03/02/2026 08:01:00;D;102.head;requestor=ada@head"]
    lines += [pbs_lines(replace(JOB, number=103))[0]]
    lines += pbs_lines(replace(JOB, number=104))[:2]
    lines += ["03/02/2026 08:00:00;L;license;floating license hour:3 day:3 month:3 max:10"]
    lines += ["03/02/2026 08:00:00;C;101.head;Resource_List.ncpus=3"]
    report = imported(tmp_path, "pbs", lines).report
    assert {what: entry.count for what, entry in report.entries["dropped"].items()} == {
        "jobs cancelled while pending": 1,
        "jobs that still waited": 1,
        "jobs without an end in the files": 1,
        "records of reservations, licences and provisioning": 1,
    }


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (r"place=\S+", "place=pack:excl", {"nodes_max": 1, "placement": "whole_nodes"}),
        (r"List.mem=\S+", "List.mem=4194304kb", {"memory_mb": 256}),
        (r"List.mem=\S+", "List.mem=4096mb", {"memory_mb": 256}),
        (r"List.mem=\S+", "List.mem=512mw", {"memory_mb": 256}),
        (r"List.mem=\S+ ", "", {"memory_mb": None}),
        (r"List.walltime=\S+", "List.walltime=90:00", {"requested_s": 5400}),
        (r"List.walltime=\S+", "List.other=1", {"requested_s": 3600}),
        (r"select=\S+", "select=4:ncpus=4", {"cores_per_task": 4, "cores": 16}),
        (r"select=\S+", "select=1:ncpus=12+1:ncpus=4", {"cores_per_task": None, "cores": 16}),
        (
            r"Resource_List.ncpus=\S+ (.*)Resource_List.select=\S+",
            r"\1Resource_List.nodes=2:ppn=8",
            {"cores": 16, "cores_per_task": 8},
        ),
        (r"etime=\S+", f"etime={FIRST_S + 60}", {"begin_s": 60}),
        (r'account="physics" ', "", {"account": None}),
        (r'account="physics" project=\S+', "project=lab", {"account": "lab"}),
        (r"jobname=\S+", 'jobname="two words"', {"name": "two words"}),
        (r"Resource_List.nodect=1", "Resource_List.ngpus=2", {"gres_per_node": {"gpu": 2}}),
    ],
)
def test_pbs_fields(tmp_path: Path, pattern: str, text: str, expected: dict[str, Any]) -> None:
    """Units, chunks, the nodes of Torque, and fields that are absent."""
    lines = [re.sub(pattern, text, line) for line in pbs_lines(JOB)]
    (job,) = imported(tmp_path, "pbs", lines).jobs
    assert {key: job.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ("n1/0*8+n2/0*8", [("n[1-2]", 8)]),
        ("n1/0-7+n2/0-3,8-11", [("n[1-2]", 8)]),
        ("+".join(f"n{node}/{core}" for node in (1, 2) for core in range(8)), [("n[1-2]", 8)]),
        ("n1/0*12+n2/0*4", [("n1", 12), ("n2", 4)]),
    ],
)
def test_pbs_cores_of_hosts(tmp_path: Path, hosts: str, expected: list[tuple[str, int]]) -> None:
    """As PBS Pro and Torque write them."""
    change = (r"exec_host=\S+ exec_vnode=\S+", f"exec_host={hosts}")
    lines = [re.sub(*change, line) for line in pbs_lines(JOB)]
    platform = imported(tmp_path, "pbs", lines).platform
    groups = [(each["names"], each["processors"][0]["cores"]) for each in platform["nodes"]]
    assert groups == expected


def test_pbs_gpus_of_hosts(tmp_path: Path) -> None:
    """They are in the list of virtual nodes; the most that were used at once are there."""
    lines = [
        line.replace("exec_vnode=(n1:", "exec_vnode=(n1:ngpus=2:").replace(
            "Resource_List.nodect=1", "Resource_List.ngpus=2"
        )
        for number in (101, 102)
        for line in pbs_lines(replace(JOB, number=number, cores=8))
    ]
    (group,) = imported(tmp_path, "pbs", lines).platform["nodes"]
    assert (group["processors"][0]["cores"], group["gres"]) == (16, {"gpu": 4})


def test_pbs_suspension_is_no_run_time(tmp_path: Path) -> None:
    """The used wall time does not contain it."""
    queued, started, ended = pbs_lines(JOB)
    ended = ended.replace("resources_used.walltime=01:00:00", "resources_used.walltime=00:50:00")
    suspended = "03/02/2026 08:20:00;z;101.head;resources_used.walltime=00:15:00"
    found = imported(tmp_path, "pbs", [queued, started, suspended, ended])
    assert (found.jobs[0]["run_s"], found.runs[0]["end_s"]) == (3000, "3900")
    what = "run times of suspended jobs: without the suspension"
    assert found.report.count("guessed", what) == 1
    assert imported(tmp_path, "pbs", [queued, started, ended]).jobs[0]["run_s"] == 3600


def test_pbs_dependencies(tmp_path: Path) -> None:
    """They are in the record of the submission; other kinds are listed."""
    other = replace(JOB, number=102)
    queued, *rest = pbs_lines(other)
    depend = f"{queued} depend=afterok:101.head@head,before:103.head"
    found = imported(tmp_path, "pbs", [*pbs_lines(JOB), depend, *rest])
    assert found.jobs[1]["dependency"] == "afterok:101"
    assert found.report.count("not modelled", "dependencies: before") == 1


def test_what_pbs_requests_in_vain_is_listed(tmp_path: Path) -> None:
    """With counts."""
    lines = [line.replace("List.nodect=1", "List.scratch=5gb") for line in pbs_lines(JOB)]
    report = imported(tmp_path, "pbs", lines).report
    assert report.count("not modelled", "requests of Resource_List.scratch") == 1


# LSF


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (r'0 1 "16\*n1" 64', "0 16 " + '"n1" ' * 16 + "64", {"cores": 16}),
        (r'0 1 "16\*n1" 64', '2 "n1" "n2" 1 "16*n1" 64', {"partition": "long"}),
        (r' 1 "n1" 1000 0 60 1 0 7200', ' 1 "n1" 1000 0 60 1 7200', {"requested_s": 7200}),
        (r' 1 "n1" 1000 0 60 1 0 7200', " 0 7200", {"requested_s": 7200}),
        (r' 1 "n1" 1000 0 60 1 0 7200', " 0 -1", {"requested_s": 3600}),
        (r' 2 1032 "0" 1033.*', "", {"requested_s": 3600, "tasks_per_node": 16}),
        (r"span\[ptile=16\]", "span[hosts=1]", {"nodes_max": 1}),
        (
            r"span\[ptile=16\] ",
            "rusage[ngpus_physical=2.00:mem=400.00]",
            {"gres_per_node": {"gpu": 2}},
        ),
        (r'"physics" 0 16', '"default" 0 16', {"account": None}),
        (rf"{FIRST_S} 0 0", f"{FIRST_S} {FIRST_S + 60} 0", {"begin_s": 60}),
        (r"hello world", "a; b 1 2 3", {"name": "solve"}),
        (r' 3600 "/home', ' 3000 "/home', {"run_s": 3000}),
    ],
)
def test_lsf_fields(tmp_path: Path, pattern: str, text: str, expected: dict[str, Any]) -> None:
    """Lists of hosts in both forms, of versions with more and fewer fields, and units."""
    line = lsf_line(JOB)
    changed = re.sub(pattern, text.replace("\\", r"\\"), line)
    assert changed != line
    (job,) = imported(tmp_path, "lsf", [changed]).jobs
    assert {key: job.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("reason", "state"),
    [(5, "TIMEOUT"), (14, "CANCELLED"), (16, "OUT_OF_MEMORY"), (19, "NODE_FAIL"), (0, "FAILED")],
)
def test_lsf_exit_reasons(tmp_path: Path, reason: int, state: str) -> None:
    """A job that exited has a reason."""
    line = lsf_line(replace(JOB, end="killed")).replace(' "" 0 "" 14 ""', f' "" 0 "" {reason} ""')
    (run,) = imported(tmp_path, "lsf", [line]).runs
    assert run["state"] == state


def test_lsf_requeues_arrays_and_dependencies(tmp_path: Path) -> None:
    """A requeued run has a record of its own; tasks have the number of the array."""
    first = lsf_line(replace(JOB, end="killed")).replace(' "" 0 "" 14 ""', ' "" 0 "" 10 ""')
    again = lsf_line(replace(JOB, start_s=FIRST_S + 5000, end_s=FIRST_S + 6000))
    tasks = [lsf_line(replace(JOB, number=7, task=task)) for task in (1, 2)]
    waits = lsf_line(replace(JOB, number=8)).replace(
        '"span[ptile=16]" ""', '"" "done(101) && ended(7[2])"', 1
    )
    named = lsf_line(replace(JOB, number=9)).replace('"span[ptile=16]" ""', '"" "done(solve)"', 1)
    jobs, runs, _, report = imported(tmp_path, "lsf", [first, again, *tasks, waits, named])
    assert [job["run_s"] for job in jobs if job["job_id"] == 101] == [1000]
    assert [run["state"] for run in runs if run["job_id"] == "101"] == ["REQUEUED", "COMPLETED"]
    arrays = [(job["array_index"], job["array_limit"]) for job in jobs if "array_id" in job]
    assert arrays == [(1, 3), (2, 3)]
    second = next(job["job_id"] for job in jobs if job.get("array_index") == 2)
    (dependency,) = [job["dependency"] for job in jobs if "dependency" in job]
    assert dependency == f"afterok:101,afterany:{second}"
    assert report.count("not modelled", "dependencies on names, or of another form") == 1


def test_lsf_jobs_without_a_start_are_counted(tmp_path: Path) -> None:
    """And records of other events."""
    never = lsf_line(replace(JOB, number=102, end="killed")).replace(str(JOB.start_s), "0")
    never = never.replace('0 1 "16*n1" 32', "0 0 32")
    lines = [lsf_line(JOB), never, '"EVENT_ADRSV_FINISH" "10.1" 1 2 3', "# a comment"]
    report = imported(tmp_path, "lsf", lines).report
    assert {what: entry.count for what, entry in report.entries["dropped"].items()} == {
        "records of other events": 1,
        "jobs cancelled while pending": 1,
    }


# Grid Engine


def test_sge_tasks_of_parallel_jobs_name_hosts(tmp_path: Path) -> None:
    """They are no jobs; the cores of each host are not stated."""
    lines = sge_lines(replace(JOB, nodes=("n1", "n2", "n3"), cores=4))
    jobs, runs, platform, report = imported(tmp_path, "sge", lines)
    assert [job["cores"] for job in jobs] == [12]
    assert runs[0]["nodes"] == "n1,n2,n3"
    assert report.count("dropped", "records of tasks of parallel jobs") == 2
    assert platform["nodes"][0]["processors"][0]["cores"] == 4


def test_sge_queue_with_fewer_hosts_than_a_job_needs(tmp_path: Path) -> None:
    """Not all hosts of a parallel job are recorded, so its queue has all nodes."""
    wide = sge_lines(replace(JOB, number=102, nodes=("n1", "n2"), cores=64, queue="mpi"))[1:]
    serial = [
        line
        for node in range(2, 9)
        for line in sge_lines(replace(JOB, number=node, nodes=(f"n{node}",)))
    ]
    found = imported(tmp_path, "sge", [*wide, *serial])
    assert {each["name"]: each["nodes"] for each in found.platform["partitions"]} == {
        "long": "n[2-8]",
        "mpi": "ALL",
    }
    load_scenario(tmp_path / "site" / "cluster.yaml")


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (r"h_rt=7200", "h_rt=1:30:00", {"requested_s": 5400}),
        (r"h_rt=7200", "s_rt=5400", {"requested_s": 5400}),
        (r"-l h_rt=7200,h_vmem=4G", "NONE", {"requested_s": 3600}),
        (r":0:0$", "", {"requested_s": 7200}),
        (r"$", ":job_class:NONE:a/b:c", {"requested_s": 7200}),
        (rf":({FIRST_S}):(\d+):(\d+):", r":\g<1>000:\g<2>000:\g<3>500:", {"run_s": 3600.5}),
        (r":physics:", ":NONE:", {"account": None}),
    ],
)
def test_sge_fields(tmp_path: Path, pattern: str, text: str, expected: dict[str, Any]) -> None:
    """Limits with colons, versions with fewer and more fields, and times in milliseconds."""
    (line,) = sge_lines(JOB)
    changed = re.sub(pattern, text, line, count=1)
    assert changed != line
    (job,) = imported(tmp_path, "sge", [changed]).jobs
    assert {key: job.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("failed", "status", "state"),
    [
        (0, 0, "COMPLETED"),
        (0, 3, "FAILED"),
        (37, 137, "TIMEOUT"),
        (100, 137, "CANCELLED"),
        (100, 139, "FAILED"),
        (19, 0, "NODE_FAIL"),
        (25, 0, "REQUEUED"),
    ],
)
def test_sge_states(tmp_path: Path, failed: int, status: int, state: str) -> None:
    """By the fields failed and exit_status."""
    (line,) = sge_lines(JOB)
    line = line.replace(f":{JOB.end_s}:0:0:", f":{JOB.end_s}:{failed}:{status}:")
    (run,) = imported(tmp_path, "sge", [line]).runs
    assert run["state"] == state


def test_sge_runs_and_tasks(tmp_path: Path) -> None:
    """A job that was rescheduled has several records; tasks of an array share its number."""
    (line,) = sge_lines(JOB)
    moved = line.replace(f":{JOB.end_s}:0:0:", f":{JOB.end_s}:25:99:")
    again = sge_lines(replace(JOB, start_s=FIRST_S + 5000, end_s=FIRST_S + 6000))
    tasks = [line for task in (1, 2) for line in sge_lines(replace(JOB, number=7, task=task))]
    jobs, runs, _, _ = imported(tmp_path, "sge", [moved, *again, *tasks])
    assert len(runs) == 4
    assert [(job["job_id"], job.get("array_index")) for job in jobs] == [
        (7, 1),
        (102, 2),
        (101, None),
    ]


# OAR


def with_rows(name: str, columns: str, *rows: tuple[object, ...], jobs: int = 2) -> list[str]:
    """Return a dump of some jobs with a further table."""
    site = [replace(JOB, number=number, nodes=(f"n{number}",)) for number in range(1, jobs + 1)]
    lines = oar_postgres(site)
    return [
        *lines,
        f"COPY public.{name} ({columns}) FROM stdin;",
        *("\t".join(map(str, row)) for row in rows),
        "\\.",
    ]


def test_oar_suspension_dependencies_and_types(tmp_path: Path) -> None:
    """Tables beside that of the jobs say them."""
    columns = "job_id, job_state, date_start, date_stop"
    lines = with_rows("job_state_logs", columns, (1, "Suspended", FIRST_S + 400, FIRST_S + 1000))
    found = imported(tmp_path, "oar", lines)
    assert [job["run_s"] for job in found.jobs] == [3000, 3600]
    lines = with_rows("job_dependencies", "job_id, job_id_required", (2, 1))
    assert imported(tmp_path, "oar", lines).jobs[1]["dependency"] == "afterany:1"
    lines = with_rows(
        "job_types", "job_type_id, job_id, type", (1, 1, "container"), (2, 2, "deploy")
    )
    found = imported(tmp_path, "oar", lines)
    assert [job["job_id"] for job in found.jobs] == [2]
    assert found.report.count("not modelled", "jobs of type deploy") == 1


def test_oar_requests_are_a_hierarchy(tmp_path: Path) -> None:
    """Nodes, and cores on each of them."""
    groups = [
        "COPY job_resource_groups (res_group_id, res_group_moldable_id) FROM stdin;",
        "5\t1001",
        "\\.",
    ]
    columns = "res_job_group_id, res_job_resource_type, res_job_value, res_job_order"
    rows = ((5, "core", 16, 1), (5, "network_address", 1, 0))
    lines = [*groups, *with_rows("job_resource_descriptions", columns, *rows, jobs=1)]
    (job,) = imported(tmp_path, "oar", lines).jobs
    assert (job["nodes_max"], job["tasks_per_node"]) == (1, 16)


def test_oar_arrays(tmp_path: Path) -> None:
    """Jobs with the same `array_id`; a job alone is in no array."""
    lines = oar_postgres([replace(JOB, number=number) for number in (5, 6, 9)])
    lines = [line.replace("6\t6\t1\t", "6\t5\t2\t") for line in lines]
    jobs = imported(tmp_path, "oar", lines).jobs
    assert [(job["job_id"], job.get("array_id"), job.get("array_index")) for job in jobs] == [
        (5, 5, 1),
        (6, 5, 2),
        (9, None, None),
    ]


def test_oar_rows_as_inserts_of_postgres(tmp_path: Path) -> None:
    """A text may have a line end, a quote is doubled, and a backslash is no escape."""

    def literal(value: object) -> str:
        if isinstance(value, str):
            return "'" + value.replace("'", "''").replace("\t", "\n\\") + "'"
        return "NULL" if value is None else str(value)

    lines = [
        f"INSERT INTO public.{name} ({columns}) VALUES ({', '.join(map(literal, row))});"
        for name, (columns, rows) in oar_tables([JOB]).items()
        for row in rows
    ]
    (job,) = imported(tmp_path, "oar", lines).jobs
    assert (job["job_id"], job["run_s"], job["cores"]) == (101, 3600, 16)


def test_oar_dump_without_a_table(tmp_path: Path) -> None:
    """The error names the tables that are missing, or the column."""
    lines = oar_postgres([JOB])
    without = [line.replace("public.assigned_resources", "public.others") for line in lines]
    with pytest.raises(InputError, match=r"accounting: the tables assigned_resources are missing"):
        imported(tmp_path, "oar", without)
    without = [line.replace("stop_time", "ended") for line in lines]
    with pytest.raises(
        InputError, match=r"the table jobs has no column stop_time; expected a dump"
    ):
        imported(tmp_path, "oar", without)


@pytest.mark.parametrize("form", [oar_postgres, oar_mysql])
def test_oar_dump_that_is_cut_off(
    tmp_path: Path, form: Callable[[Sequence[SiteJob]], list[str]]
) -> None:
    """Within the assigned resources; what came before is imported."""
    lines = form(site_jobs(30))
    begins = ("COPY public.assigned_resources", "INSERT INTO `assigned_resources`")
    first = next(place for place, line in enumerate(lines) if line.startswith(begins))
    cut = lines[:first] + "\n".join(lines[first:])[:2000].splitlines()
    found = imported(tmp_path, "oar", cut)
    assert 0 < len(found.jobs) < 30
    assert any("assigned_resources" in what for what in found.report.entries["dropped"])


# Bad input of every manager


@pytest.mark.parametrize("manager", READERS)
def test_a_file_in_mid_write(tmp_path: Path, manager: str) -> None:
    """The last record is cut off: it is dropped, and the report says that the file may be."""
    lines = lines_by_manager(site_jobs(5))[manager]
    path = tmp_path / "accounting"
    path.write_text("\n".join(lines)[: -len(lines[-1]) // 2])
    report = read(tmp_path, manager, [path]).report
    assert report.count("guessed", "the last line has no line end: the file may be cut off") == 1


@pytest.mark.parametrize("manager", READERS)
def test_compressed_files(tmp_path: Path, manager: str) -> None:
    """Whole, and cut off."""
    lines = lines_by_manager(site_jobs(40))[manager]
    path = tmp_path / "accounting.gz"
    whole = gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0)
    path.write_bytes(whole)
    assert len(read(tmp_path, manager, [path]).jobs) == 40
    path.write_bytes(whole[: len(whole) * 9 // 10])
    if manager == "oar":  # its tables follow each other
        with pytest.raises(InputError):
            read(tmp_path, manager, [path])
    else:
        report = read(tmp_path, manager, [path]).report
        assert report.count("dropped", "the rest of a compressed file that is cut off") == 1


@pytest.mark.parametrize("manager", READERS)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "accounting: no job that started was found; the files have no records; expected"),
        (b"\xff\xfea\x00\n\x00", "accounting:1: expected a file in UTF-8, got one in UTF-16"),
        (b"\x00\x01\x02" * 99, "accounting:1: expected a file in UTF-8"),
        (b"x" * (2**24 + 1), "accounting:1: expected lines of "),
        (b"nothing\nof use\n", "accounting: "),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, manager: str, content: bytes, message: str) -> None:
    """The error has file, line and what was expected; nothing is written."""
    path = tmp_path / "accounting"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        read(tmp_path, manager, [path])
    if manager == "oar" and b"x" not in content and b"\x00" not in content:
        message = "accounting: the tables jobs, moldable_job_descriptions, assigned_resources are"
    assert f"{tmp_path}/{message}" in str(error.value)
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize("manager", READERS)
def test_names_in_another_encoding(tmp_path: Path, manager: str) -> None:
    """Bytes that are not UTF-8 become a sign for them; the jobs stay."""
    lines = lines_by_manager([replace(JOB, name="m@ller")])[manager]
    path = tmp_path / "accounting"
    path.write_bytes(
        "".join(f"{line}\n" for line in lines).replace("m@ller", "müller").encode("latin-1")
    )
    (job,) = read(tmp_path, manager, [path]).jobs
    assert job["name"] == "m\N{REPLACEMENT CHARACTER}ller"


@pytest.mark.parametrize("manager", READERS)
def test_the_command_prints_the_report_or_one_line(tmp_path: Path, manager: str) -> None:
    """The accounting of another manager is an error with what was expected."""
    forms = lines_by_manager(site_jobs(3))
    for name, lines in forms.items():
        (tmp_path / name).write_text("\n".join([*lines, ""]))
    out = str(tmp_path / "out")
    result = invoke("import", manager, str(tmp_path / manager), "--out", out, "--json")
    assert result.status == 0, result.err
    report = json.loads(result.out)
    assert [text.rpartition("/")[2] for text in report["written"]] == [
        "jobs.jsonl: 3 jobs",
        "jobs.recorded.csv: 3 runs",
        "cluster.yaml: " + report["written"][2].partition("cluster.yaml: ")[2],
    ]
    result = invoke("import", manager, str(tmp_path / manager), "--out", out)
    assert result.status == 2
    assert "the file exists" in result.err
    other = next(name for name in ("pbs", "sge") if name != manager)
    result = invoke("import", manager, str(tmp_path / other), "--out", f"{out}2")
    assert result.status == 2
    assert len(result.err.splitlines()) == 1
    assert "a line of" in result.err or "a dump of" in result.err or "a record of" in result.err
