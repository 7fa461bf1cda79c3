"""Reader of hpcosim's own workload format: JSON lines, one job per line.

    {"job_id": 1, "submit_s": 0, "cores": 4, "run_s": 3600, "requested_s": 7200}
    {"job_id": 2, "submit_s": 5, "cores": 8, "req_ops": 1.25e10, "requested_s": 5.5, "profile": "B"}

`JobLine` documents every field. Files are plain or gzipped. Empty lines are ignored.
"""

from __future__ import annotations

import difflib
import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np

from hpcosim_protocol import Placement
from hpcosim_workloads.applied_rules import AppliedRules
from hpcosim_workloads.errors import LineError, WorkloadError
from hpcosim_workloads.logs.job_line import NO_PROFILES, JobLine, JobProfile
from hpcosim_workloads.logs.job_lines import JobLines
from hpcosim_workloads.logs.log_file import numbered_lines
from hpcosim_workloads.logs.requirements import NodesOf
from hpcosim_workloads.table import JobSpec, JobTable

BATSIM = "expected one job per line; a Batsim workload runs with `hpcosim batsim -w`"


def read_jsonl(
    path: Path,
    *,
    placement: Placement = "cores",
    lenient: bool = False,
    profiles: Mapping[str, JobProfile] = NO_PROFILES,
    nodes_of: NodesOf | None = None,
) -> JobTable:
    """Return the jobs of a file in order of submission.

    Args:
        path: the file.
        placement: placement of jobs that state none and whose profile states none.
        lenient: drop corrupt lines and invalid dependencies; `JobTable.skipped` counts them as
            `corrupt_lines` and `dependencies_dropped`. Default: the first one is an error.
        profiles: job profiles by name. If there are any, every `profile` of a line must be one.
        nodes_of: returns the nodes of a host list; None: lines state node numbers.

    Raises:
        WorkloadError: the file cannot be read, or a line is corrupt; the error names the line.
    """
    decoder = msgspec.json.Decoder(JobLine)
    jobs = JobLines(placement, profiles, nodes_of)
    line_s, corrupt_s = 0.0, array("d")
    for number, text in numbered_lines(path):
        if text.isspace():
            continue
        try:
            line = decoder.decode(text)
            jobs.add(line, number)
            line_s = line.submit_s
        except ValueError as error:
            if not lenient:
                what = BATSIM if _is_batsim(path) else _with_hint(str(error))
                raise WorkloadError(what, path, number) from None
            corrupt_s.append(line_s)
    dropped: list[JobSpec] = []
    try:
        table = jobs.table((lambda _, job: dropped.append(job)) if lenient else None)
    except LineError as error:
        raise WorkloadError(str(error), path, error.place) from None
    rows = np.searchsorted(table.submit_s, corrupt_s, side="right")
    rules = AppliedRules().plus("corrupt_lines", rows, corrupt_s)
    return replace(table, rules=_with_dropped(rules, table, dropped))


def _with_dropped(rules: AppliedRules, table: JobTable, dropped: Sequence[JobSpec]) -> AppliedRules:
    """Return the rules with the jobs whose dependency was dropped."""
    row_of = dict(zip(table.job_id.tolist(), range(len(table)), strict=True)) if dropped else {}
    rows = [row_of[job.job_id] for job in dropped]
    return rules.plus("dependencies_dropped", rows, [job.submit_s for job in dropped])


def _is_batsim(path: Path) -> bool:
    """Return whether the first lines of a file have the fields of a Batsim workload."""
    head = b"".join(text for _, text in islice(numbered_lines(path), 3))
    return re.search(rb'"nb_res"\s*:|"jobs"\s*:\s*\[', head) is not None


def _with_hint(what: str) -> str:
    """Return msgspec's message, and for an unknown field the nearest field."""
    unknown = re.search(r"unknown field `(.*)`", what)
    if unknown is None:
        return what
    near = difflib.get_close_matches(unknown[1], JobLine.__struct_fields__, n=1)
    return f"{what}; did you mean `{near[0]}`?" if near else what
