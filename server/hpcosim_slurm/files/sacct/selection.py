"""The records of a file that are imported: those of jobs that started."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from zoneinfo import ZoneInfo

from hpcosim_slurm.files.errors import FieldError
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.sacct.records import ADVICE, NEEDED, JobId, Record, identifier, record_of
from hpcosim_slurm.files.sacct.submit_line import options_of
from hpcosim_slurm.files.tables import Row, read_table, require

FREE_TEXT = ("JobName", "Constraints", "SubmitLine", "Comment", "WorkDir")
MOST_TASKS = 4_000_000
_LIMIT = re.compile(r".*%(\d{1,9})")
_SPAN = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")


def started_records(
    path: Path, zone: ZoneInfo, limits: dict[int, int], report: ImportReport
) -> Iterator[Record]:
    """Yield the records of jobs that started; the others are dropped and counted.

    Args:
        path: the file.
        zone: time zone of local times.
        limits: gets the limit of running tasks of each array that states one.
        report: counts the dropped records by reason.

    Raises:
        InputError: the file cannot be read or lacks columns.
    """
    checked = False

    def fits(values: dict[str, str]) -> bool:
        try:
            record_of(Row(0, values), identifier(Row(0, values)), zone)
        except (FieldError, KeyError):
            return False
        return True

    for row in read_table(path, report, free_text=FREE_TEXT, fits=fits, advice=ADVICE):
        if not checked:
            require(list(row.values), NEEDED, path, ADVICE)
            checked = True
        try:
            named = identifier(row)
            if named.step:
                report.add("dropped", "steps of jobs", row.line)
                continue
            record = record_of(row, named, zone)
        except FieldError as error:
            report.add("dropped", f"records with an invalid field ({_column(error)})", row.line)
            continue
        _note_limit(named, record, limits)
        if record.ambiguous:
            report.add("guessed", "local times of the hour that is repeated", row.line)
        if reason := _never_started(record):
            report.add("dropped", reason, row.line, _task_count(named))
        else:
            if named.part is not None:
                what = "components of heterogeneous jobs: a job each"
                report.add("guessed", what, row.line)
            yield record


def array_limits(jobs: Sequence[Sequence[Record]], limits: dict[int, int]) -> dict[int, int]:
    """Return the limits of arrays, with those that the command lines state."""
    found = dict(limits)
    for first, *_ in jobs:
        array_id = first.named.job_id
        if first.named.task is None or array_id in found:
            continue
        match = _LIMIT.fullmatch(options_of(first.submit_line).get("array", ""))
        if match is not None:
            found[array_id] = int(match[1])
    return found


def job_numbers(jobs: Sequence[Sequence[Record]], report: ImportReport, *, anew: bool) -> list[int]:
    """Return the number of each job in the workload, each once.

    Args:
        jobs: the records of each job.
        report: counts the numbers that Slurm used again.
        anew: number the jobs from 1.
    """
    if anew:
        return list(range(1, len(jobs) + 1))
    numbers: list[int] = []
    used: set[int] = set()
    free = max(first.raw_id for first, *_ in jobs) + 1
    for first, *_ in jobs:
        number = first.raw_id
        if number in used:
            report.add("guessed", "job numbers that Slurm used again: new numbers", first.line)
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


def _note_limit(named: JobId, record: Record, limits: dict[int, int]) -> None:
    match = _LIMIT.fullmatch(named.tasks)
    if match is not None:
        limits.setdefault(named.job_id, int(match[1]))


def _never_started(record: Record) -> str:
    """Return why a job that never ran is left out; empty: it ran."""
    idle = not record.run_s and not record.nodes and record.state != "COMPLETED"
    if record.start_s is not None and not idle:
        return ""
    if record.state in ("CANCELLED", "DEADLINE", "REVOKED"):
        return "jobs cancelled while pending"
    if record.state in ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "CONFIGURING"):
        return "jobs that still waited"
    return "jobs without a start"


def _task_count(named: JobId) -> int:
    """Return the number of jobs of a record: that of its tasks, or 1."""
    count = 0
    for span in named.tasks.partition("%")[0].split(","):
        match = _SPAN.fullmatch(span)
        if match is not None:
            first, last = int(match[1]), int(match[2] or match[1])
            count += max((last - first) // max(int(match[3] or 1), 1) + 1, 0)
    return min(max(count, 1), MOST_TASKS)


def _column(error: FieldError) -> str:
    return str(error).partition(":")[0]
