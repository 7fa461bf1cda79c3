"""A file of Slurm's accounting to a file of jobs and a file of their recorded runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcosim_schedulers.heuristics.recorded import recorded_path
from hpcosim_slurm.files.anonymous import Pseudonyms
from hpcosim_slurm.files.errors import InputError
from hpcosim_slurm.files.output import RecordedRun, check_outputs, write_jobs
from hpcosim_slurm.files.readable import readable
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.sacct.job_lines import JobLinesSettings, job_line
from hpcosim_slurm.files.sacct.records import Record
from hpcosim_slurm.files.sacct.selection import (
    array_limits,
    array_tasks,
    job_numbers,
    started_records,
)
from hpcosim_slurm.files.times import as_text, origin_of, zone_of

# The records of each job: one for each of its runs.

CONTINUES = frozenset(
    ("REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "RESIZING")
)
"""States after which a further record of the same number is a further run of the same job."""


def histories(records: Iterable[Record], report: ImportReport) -> list[list[Record]]:
    """Return the records of each job in the order of its runs; jobs in order of submission.

    Slurm keeps the number of a requeued job, whose later records have the time of the requeue as
    submission. Slurm also uses numbers again when the largest is reached: a record that follows one
    of a finished job is another job.

    Args:
        records: the records, in any order.
        report: counts repeated records.
    """
    by_id: dict[int, list[Record]] = {}
    for record in records:
        by_id.setdefault(record.raw_id, []).append(record)
    jobs = [job for same_id in by_id.values() for job in _jobs_of(same_id, report)]
    return sorted(jobs, key=lambda job: (job[0].submit_s, job[0].raw_id))


def _jobs_of(records: list[Record], report: ImportReport) -> Iterator[list[Record]]:
    records.sort(key=lambda record: (record.submit_s, record.start_s or float("inf"), record.line))
    job: list[Record] = []
    for record in records:
        if job and _same(job[-1], record):
            report.add("dropped", "repeated records", record.line)
        elif not job or (job[-1].state in CONTINUES and job[-1].name == record.name):
            job.append(record)
        else:
            yield job
            job = [record]
    yield job


def _same(one: Record, other: Record) -> bool:
    """Return whether two records describe the same run."""
    return (one.submit_s, one.start_s, one.end_s, one.state) == (
        *(other.submit_s, other.start_s, other.end_s, other.state),
    )


History = Sequence[Record]


@dataclass(frozen=True, slots=True, kw_only=True)
class SacctOptions:
    """How job records are imported.

    Attributes:
        time_zone: time zone of local times, by its name in the IANA database.
        start: time of simulated second 0, as in the file; empty: that of the first submission.
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


DEFAULTS = SacctOptions()


def import_sacct(path: Path, jobs: Path, options: SacctOptions = DEFAULTS) -> ImportReport:
    """Write the jobs of a file of Slurm's accounting, and their runs as they were.

    Args:
        path: the output of `sacct -P`, plain or gzipped. See `sacct.records.ADVICE`.
        jobs: the file of jobs to write. The runs are written beside it, to `recorded_path(jobs)`.
        options: see `SacctOptions`.

    Returns:
        What was written, dropped and guessed.

    Raises:
        InputError: the file cannot be read, lacks columns or has no job that started; or a file
            exists or cannot be written. Nothing is written then.
    """
    check_outputs([jobs, recorded_path(jobs)], [path], options.names)
    report = ImportReport()
    zone = zone_of(options.time_zone)
    limits: dict[int, int] = {}
    jobs_found = histories(started_records(path, zone, limits, report), report)
    first_s = min((runs[0].submit_s for runs in jobs_found), default=0.0)
    origin_s = origin_of(options.start, zone, first_s)
    found = _from(origin_s, jobs_found, report)
    if not found:
        what = "no job that started was found"
        raise InputError(f"{what}; {report.summary('dropped') or 'the file has no records'}", path)
    numbers = job_numbers(found, report, anew=options.anonymize)
    settings = JobLinesSettings(
        origin_s,
        options.requeue,
        array_limits(found, limits),
        array_tasks(found, numbers),
        options.anonymize,
    )
    lines = _lines(found, numbers, settings, report)
    written = {line["job_id"] for line in lines}
    runs = [run for run in _recorded(found, numbers, origin_s) if run.job_id in written]
    private: Mapping[Path, bytes] = {}
    if options.anonymize:
        names = Pseudonyms(options.names)
        lines = [names.line(line) for line in lines]
        private = names.content()
    report.written = write_jobs(jobs, lines, runs, private, force=options.force)
    report.facts["second 0 of the simulation"] = as_text(origin_s)
    report.facts["time zone of local times"] = options.time_zone
    return report


def _lines(
    found: Sequence[History],
    numbers: Sequence[int],
    settings: JobLinesSettings,
    report: ImportReport,
) -> list[dict[str, Any]]:
    """Return the jobs as lines that the reader of workloads accepts."""
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


def _recorded(
    found: Sequence[History], numbers: Sequence[int], origin_s: float
) -> Iterator[RecordedRun]:
    for runs, number in zip(found, numbers, strict=True):
        for run in runs:
            assert run.start_s is not None
            end_s = None if run.end_s is None else run.end_s - origin_s
            times_s = (runs[0].submit_s - origin_s, run.start_s - origin_s, end_s)
            yield RecordedRun(number, *times_s, run.nodes, run.state)
