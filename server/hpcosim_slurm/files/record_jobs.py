"""Records of a workload manager's accounting to a file of jobs and a file of their recorded runs.

The one place that decides what becomes of an accounting record, of whatever manager: which records
are runs of one job, what its requests and its run time are, and what is guessed.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpcosim_slurm.files import output
from hpcosim_slurm.files.report import ImportReport, readable
from hpcosim_slurm.texts import as_text, origin_of, zone_of
from hpcosim_workloads.accounting.record import ARRAY_LIMIT, Record
from hpcosim_workloads.logs.quantities import FieldError, memory_of, shown

CONTINUES = frozenset(
    ("REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "RESIZING")
)
"""States after which a further record of the same number is a further run of the same job."""

KINDS = frozenset(("after", "afterok", "afternotok", "afterany", "aftercorr"))
MOST_JOBS = 10_000
Tasks = Mapping[int, Mapping[int, int]]
"""Number in the workload of each task, by Slurm's number of the array and index. A job that is not
in an array is the only task of its own number."""

_JOB = re.compile(r"(\d{1,18})(?:_(\d{1,10}|\*))?(\+\d{1,9})?")

YEAR_S = 365 * 86400.0
"""Requested time of jobs without a limit, s; Slurm's backfill scheduler plans with a year, too."""
SHORTEST_RUN_S = 0.5
"""Run time of jobs for which the accounting says 0 s: half of its resolution."""
ELIGIBLE_AFTER_S = 1.0
"""An eligible time that is not later than this after the submission is that of the submission."""
CUT_SHORT = frozenset(("TIMEOUT", "NODE_FAIL", "PREEMPTED", "CANCELLED", "DEADLINE", "REQUEUED"))
"""States in which a job would have run longer than it did."""
FAILED = CUT_SHORT | {"FAILED", "OUT_OF_MEMORY", "BOOT_FAIL"}
ONGOING = frozenset(("RUNNING", "SUSPENDED", "COMPLETING", "STOPPED", "RESIZING", "SIGNALING"))


