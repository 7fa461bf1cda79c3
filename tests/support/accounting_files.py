"""Accounting of an invented site as PBS, LSF, Grid Engine and OAR write it.

One job of `SiteJob` is written by each of the functions in the documented form of its manager, so
that tests can compare what the readers make of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

FIRST_S = 1_772_438_400  # 2026-03-02 08:00:00 UTC
QUEUES = {"long": ("n1", "n2", "n3", "n4"), "short": ("n5", "n6")}
CORES = 16
"""Cores of each node of the site."""


@dataclass(frozen=True)
class SiteJob:
    """A job that ran.

    Attributes:
        nodes: the nodes of the run; the job has `cores` on each.
        end: `done`, `failed`, `killed` (by the user) or `limit`.
        task: index in the array `number`; 0: the job is in none.
    """

    number: int
    submit_s: int
    start_s: int
    end_s: int
    nodes: tuple[str, ...] = ("n1",)
    cores: int = CORES
    limit_s: int = 7200
    queue: str = "long"
    user: str = "ada"
    name: str = "solve"
    end: str = "done"
    task: int = 0

    @property
    def all_cores(self) -> int:
        """Cores of the job on all nodes."""
        return self.cores * len(self.nodes)


def site_jobs(count: int, seed: int = 1) -> list[SiteJob]:
    """Return jobs that use whole nodes of their queue, one after the other on each node."""
    draw = random.Random(seed)
    free_s = dict.fromkeys((name for names in QUEUES.values() for name in names), FIRST_S)
    submit_s, jobs = FIRST_S, []
    for number in range(1, count + 1):
        queue = draw.choice(list(QUEUES))
        nodes = tuple(sorted(draw.sample(QUEUES[queue], draw.randint(1, len(QUEUES[queue])))))
        submit_s += draw.randrange(600)
        start_s = max(submit_s, *(free_s[node] for node in nodes)) + draw.randrange(1, 60)
        end = draw.choices(("done", "failed", "killed", "limit"), (8, 1, 1, 1))[0]
        run_s = 7200 if end == "limit" else draw.randrange(1, 7000)
        for node in nodes:
            free_s[node] = start_s + run_s
        jobs.append(
            SiteJob(
                number,
                submit_s,
                start_s,
                start_s + run_s,
                nodes,
                draw.choice((4, CORES)),
                queue=queue,
                user=draw.choice(("ada", "bob", "eve")),
                end=end,
            )
        )
    return jobs


def _clock(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%m/%d/%Y %H:%M:%S")


def _duration(time_s: int) -> str:
    return f"{time_s // 3600:02}:{time_s // 60 % 60:02}:{time_s % 60:02}"


def pbs_lines(job: SiteJob) -> list[str]:
    """Return the records of a job in an accounting log of PBS Pro: queued, started, ended."""
    name = f"{job.number}[{job.task}].head" if job.task else f"{job.number}.head"
    hosts = "+".join(f"{node}/0*{job.cores}" for node in job.nodes)
    vnodes = "+".join(f"({node}:ncpus={job.cores}:mem=8388608kb)" for node in job.nodes)
    count = len(job.nodes)
    common = (
        f'user={job.user} group=users account="physics" project=_pbs_project_default '
        f"jobname={job.name} queue={job.queue} ctime={job.submit_s} qtime={job.submit_s} "
        f"etime={job.submit_s} start={job.start_s} exec_host={hosts} exec_vnode={vnodes} "
        f"Resource_List.mem={8 * count}gb Resource_List.ncpus={job.all_cores} "
        f"Resource_List.nodect={count} Resource_List.place=scatter "
        f"Resource_List.select={count}:ncpus={job.cores}:mem=8gb:mpiprocs={job.cores} "
        f"Resource_List.walltime={_duration(job.limit_s)}"
    )
    status = {"done": 0, "failed": 1, "killed": 271, "limit": 271}[job.end]
    run_s = job.end_s - job.start_s
    lines = [
        f"{_clock(job.submit_s)};Q;{name};queue={job.queue}",
        f"{_clock(job.start_s)};S;{name};{common}",
    ]
    if job.end == "killed":
        lines.append(f"{_clock(job.end_s)};D;{name};requestor={job.user}@head")
    lines.append(
        f"{_clock(job.end_s)};E;{name};{common} session=4711 end={job.end_s} Exit_status={status} "
        f"resources_used.cpupercent=99 resources_used.cput={_duration(run_s)} "
        f"resources_used.mem=1000kb resources_used.ncpus={job.all_cores} "
        f"resources_used.walltime={_duration(run_s)} run_count=1"
    )
    return lines


def lsf_line(job: SiteJob) -> str:
    """Return the record of a job in `lsb.acct`, of LSF 10.1 with resources of hosts."""
    hosts = " ".join(f'"{job.cores}*{node}"' for node in job.nodes)
    usage = " ".join(f'"{node}" 1000 0 60 1 0' for node in job.nodes)
    count = len(job.nodes)
    status, code, reason = {
        "done": (64, 0, 0),
        "failed": (32, 256, 0),
        "killed": (32, 33280, 14),
        "limit": (32, 35840, 5),
    }[job.end]
    name = f"{job.name}[1-9]%3" if job.task else job.name
    run_s = job.end_s - job.start_s
    return (
        f'"JOB_FINISH" "10.1" {job.end_s} {job.number} 1000 33554434 {job.all_cores} '
        f'{job.submit_s} 0 0 {job.start_s} "{job.user}" "{job.queue}" "span[ptile={job.cores}]" '
        f'"" "" "head" "/home/{job.user}" "" "out" "" "1.{job.number}" 0 {count} {hosts} {status} '
        f'60.0 "{name}" "#!/bin/sh; echo ""hello world""" 1.5 0.5 9000 0 -1 0 0 1 0 0 0 0 -1 0 0 '
        f'0 9 9 -1 "" "physics" {code} {job.all_cores} "" "" {job.task} 9000 9000 "" "" "" "" 0 "" '
        f'{reason} "" -1 "/physics/{job.user}" "" "" "" -1 "" "" 6160 "" {job.start_s} "" "" 2 '
        f'1032 "0" 1033 "0" {count} {usage} {job.limit_s} 0 2048 '
        f'"select[type == any] order[r15s:pg] span[ptile={job.cores}] " "" -1 "" -1 0 "" 0 0 "" '
        f'{run_s} "/home/{job.user}" 0 "" 0.000000 0.00 0.00 0.00 0.00 {count} {hosts} -1 0 0 0'
    )


