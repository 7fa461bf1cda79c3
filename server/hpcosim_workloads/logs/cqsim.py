"""Results of the CQSim simulator (Illinois Institute of Technology), read as a log of jobs.

    id;procs;procs;requested;run;wait;submit;start;end

Times in seconds. Lines that begin with '#' are comments. What that simulator decided, that is
wait, start and end, is passed over.
"""

from __future__ import annotations

from pathlib import Path

from hpcosim_protocol import Placement
from hpcosim_workloads.logs.job_log import LogJob, checked, read_log
from hpcosim_workloads.table import JobTable

FIELDS = 9


def read_cqsim(path: Path, *, placement: Placement = "cores", lenient: bool = False) -> JobTable:
    """Return the jobs of a result file of CQSim, plain or gzipped, that can be run again.

    The rules, and what is counted, are those of `read_swf`; cores are the first `procs`.

    Args:
        path: the file.
        placement: how its jobs are laid over nodes; the format does not say.
        lenient: leave out corrupt lines instead of failing.

    Raises:
        WorkloadError: the file can't be read, or a line is corrupt; names the line.
    """
    return read_log(path, _parse, comment="#", placement=placement, lenient=lenient)


def _parse(line: str) -> LogJob:
    fields = line.replace("_", "?").split(";")  # Python would take 1_000 for a number
    if len(fields) != FIELDS:
        raise ValueError(
            f"a job has {FIELDS} fields, ';' between them; this line has {len(fields)}"
        )
    try:
        job_id, cores = int(fields[0]), int(fields[1])
        requested_s, run_s, submit_s = float(fields[3]), float(fields[4]), float(fields[6])
    except ValueError as error:
        raise ValueError(f"a field is not a number: {error}") from None
    return checked(LogJob(job_id, submit_s, run_s, requested_s, cores))
