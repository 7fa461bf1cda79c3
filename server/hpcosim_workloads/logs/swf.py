"""Job logs in the Standard Workload Format, version 2.2 (Feitelson, Parallel Workloads Archive)."""

from __future__ import annotations

import gzip
import io
import itertools
import math
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from hpcosim_protocol import Placement
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.logs.job_line import (
    MOST_MB,
    NO_PROFILE,
    NO_PROFILES,
    NOT_OF_LOGS,
    Profile,
    not_of_logs,
)
from hpcosim_workloads.table import LATEST_S, MOST_CORES, PLACEMENTS, JobTable, job_table

FIELDS = 18
KB_A_MB = 1000
MOST_KB = MOST_MB * KB_A_MB
GZIP_MAGIC = b"\x1f\x8b"


class LogJob(NamedTuple):
    """A job as a line of a log has it; a time or count that is not above 0 is unknown.

    Attributes:
        memory_mb: of each task; 0: unknown.
        profile: the name of its profile; "": it has none.
    """

    job_id: int
    submit_s: float
    run_s: float
    requested_s: float
    cores: int
    memory_mb: float = 0.0
    profile: str = ""


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

    def parse(line: str) -> LogJob:
        return _parse(line, profiles)

    return read_log(path, parse, placement=placement, lenient=lenient, profiles=profiles)


def read_log(
    path: Path,
    parse: Callable[[str], LogJob],
    *,
    comment: str = ";",
    placement: Placement = "cores",
    lenient: bool = False,
    profiles: Mapping[str, Profile] = NO_PROFILES,
) -> JobTable:
    """Return the jobs of a log of a job a line, by the rules of `read_swf`.

    Args:
        path: the file.
        parse: reads a line; raises ValueError where it is corrupt.
        comment: what a line begins with that is to be passed over.
        placement: see `read_swf`.
        lenient: likewise.
        profiles: likewise.

    Raises:
        WorkloadError: see `read_swf`.
    """
    counts: Counter[str] = Counter()
    job_id, cores, profile = array("q"), array("q"), array("q")
    submit_s, run_s, requested_s, memory_mb = array("d"), array("d"), array("d"), array("d")
    codes = {"": 0}
    latest_s = -math.inf
    for job in _usable_jobs(path, parse, comment, lenient, counts):
        counts["out_of_order"] += job.submit_s < latest_s
        counts["requested_time_unknown"] += job.requested_s <= 0
        latest_s = max(latest_s, job.submit_s)
        job_id.append(job.job_id)
        submit_s.append(job.submit_s)
        run_s.append(job.run_s)
        requested_s.append(job.requested_s if job.requested_s > 0 else job.run_s)
        cores.append(job.cores)
        memory_mb.append(job.memory_mb)
        profile.append(codes.setdefault(job.profile, len(codes)))
    table = job_table(
        job_id=job_id,
        submit_s=submit_s,
        run_s=run_s,
        requested_s=requested_s,
        cores=cores,
        memory_mb=memory_mb,
        profile=profile,
        profiles=tuple(codes),
    )
    table = _filled(table, [profiles.get(name, NO_PROFILE) for name in codes], placement, path)
    if twice := _repeated(table):
        if not lenient:
            number = _second_line_of(twice[0], path, parse, comment)
            raise WorkloadError(f"job {twice[0]} is there twice", path, number)
        counts["repeated_job_ids"] += len(twice)
        table = table.take(np.sort(np.unique(table.job_id, return_index=True)[1]))
    return table.take(np.argsort(table.submit_s, kind="stable")).with_skipped(+counts)


def _usable_jobs(
    path: Path,
    parse: Callable[[str], LogJob],
    comment: str,
    lenient: bool,
    counts: Counter[str],
) -> Iterator[LogJob]:
    """Yield the jobs that can be run again; count those left out."""
    for number, line in _lines(path, comment):
        try:
            job = parse(line)
        except ValueError as error:
            if not lenient:
                raise WorkloadError(str(error), path, number) from None
            counts["corrupt_lines"] += 1
            continue
        if reason := _unusable(job):
            counts[reason] += 1
        else:
            yield job


def _repeated(table: JobTable) -> list[int]:
    """Return the number of every row whose job is in an earlier row, too."""
    firsts = np.unique(table.job_id, return_index=True)[1]
    repeated: list[int] = np.delete(table.job_id, firsts).tolist()
    return repeated


def checked(job: LogJob) -> LogJob:
    """Return a job whose numbers are such as a table can hold.

    Raises:
        ValueError: one isn't.
    """
    if not (
        abs(job.submit_s) <= LATEST_S
        and abs(job.run_s) <= LATEST_S
        and abs(job.requested_s) <= LATEST_S
    ):
        raise ValueError(f"a time is not a number of up to {LATEST_S} s")
    if not 0 <= job.job_id < 2**63 or job.cores > MOST_CORES:
        raise ValueError(f"a job number must be 0 or more, and cores {MOST_CORES} or fewer")
    return job


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


def _unusable(job: LogJob) -> str:
    if job.run_s <= 0:
        return "run_time_unknown_or_zero"
    if job.cores <= 0:
        return "cores_unknown"
    return "submit_time_unknown" if job.submit_s < 0 else ""


def _filled(
    table: JobTable, kinds: Sequence[Profile], placement: Placement, path: Path
) -> JobTable:
    """Return a table with what its log does not say, by the profile of each job."""
    for name, kind in zip(table.profiles, kinds, strict=True):
        for field in NOT_OF_LOGS:
            if getattr(kind, field) is not None:
                what = f"a job of this log has profile {name!r}, but {not_of_logs(field)}"
                raise WorkloadError(what, path)

    def by_job(values: Iterable[float], kind: type[np.generic] = np.float64) -> NDArray[Any]:
        return np.array(list(values), dtype=kind)[table.profile]

    memory_mb = by_job(kind.memory_mb or 0.0 for kind in kinds)
    return replace(
        table,
        placement=by_job(
            (PLACEMENTS.index(kind.placement or placement) for kind in kinds), np.int8
        ),
        memory_mb=np.where(table.memory_mb > 0.0, table.memory_mb, memory_mb),
        memory_volume_mb=by_job(kind.memory_volume_mb or 0.0 for kind in kinds),
        max_energy_j=by_job(kind.max_energy_j or math.inf for kind in kinds),
    )


def _second_line_of(job_id: int, path: Path, parse: Callable[[str], LogJob], comment: str) -> int:
    jobs = ((number, parse(line)) for number, line in _lines(path, comment))
    there = (number for number, job in jobs if job.job_id == job_id and not _unusable(job))
    return list(itertools.islice(there, 2))[1]


def _lines(path: Path, comment: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are jobs, with their numbers."""
    number = 0
    try:
        with open_log(path) as file:
            # Headers hold names in whatever encoding; Latin-1 reads every byte.
            for number, raw in enumerate(file, start=1):
                line = raw.decode("latin-1").strip()
                if line and not line.startswith(comment):
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
