"""The project's own workload format: one JSON object a line, one job a line.

    {"job_id": 1, "submit_s": 0, "cores": 4, "run_s": 3600, "requested_s": 7200}
    {"job_id": 2, "submit_s": 5, "cores": 8, "req_ops": 1.25e10, "requested_s": 5.5, "profile": "B"}

Every field stands in `JobLine`. Plain or gzipped; empty lines are passed over.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from hpcosim_protocol import Placement
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.logs.job_line import NO_PROFILES, JobLine, JobLines, Profile
from hpcosim_workloads.logs.log_file import numbered_lines
from hpcosim_workloads.table import JobTable


def read_jsonl(
    path: Path,
    *,
    placement: Placement = "cores",
    lenient: bool = False,
    profiles: Mapping[str, Profile] = NO_PROFILES,
) -> JobTable:
    """Return the jobs of a file in the project's own format, in order of submission.

    Args:
        path: the file.
        placement: of the jobs that name none, and have none from their profile.
        lenient: leave out corrupt lines instead of failing; they are counted as
            `corrupt_lines` in `JobTable.skipped`.
        profiles: by the names lines have for them; if any, every name in a line must be theirs.

    Raises:
        WorkloadError: the file can't be read, or a line is no job; names the line.
    """
    decoder = msgspec.json.Decoder(JobLine)
    jobs = JobLines(placement, profiles)
    corrupt = 0
    for number, line in numbered_lines(path):
        if line.isspace():
            continue
        try:
            jobs.add(decoder.decode(line))
        except ValueError as error:
            if not lenient:
                raise WorkloadError(_helpful(str(error)), path, number) from None
            corrupt += 1
    return jobs.table().with_skipped({"corrupt_lines": corrupt} if corrupt else {})


def _helpful(what: str) -> str:
    """Add the nearest field to a message about one that there is not."""
    unknown = re.search(r"unknown field `(.*)`", what)
    if unknown is None:
        return what
    near = difflib.get_close_matches(unknown[1], JobLine.__struct_fields__, n=1)
    return f"{what}; did you mean `{near[0]}`?" if near else what