def sge_lines(job: SiteJob) -> list[str]:
    """Return the records of a job in `accounting` of Grid Engine 6.2; of tasks on other nodes, too.

    The records of the tasks come before that of the job.
    """
    failed, status = {"done": (0, 0), "failed": (0, 1), "killed": (100, 137), "limit": (37, 137)}[
        job.end
    ]
    parallel = len(job.nodes) > 1

    def line(host: str, task_id: str, submit_s: int) -> str:
        fields = [
            *(job.queue, host, "users", job.user, job.name, job.number, "sge", 0),
            *(submit_s, job.start_s, job.end_s, failed, status, job.end_s - job.start_s),
            *(["0.500000", "0.100000", "1000.000000"] + [0] * 14),
            *("physics", "defaultdepartment", "mpi" if parallel else "NONE", job.all_cores),
            *(job.task, "1.500000", "0.100000", "0.010000"),
            f"-l h_rt={job.limit_s},h_vmem=4G{f' -pe mpi {job.all_cores}' if parallel else ''}",
            *("0.000000", task_id, "1000000.000000", 0, 0),
        ]
        return ":".join(map(str, fields))

    slaves = [line(node, f"1.{node}", 0) for node in job.nodes[1:]]
    return [*slaves, line(job.nodes[0], "NONE", job.submit_s)]


