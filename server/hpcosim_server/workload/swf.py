"""Job logs in the Standard Workload Format, version 2.2 (Feitelson, Parallel Workloads Archive)."""

from __future__ import annotations

import gzip
import io
import math
import zlib
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np

from hpcosim_protocol import Placement
from hpcosim_server.errors import WorkloadError
from hpcosim_server.workload.table import LATEST_S, MOST_CORES, PLACEMENTS, JobTable, job_table

FIELDS = 18
GZIP_MAGIC = b"\x1f\x8b"


def read_swf(path: Path, *, placement: Placement = "cores", lenient: bool = False) -> JobTable:
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

    Args:
        path: the file.
        placement: how the log's jobs are laid over nodes; SWF does not say.
        lenient: leave out corrupt lines instead of failing.

    Raises:
        WorkloadError: the file can't be read, or a line is corrupt; names the line.
    """
    counts: Counter[str] = Counter()
    job_id, cores = array("q"), array("q")
    submit_s, run_s, requested_s = array("d"), array("d"), array("d")
    latest_s = -math.inf
    for number, line in _lines(path):
        try:
            job = _parse(line)
        except ValueError as error:
            if not lenient:
                raise WorkloadError(str(error), path, number) from None
            counts["corrupt_lines"] += 1
            continue
        if reason := _unusable(job):
            counts[reason] += 1
            continue
        counts["out_of_order"] += job[1] < latest_s
        counts["requested_time_unknown"] += job[3] <= 0
        latest_s = max(latest_s, job[1])
        job_id.append(int(job[0]))
        submit_s.append(job[1])
        run_s.append(job[2])
        requested_s.append(job[3] if job[3] > 0 else job[2])
        cores.append(int(job[4]))
    table = job_table(
        job_id=job_id,
        submit_s=submit_s,
        run_s=run_s,
        requested_s=requested_s,
        cores=cores,
        placement=PLACEMENTS.index(placement),
    )
    table = _without_repeated_ids(table, path, lenient, counts)
    return table.take(np.argsort(table.submit_s, kind="stable")).with_skipped(+counts)


def _parse(line: str) -> tuple[float, float, float, float, float]:
    """Return job number, submission, run and requested time, and cores."""
    fields = line.replace("_", "?").split()  # Python would take 1_000 for a number
    if len(fields) != FIELDS:
        raise ValueError(f"a job has {FIELDS} fields; this line has {len(fields)}")
    try:
        job_id = int(fields[0])
        submit_s, run_s, requested_s = float(fields[1]), float(fields[3]), float(fields[8])
        used, asked = int(fields[4]), int(fields[7])
    except ValueError as error:
        raise ValueError(f"a field is not a number: {error}") from None
    if not all(abs(time_s) <= LATEST_S for time_s in (submit_s, run_s, requested_s)):
        raise ValueError(f"a time is not a number of up to {LATEST_S} s")
    if not 0 <= job_id < 2**63 or max(used, asked) > MOST_CORES:
        raise ValueError(f"a job number must be 0 or more, and cores {MOST_CORES} or fewer")
    return job_id, submit_s, run_s, requested_s, asked if asked > 0 else used


def _unusable(job: tuple[float, float, float, float, float]) -> str:
    _, submit_s, run_s, _, cores = job
    if run_s <= 0:
        return "run_time_unknown_or_zero"
    if cores <= 0:
        return "cores_unknown"
    return "submit_time_unknown" if submit_s < 0 else ""


def _without_repeated_ids(
    table: JobTable, path: Path, lenient: bool, counts: Counter[str]
) -> JobTable:
    _, firsts = np.unique(table.job_id, return_index=True)
    repeated = len(table) - len(firsts)
    if repeated and not lenient:
        twice = int(table.job_id[np.setdiff1d(np.arange(len(table)), firsts)[0]])
        raise WorkloadError(f"job {twice} is there twice", path, _last_line_of(twice, path))
    counts["repeated_job_ids"] += repeated
    return table.take(np.sort(firsts)) if repeated else table


def _last_line_of(job_id: int, path: Path) -> int:
    return max(number for number, line in _lines(path) if int(line.split(None, 1)[0]) == job_id)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are jobs, with their numbers."""
    number = 0
    try:
        with open_log(path) as file:
            # Headers hold names in whatever encoding; Latin-1 reads every byte.
            for number, raw in enumerate(file, start=1):
                line = raw.decode("latin-1").strip()
                if line and not line.startswith(";"):
                    yield number, line
    except (OSError, EOFError, zlib.error) as error:
        what = f"cannot be read on: {_plain(error)}"
        raise WorkloadError(what, path, number or None) from None


def open_log(path: Path) -> io.BufferedIOBase:
    """Open a file, gzipped or not, whatever its name says."""
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == GZIP_MAGIC
    except FileNotFoundError:
        raise WorkloadError("there is no such file", path) from None
    except (OSError, ValueError) as error:
        raise WorkloadError(f"cannot be opened: {_plain(error)}", path) from None
    if not zipped:
        return path.open("rb")
    # GzipFile reads lines in Python, BufferedReader in C.
    return io.BufferedReader(cast("io.RawIOBase", gzip.open(path, "rb")), 2**13)


def _plain(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
