"""The origin of a scenario's jobs, with the checksum of its file."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from hpcosim_protocol.files import open_regular
from hpcosim_scenarios.model.logs import log_path
from hpcosim_scenarios.model.workload import SOURCES, Imitated, Workload
from hpcosim_sim.record.results import WorkloadSource
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.logs.log_file import MOST_BYTES


def source_of(
    workload: Workload, folder: Path, jobs_read: int, jobs_selected: int
) -> WorkloadSource:
    """Return the origin of the jobs.

    Args:
        workload: the workload section.
        folder: the folder of the scenario's file.
        jobs_read: number of jobs before the workload section selects from them.
        jobs_selected: number of jobs after that.

    Raises:
        WorkloadError: the file cannot be read.
    """
    name, path = _file_of(workload, folder)
    return WorkloadSource(
        kind=next(kind for kind in SOURCES if getattr(workload, kind) is not None),
        file=name,
        sha256=None if path is None else _known_sha256(path),
        jobs_read=jobs_read,
        jobs_selected=jobs_selected,
    )


def _file_of(workload: Workload, folder: Path) -> tuple[str | None, Path | None]:
    """Return the name of the file as the scenario writes it, and its path."""
    if workload.json is not None:
        return workload.json, folder / workload.json
    log = workload.synthetic if isinstance(workload.synthetic, Imitated) else workload
    name = log.trace or log.swf
    return name, None if name is None else log_path(log, folder)


def _known_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, which is read only if it has changed."""
    try:
        state = path.stat()
    except OSError:
        return sha256_of(path)  # reports the error
    return _sha256(path, state.st_size, state.st_mtime_ns, state.st_ino)


@lru_cache(maxsize=64)
def _sha256(path: Path, *_: int) -> str:
    return sha256_of(path)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, 64 hexadecimal digits.

    Raises:
        WorkloadError: the file cannot be read.
    """
    try:
        with open_regular(path, MOST_BYTES) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise WorkloadError(f"cannot be read: {error.strerror}", path) from None