@contextmanager
def uncollected() -> Iterator[None]:
    """Switch the collector of cycles off while records and jobs are made.

    They have no cycles, and looking through all of them repeatedly takes a quarter of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def histories(records: Iterable[Record], report: ImportReport) -> list[list[Record]]:
    """Return the records of each job in the order of its runs; jobs in order of submission.

    A requeued job keeps its number; in Slurm, its later records have the time of the requeue as
    submission. Numbers are also used again when the largest is reached: a record that follows one
    of a finished job is another job.
    """
    by_id: dict[tuple[int, int | None], list[Record]] = {}
    for record in records:
        by_id.setdefault((record.raw_id, record.named.task), []).append(record)
    jobs = [job for same_id in by_id.values() for job in _jobs_of(same_id, report)]
    return sorted(jobs, key=lambda job: (job[0].submit_s, job[0].raw_id, job[0].named.task or 0))


def _jobs_of(records: list[Record], report: ImportReport) -> Iterator[list[Record]]:
    if len(records) == 1:
        yield records
        return
    records.sort(key=lambda record: (record.submit_s, record.start_s or float("inf"), record.line))
    job: list[Record] = []
    for record in records:
        run = (record.submit_s, record.start_s, record.end_s, record.state)
        if job and (job[-1].submit_s, job[-1].start_s, job[-1].end_s, job[-1].state) == run:
            report.add("dropped", "repeated records", record.line)
        elif not job or (job[-1].state in CONTINUES and job[-1].name == record.name):
            job.append(record)
        else:
            yield job
            job = [record]
    yield job


History = Sequence[Record]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOptions:
    """How job records are imported.

    Attributes:
        time_zone: time zone of local times, and of `start`.
        start: time of simulated second 0; empty: that of the first submission.
        requeue: whether jobs may be requeued that do not say so (JobRequeue of slurm.conf).
        anonymize: replace the names of users, groups, accounts and jobs, and number jobs anew.
        names: file that keeps the replaced names; None: they are not kept.
        force: replace files that exist.
    """

    time_zone: str = "UTC"
    start: str = ""
    requeue: bool = True
    anonymize: bool = False
    names: Path | None = None
    force: bool = False


@dataclass(frozen=True, slots=True)
class RecordedJobs:
    """The jobs of records.

    Attributes:
        histories: the runs of each job that is written.
        numbers: the number of each of these jobs in the workload.
        lines: the jobs as lines of the workload format.
        origin_s: Unix time of simulated second 0, s.
    """

    histories: list[History]
    numbers: list[int]
    lines: list[dict[str, Any]]
    origin_s: float

    def runs(self) -> Iterator[output.RecordedRun]:
        """Yield the runs of the jobs as they were."""
        for history, number in zip(self.histories, self.numbers, strict=True):
            submit_s = history[0].submit_s - self.origin_s
            for run in history:
                assert run.start_s is not None
                end_s = None if run.end_s is None else run.end_s - self.origin_s
                times_s = (submit_s, run.start_s - self.origin_s, end_s)
                yield output.RecordedRun(number, *times_s, run.nodes, run.state)


def jobs_of(
    records: Iterable[Record],
    options: RecordOptions,
    report: ImportReport,
    path: Path,
    limits: dict[int, int],
    empty: str = "the file has no records",
) -> RecordedJobs:
    """Return the jobs of records.

    Args:
        path: the file of the records, for errors.
        limits: limits of running tasks of arrays by number; it is read after the records.
        empty: the end of the error if there are no records.

    Raises:
        InputError: the records cannot be read, or none is of a job that started.
    """
    zone = zone_of(options.time_zone)
    jobs_found = histories(records, report)
    first_s = min((runs[0].submit_s for runs in jobs_found), default=0.0)
    origin_s = origin_of(options.start, zone, first_s)
    found = _from(origin_s, jobs_found, report)
    if not found:
        what = "no job that started was found"
        raise output.InputError(f"{what}; {report.summary('dropped') or empty}", path)
    numbers = job_numbers(found, report, anew=options.anonymize)
    settings = JobLinesSettings(
        origin_s,
        options.requeue,
        array_limits(found, limits),
        array_tasks(found, numbers),
        options.anonymize,
    )
    lines = _lines(found, numbers, settings, report)
    report.facts["second 0 of the simulation"] = as_text(origin_s)
    if len(lines) < len(found):
        written = {line["job_id"] for line in lines}
        kept = [number in written for number in numbers]
        found = [job for job, keep in zip(found, kept, strict=True) if keep]
        numbers = [number for number, keep in zip(numbers, kept, strict=True) if keep]
    return RecordedJobs(found, numbers, lines, origin_s)


def write(
    found: RecordedJobs,
    out: Path,
    options: RecordOptions,
    report: ImportReport,
    others: Mapping[Path, bytes] = output.NO_FILES,
) -> None:
    """Write jobs, and their recorded runs beside them.

    Args:
        out: the file of jobs. The runs are written to `recorded_path(out)`.
        others: further files to write, by path.

    Raises:
        InputError: a file exists or cannot be written. Nothing is written then.
    """
    lines, private = found.lines, output.NO_FILES
    if options.anonymize:
        names = output.Pseudonyms(options.names)
        lines = [names.line(line) for line in lines]
        private = names.content()
    runs = list(found.runs())
    report.written += output.write_jobs(out, lines, runs, private, others, force=options.force)


def array_limits(jobs: Sequence[Sequence[Record]], limits: dict[int, int]) -> dict[int, int]:
    """Return the limits of arrays, with those that the command lines state."""
    found = dict(limits)
    for first, *_ in jobs:
        array_id = first.named.job_id
        if first.named.task is None or array_id in found:
            continue
        match = ARRAY_LIMIT.fullmatch(first.options.get("array", ""))
        if match is not None:
            found[array_id] = int(match[1])
    return found


def job_numbers(jobs: Sequence[Sequence[Record]], report: ImportReport, *, anew: bool) -> list[int]:
    """Return the number of each job in the workload, each once.

    Args:
        anew: number the jobs from 1.

    The first task of an array whose tasks have no numbers of their own gets that of the array; the
    others get new ones.
    """
    if anew:
        return list(range(1, len(jobs) + 1))
    numbers: list[int] = []
    used: set[int] = set()
    free = max(first.raw_id for first, *_ in jobs) + 1
    for first, *_ in jobs:
        number = first.raw_id
        if number in used:
            if first.named.task is None:
                report.add("guessed", "job numbers that were used again: new numbers", first.line)
            number, free = free, free + 1
        used.add(number)
        numbers.append(number)
    return numbers


def array_tasks(
    jobs: Sequence[Sequence[Record]], numbers: Sequence[int]
) -> dict[int, dict[int, int]]:
    """Return the number in the workload of each task, by array and index.

    A job that is in no array is the task 0 of its own number.
    """
    tasks: dict[int, dict[int, int]] = {}
    for (first, *_), number in zip(jobs, numbers, strict=True):
        named = first.named
        if named.task is None:
            tasks.setdefault(first.raw_id, {}).setdefault(0, number)
        else:
            tasks.setdefault(named.job_id, {})[named.task] = number
    return tasks


def _lines(
    found: Sequence[History],
    numbers: Sequence[int],
    settings: JobLinesSettings,
    report: ImportReport,
) -> list[dict[str, Any]]:
    pairs = zip(found, numbers, strict=True)
    lines = (job_line(runs, number, settings, report) for runs, number in pairs)
    return readable(lines, [runs[0].line for runs in found], report)


def _from(origin_s: float, found: Sequence[History], report: ImportReport) -> list[History]:
    """Return the jobs that were submitted from the origin on."""
    kept = []
    for runs in found:
        if runs[0].submit_s >= origin_s:
            kept.append(runs)
        else:
            report.add("dropped", "jobs submitted before --start", runs[0].line)
    return kept


def dependency_of(text: str, index: int | None, tasks: Tasks) -> str:
    """Return a dependency in which jobs and tasks of arrays have their numbers in the workload.

    `aftercorr` of a task becomes `afterok` of the task with the same index. Jobs that are not in
    the workload are left out, and with them the conditions that have no other job.

    Args:
        text: as in `sbatch --dependency`.
        index: index of the job in its array; None: it is not part of one.

    Returns:
        The dependency; empty: none of its jobs is in the workload.

    Raises:
        FieldError: the text has another form.

    Example:
        >>> dependency_of("afterok:7:8:9_2,singleton", None, {7: {0: 7}, 9: {1: 10, 2: 11}})
        'afterok:7:11,singleton'
    """
    separator = "?" if "?" in text else ","
    if separator == "?" and "," in text:
        raise FieldError(f"expected `,` or `?` between dependencies, got both in {shown(text)}")
    clauses = (_clause(part, index, tasks) for part in text.split(separator))
    return separator.join(filter(None, clauses))


def _clause(part: str, index: int | None, tasks: Tasks) -> str:
    kind, *jobs = part.split(":")
    if kind == "singleton" and not jobs:
        return kind
    if kind.isdecimal():  # the old form `--dependency=7` means afterany
        kind, jobs = "afterany", [kind, *jobs]
    if kind not in KINDS or not jobs or len(jobs) > MOST_JOBS:
        raise FieldError(f"expected a dependency such as afterok:1001, got {shown(part)}")
    corresponding = kind == "aftercorr"
    numbers = [number for job in jobs for number in _numbers(job, corresponding, index, tasks)]
    return ":".join([("afterok" if corresponding else kind), *numbers]) if numbers else ""


def _numbers(job: str, corresponding: bool, index: int | None, tasks: Tasks) -> list[str]:
    match = _JOB.fullmatch(job)
    if match is None:
        raise FieldError(f"expected a job number such as 1001 or 1001_3, got {shown(job)}")
    number, task, delay = int(match[1]), match[2], match[3] or ""
    known = tasks.get(number, {})
    if task not in (None, "*"):
        chosen = [known[int(task)]] if int(task) in known else []
    elif corresponding and index is not None and index in known:
        chosen = [known[index]]
    else:
        chosen = list(known.values())
    return [f"{each}{delay}" for each in chosen]


@dataclass(frozen=True, slots=True)
class JobLinesSettings:
    """How jobs become lines.

    Attributes:
        requeue: whether jobs may be requeued that do not say so (JobRequeue of slurm.conf).
        tasks: job numbers of the tasks of each array.
    """

    origin_s: float
    requeue: bool = True
    limits: Mapping[int, int] = field(default_factory=dict)
    tasks: Tasks = field(default_factory=dict)
    anonymize: bool = False


def job_line(
    runs: Sequence[Record], job_id: int, settings: JobLinesSettings, report: ImportReport
) -> dict[str, Any]:
    """Return a job as a line of the workload format; empty and unknown fields are left out.

    Args:
        runs: the records of the job; the last is that of the run that counts.
    """
    first, last = runs[0], runs[-1]
    options = first.options
    run_s = _run_time(last, report)
    line: dict[str, Any] = {
        "job_id": job_id,
        "submit_s": first.submit_s - settings.origin_s,
        "cores": int(first.requested["cpu"]),
        "run_s": run_s,
        "requested_s": _requested_time(first, run_s, report),
        **{key: getattr(first, key) for key in ("user", "group", "account", "qos", "partition")},
        "name": first.name,
        "fails": last.state in FAILED,
        "requeue": _may_requeue(runs, options, settings),
        "features": first.constraints,
        "reservation": first.reservation,
        **_array(first, job_id, settings, report),
        **_layout(first, options),
        **_memory(first, options, report),
        **_devices(first, options, report),
    }
    line |= _waits(first, options, line, settings, report)
    found = {key: value for key, value in line.items() if value}
    found["submit_s"] = line["submit_s"]
    return found


def _run_time(last: Record, report: ImportReport) -> float:
    if last.state in CUT_SHORT:
        what = f"run times of jobs that ended as {last.state}: they would have run longer"
        report.add("guessed", what, last.line)
    elif last.state in ONGOING:
        report.add("guessed", "run times of jobs that still ran: the time up to then", last.line)
    if last.run_s:
        return last.run_s
    what = f"run times below the resolution of 1 s: {SHORTEST_RUN_S} s"
    report.add("guessed", what, last.line)
    return SHORTEST_RUN_S


def _requested_time(first: Record, run_s: float, report: ImportReport) -> float:
    if first.limit_s is not None:
        return first.limit_s
    if first.unlimited:
        report.add("guessed", "requested times of jobs without limit: a year", first.line)
        return max(YEAR_S, run_s)
    report.add("guessed", "requested times of jobs that state none: the run time", first.line)
    return run_s


def _may_requeue(
    runs: Sequence[Record], options: Mapping[str, str], settings: JobLinesSettings
) -> bool:
    if len(runs) > 1 or "requeue" in options:
        return True
    return settings.requeue and "no-requeue" not in options


def _array(
    first: Record, job_id: int, settings: JobLinesSettings, report: ImportReport
) -> dict[str, Any]:
    if first.named.task is None:
        return {}
    array_id = first.named.job_id
    tasks = settings.tasks[array_id]
    if tasks[first.named.task] != job_id:  # a later array has the same number
        what = "tasks of arrays whose number was used again: jobs of their own"
        report.add("guessed", what, first.line)
        return {}
    return {
        "array_id": min(tasks.values()) if settings.anonymize else array_id,
        "array_index": first.named.task,
        "array_limit": settings.limits.get(array_id, 0),
    }


def _layout(first: Record, options: Mapping[str, str]) -> dict[str, Any]:
    cores, nodes = int(first.requested["cpu"]), int(first.requested.get("node", 0))
    found: dict[str, Any] = {"nodes_min": nodes if 1 < nodes <= cores else 0}
    if not options:
        return found
    per_task = _whole(options.get("cpus-per-task", ""))
    if per_task > 1 and cores % per_task == 0 and nodes <= cores // per_task:
        found["cores_per_task"] = per_task
    least, dash, most = options.get("nodes", "").partition("-")
    most_nodes = _whole(most if dash else least)
    if most_nodes and nodes <= most_nodes:
        found["nodes_max"] = most_nodes
    per_node = _whole(options.get("ntasks-per-node", ""))
    tasks = cores // found.get("cores_per_task", 1)
    if per_node and (not most_nodes or most_nodes * per_node >= tasks):
        found["tasks_per_node"] = per_node
    if "exclusive" in options and not options["exclusive"]:
        found["placement"] = "whole_nodes"
    for option, key in (("nodelist", "required_nodes"), ("exclude", "excluded_nodes")):
        if options.get(option) and "/" not in options[option]:
            found[key] = options[option]
    return found


def _memory(first: Record, options: Mapping[str, str], report: ImportReport) -> dict[str, Any]:
    """Return the memory of a job: on each node, for each core or in all, MB."""
    if first.memory_per_node_mb:
        return {"memory_per_node_mb": first.memory_per_node_mb}
    if (text := options.get("mem")) and "mem-per-cpu" not in options:
        try:
            mb = memory_of(text).mb
        except FieldError:
            mb = -1.0
        if mb >= 0:
            return {"memory_per_node_mb": mb} if mb else {"all_memory": True}
    mb, cores = first.requested.get("mem", 0.0), first.requested["cpu"]
    if not mb:
        return {}
    if 0 < first.allocated_mb < mb:  # of `--mem=0` the records state the largest node
        what = "memory requests above the allocated memory: the whole memory of the nodes"
        report.add("guessed", what, first.line)
        return {"all_memory": True}
    if int(first.requested.get("node", 1)) > 1 or first.node_count > 1:
        what = "memory of jobs on several nodes: an equal part for each core"
        report.add("guessed", what, first.line)
    return {"memory_mb": mb / cores}


def _devices(first: Record, options: Mapping[str, str], report: ImportReport) -> dict[str, Any]:
    total = {
        name.removeprefix("gres/"): int(count)
        for name, count in first.requested.items()
        if name.startswith("gres/") and count >= 1
    }
    licenses = {
        name.removeprefix("license/"): int(count)
        for name, count in first.requested.items()
        if name.startswith("license/") and count >= 1
    }
    found: dict[str, Any] = {"licenses": licenses}
    nodes = first.node_count or int(first.requested.get("node", 1))
    if not total:
        return found
    if nodes <= 1:
        return found | {"gres_per_node": total}
    per_node = any(name in options for name in ("gres", "gpus-per-node"))
    if per_node and all(count % nodes == 0 for count in total.values()):
        return found | {"gres_per_node": {name: each // nodes for name, each in total.items()}}
    if not options:
        what = "devices of jobs on several nodes: for the job instead of for each node"
        report.add("guessed", what, first.line)
    return found | {"gres_per_job": total}


def _waits(
    first: Record,
    options: Mapping[str, str],
    line: Mapping[str, Any],
    settings: JobLinesSettings,
    report: ImportReport,
) -> dict[str, Any]:
    """Return what a job waits for before it is eligible."""
    if options.get("dependency"):
        try:
            text = dependency_of(options["dependency"], first.named.task, settings.tasks)
        except FieldError:
            text = ""
        if text:
            return {"dependency": text}
        report.add("dropped", "dependencies on other jobs than those of the file", first.line)
    if line.get("array_limit"):
        return {}
    if first.eligible_s is None or first.eligible_s <= first.submit_s + ELIGIBLE_AFTER_S:
        return {}
    what = "begin times: the eligible time, as what the job waited for is unknown"
    report.add("guessed", what, first.line)
    return {"begin_s": first.eligible_s - settings.origin_s}


def _whole(text: str) -> int:
    """Return a whole number; 0: the text is none."""
    return int(text) if text.isdecimal() and len(text) < 10 else 0
