"""The records of each job: one for each of its runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.sacct.records import Record

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
