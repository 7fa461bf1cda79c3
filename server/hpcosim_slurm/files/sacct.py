"""A file of Slurm's accounting to a file of jobs and a file of their recorded runs."""

from __future__ import annotations

from pathlib import Path

from hpcosim_schedulers.heuristics.recorded import recorded_path
from hpcosim_slurm.files import output
from hpcosim_slurm.files.record_jobs import RecordOptions, jobs_of, uncollected, write
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.sacct_records import started_records
from hpcosim_slurm.texts import zone_of

DEFAULTS = RecordOptions()


def import_sacct(path: Path, jobs: Path, options: RecordOptions = DEFAULTS) -> ImportReport:
    """Write the jobs of a file of Slurm's accounting, and their runs as they were.

    Args:
        path: the output of `sacct -P`, plain or gzipped. See `sacct_records.ADVICE`.
        jobs: the file of jobs to write. The runs are written beside it, to `recorded_path(jobs)`.

    Raises:
        InputError: the file cannot be read, lacks columns or has no job that started; or a file
            exists or cannot be written. Nothing is written then.
    """
    output.check_outputs([jobs, recorded_path(jobs)], [path], options.names)
    report = ImportReport()
    limits: dict[int, int] = {}
    records = started_records(path, zone_of(options.time_zone), limits, report)
    with uncollected():
        write(jobs_of(records, options, report, path, limits), jobs, options, report)
    report.facts["time zone of local times"] = options.time_zone
    return report
