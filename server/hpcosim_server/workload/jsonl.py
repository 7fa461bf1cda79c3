"""The project's own workload format: one JSON object a line, one job a line.

    {"job_id": 1, "submit_s": 0, "cores": 4, "run_s": 3600, "requested_s": 7200}

Plain or gzipped; empty lines are passed over.
"""

from __future__ import annotations

import zlib
from collections import Counter
from pathlib import Path
from typing import Annotated

import msgspec

from hpcosim_protocol import Placement
from hpcosim_server.errors import WorkloadError
from hpcosim_server.workload.swf import open_log
from hpcosim_server.workload.table import LATEST_S, MOST_CORES, PLACEMENTS, JobTable, job_table

Time = Annotated[float, msgspec.Meta(ge=0, le=LATEST_S)]
Duration = Annotated[float, msgspec.Meta(gt=0, le=LATEST_S)]


class JobLine(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A line of the file.

    Attributes:
        job_id: unique in the file.
        submit_s: submission time, seconds.
        cores: cores asked for.
        run_s: true run time, seconds.
        requested_s: run time asked for; absent: the true one.
        placement: as in `hpcosim_protocol.JobSubmitted`; absent: the scenario's.
    """

    job_id: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    submit_s: Time
    cores: Annotated[int, msgspec.Meta(gt=0, le=MOST_CORES)]
    run_s: Duration
    requested_s: Duration | None = None
    placement: Placement | None = None


def read_jsonl(path: Path, *, placement: Placement = "cores", lenient: bool = False) -> JobTable:
    """Return the jobs of a file in the project's own format, in order of submission.

    Args:
        path: the file.
        placement: of the jobs that name none.
        lenient: leave out corrupt lines instead of failing; they are counted as
            `corrupt_lines` in `JobTable.skipped`.

    Raises:
        WorkloadError: the file can't be read, or a line is no job; names the line.
    """
    decoder = msgspec.json.Decoder(JobLine)
    jobs: dict[int, JobLine] = {}
    corrupt = number = 0
    try:
        with open_log(path) as file:
            for number, line in enumerate(file, start=1):
                if line.isspace():
                    continue
                try:
                    job = decoder.decode(line)
                    if job.job_id in jobs:
                        raise ValueError(f"job {job.job_id} is there twice")
                    jobs[job.job_id] = job
                except ValueError as error:
                    if not lenient:
                        raise WorkloadError(str(error), path, number) from None
                    corrupt += 1
    except (OSError, EOFError, zlib.error) as error:
        raise WorkloadError(f"cannot be read on: {error}", path, number or None) from None
    rows = sorted(jobs.values(), key=lambda job: job.submit_s)
    return job_table(
        job_id=[job.job_id for job in rows],
        submit_s=[job.submit_s for job in rows],
        run_s=[job.run_s for job in rows],
        requested_s=[job.requested_s or job.run_s for job in rows],
        cores=[job.cores for job in rows],
        placement=[PLACEMENTS.index(job.placement or placement) for job in rows],
        skipped=Counter(corrupt_lines=corrupt) if corrupt else None,
    )
