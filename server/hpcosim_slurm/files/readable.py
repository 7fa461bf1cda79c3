"""Check that hpcosim's reader accepts the jobs that are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from hpcosim_protocol.errors import ProtocolError
from hpcosim_protocol.features import check
from hpcosim_protocol.hosts import expand
from hpcosim_protocol.platform import NodeRanges
from hpcosim_slurm.files.report import ImportReport
from hpcosim_workloads.errors import LineError
from hpcosim_workloads.logs.job_line import JobLine
from hpcosim_workloads.logs.job_lines import JobLines
from hpcosim_workloads.table import JobSpec

Line = dict[str, Any]

ESSENTIAL = frozenset(("job_id", "submit_s", "cores", "run_s", "requested_s"))


def readable(lines: Iterable[Line], places: Sequence[int], report: ImportReport) -> list[Line]:
    """Return the jobs that the reader accepts, without the values that it rejects.

    Args:
        lines: the jobs.
        places: line of each job in the file that is imported.
        report: counts the dropped values and jobs.
    """
    jobs = JobLines(nodes_of=_checked_hosts)
    kept: dict[int, Line] = {}
    for line, place in zip(lines, places, strict=True):
        accepted = _accepted(line, jobs, place, report)
        if accepted is not None:
            kept[accepted["job_id"]] = accepted

    def drop(error: LineError, job: JobSpec) -> None:
        report.add("dropped", "dependencies that the reader rejects", error.place or "")
        kept[job.job_id].pop("dependency", None)

    if kept:
        jobs.table(drop)
    return list(kept.values())


def _accepted(line: Line, jobs: JobLines, place: int, report: ImportReport) -> Line | None:
    """Return a job without the values that the reader rejects; None: it rejects the job."""
    while True:
        try:
            if "features" in line:
                _check_features(line["features"])
            jobs.add(msgspec.convert(line, JobLine), place)
        except ValueError as error:
            field = str(error).rpartition("`$.")[2].partition("`")[0].partition("[")[0]
            if field not in line or field in ESSENTIAL:
                report.add("dropped", f"jobs with an invalid {field or 'value'}", place)
                return None
            report.add("dropped", f"values of {field} that hpcosim cannot express", place)
            line = {key: value for key, value in line.items() if key != field}
        else:
            return line


def _check_features(text: str) -> None:
    try:
        check(text)
    except ProtocolError as error:
        raise LineError(str(error), "features") from None


def _checked_hosts(text: str) -> NodeRanges:
    """Check a host list; which nodes there are is not known yet."""
    try:
        expand(text)
    except ProtocolError as error:
        raise ValueError(str(error)) from None
    return ()
