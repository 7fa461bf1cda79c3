"""Job logs in the Standard Workload Format, version 2.2 (Feitelson, Parallel Workloads Archive)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from hpcosim_protocol import Placement
from hpcosim_workloads.logs.job_line import MOST_MB, NO_PROFILES, Profile
from hpcosim_workloads.logs.job_log import LogJob, checked, read_log
from hpcosim_workloads.table import MOST_CORES, JobTable

FIELDS = 18
KB_A_MB = 1000
MOST_KB = MOST_MB * KB_A_MB


def read_swf(
    path: Path,
    *,
    placement: Placement = "cores",
    lenient: bool = False,
    profiles: Mapping[str, Profile] = NO_PROFILES,
) -> JobTable:
    """Return the jobs of an SWF log, plain or gzipped, that can be run again.

    The file is read line by line into columns, whole, before anything is simulated: a bad line
    at its end is found before a result is begun.

    Rules, each counted in `JobTable.skipped` where it leaves out or changes a job:

    - a job of no or unknown run time (field 4 is 0 or -1) is left out: `run_time_unknown_or_zero`;
    - cores are the processors asked for (field 8), or if unknown those used (field 5); a job
      with neither is left out: `cores_unknown`;
    - a job without submission time (field 2 below 0) is left out: `submit_time_unknown`;
    - an unknown requested time (field 9 not above 0) is the run time:
      `requested_time_unknown` (kept);
    - jobs not in order of submission are sorted, those of one time stay in the file's order:
      `out_of_order` counts lines earlier than one before (kept);
    - under `lenient` a corrupt line, or one that repeats a job's number, is left out:
      `corrupt_lines`, `repeated_job_ids`.

    Not counted: memory is what was asked for (field 10), or if unknown what was used (field 7),
    in KB a processor, of which 1000 are a MB here. A job has the profile whose name is the
    number of its executable (field 14), if there is one; that fills what the log does not say:
    placement, memory volume, maximum energy, and memory where that is unknown.

    Args:
        path: the file.
        placement: how the log's jobs are laid over nodes, where no profile says; SWF does not.
        lenient: leave out corrupt lines instead of failing.
        profiles: by the number of an executable. None may say what a log does: `NOT_OF_LOGS`.

    Raises:
        WorkloadError: the file can't be read, or a line is corrupt; names the line. Or a
            profile of a job says what a log does.
    """
    parse = partial(_parse, profiles=profiles)
    return read_log(path, parse, placement=placement, lenient=lenient, profiles=profiles)


def _parse(line: str, profiles: Mapping[str, Profile]) -> LogJob:
    fields = line.replace("_", "?").split()  # Python would take 1_000 for a number
    if len(fields) != FIELDS:
        raise ValueError(f"a job has {FIELDS} fields; this line has {len(fields)}")
    try:
        job_id = int(fields[0])
        submit_s, run_s, requested_s = float(fields[1]), float(fields[3]), float(fields[8])
        used, asked = int(fields[4]), int(fields[7])
        used_kb, asked_kb = float(fields[6]), float(fields[9])
    except ValueError as error:
        raise ValueError(f"a field is not a number: {error}") from None
    if max(used, asked) > MOST_CORES:
        raise ValueError(f"processors must be {MOST_CORES} or fewer")
    if not (abs(used_kb) <= MOST_KB and abs(asked_kb) <= MOST_KB):
        raise ValueError(f"memory is not a number of up to {MOST_KB} KB")
    memory_kb = asked_kb if asked_kb > 0 else max(used_kb, 0.0)
    profile = fields[13] if fields[13] in profiles else ""
    cores = asked if asked > 0 else used
    return checked(
        LogJob(job_id, submit_s, run_s, requested_s, cores, memory_kb / KB_A_MB, profile)
    )