def oar_tables(jobs: Sequence[SiteJob]) -> dict[str, tuple[str, list[tuple[object, ...]]]]:
    """Return the tables of OAR's database: columns and rows by name."""
    numbers = {
        node: range(1 + place * CORES, 1 + (place + 1) * CORES)
        for place, node in enumerate(node for names in QUEUES.values() for node in names)
    }
    state = {"done": "Terminated", "failed": "Terminated", "killed": "Error", "limit": "Error"}
    event = {"killed": "FRAG_JOB_REQUEST", "limit": "WALLTIME"}
    own = {"long": "cpu", "short": "cpu"}
    assigned: list[tuple[object, ...]] = [
        (job.number + 1000, resource, "LOG")
        for job in jobs
        for node in job.nodes
        for resource in numbers[node][: job.cores]
    ]
    return {
        "resources": (
            "resource_id, type, network_address, state, core",
            [
                (number, "default", node, "Alive", number)
                for node, each in numbers.items()
                for number in each
            ],
        ),
        "jobs": (
            "job_id, array_id, array_index, initial_request, job_name, state, reservation, "
            "message, job_user, project, command, exit_code, queue_name, properties, "
            "submission_time, start_time, stop_time, assigned_moldable_job",
            [
                (
                    *(job.number, job.number, 1, f"oarsub -p {own[job.queue]}", job.name),
                    *(state[job.end], "None", "it's\tdone", job.user, "physics", "./run.sh"),
                    *(256 if job.end == "failed" else 0, job.queue, None),
                    *(job.submit_s, job.start_s, job.end_s, job.number + 1000),
                )
                for job in jobs
            ],
        ),
        "moldable_job_descriptions": (
            "moldable_id, moldable_job_id, moldable_walltime, moldable_index",
            [(job.number + 1000, job.number, job.limit_s, "LOG") for job in jobs],
        ),
        "assigned_resources": ("moldable_job_id, resource_id, assigned_resource_index", assigned),
        "event_logs": (
            "event_id, type, job_id, date, description, to_check",
            [
                (job.number, event[job.end], job.number, job.end_s, "by 'ada'", "NO")
                for job in jobs
                if job.end in event
            ],
        ),
    }


def oar_postgres(jobs: Sequence[SiteJob]) -> list[str]:
    """Return the lines of a dump of `pg_dump`."""

    def text(value: object) -> str:
        escaped = str(value).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
        return "\\N" if value is None else escaped

    lines = ["--", "-- PostgreSQL database dump", "--", "", "SET client_encoding = 'UTF8';"]
    for name, (columns, rows) in oar_tables(jobs).items():
        lines += ["", f"COPY public.{name} ({columns}) FROM stdin;"]
        lines += ["\t".join(map(text, row)) for row in rows]
        lines.append("\\.")
    return lines


def oar_mysql(jobs: Sequence[SiteJob], rows_a_line: int = 100) -> list[str]:
    """Return the lines of a dump of `mysqldump`."""

    def literal(value: object) -> str:
        if value is None:
            return "NULL"
        if isinstance(value, int):
            return str(value)
        escaped = str(value).replace("\\", "\\\\").replace("'", "\\'").replace("\t", "\\t")
        return f"'{escaped}'"

    lines = ["-- MySQL dump 10.13", "/*!40101 SET NAMES utf8 */;"]
    for name, (columns, rows) in oar_tables(jobs).items():
        lines.append(f"CREATE TABLE `{name}` (")
        lines += [f"  `{column.strip()}` int(10) unsigned," for column in columns.split(",")]
        lines += ["  PRIMARY KEY (`id`)", ") ENGINE=InnoDB DEFAULT CHARSET=latin1;"]
        for first in range(0, len(rows), rows_a_line):
            part = rows[first : first + rows_a_line]
            tuples = ",".join(f"({','.join(map(literal, row))})" for row in part)
            lines.append(f"INSERT INTO `{name}` VALUES {tuples};")
    return lines


def lines_by_manager(jobs: Iterable[SiteJob]) -> dict[str, list[str]]:
    """Return the accounting of jobs, by the command that imports it and the form."""
    jobs = list(jobs)
    pbs = sorted((line for job in jobs for line in pbs_lines(job)), key=lambda line: line[:19])
    return {
        "pbs": pbs,
        "lsf": [lsf_line(job) for job in jobs],
        "sge": [line for job in jobs for line in sge_lines(job)],
        "oar": oar_postgres(jobs),
        "oar mysql": oar_mysql(jobs),
    }
