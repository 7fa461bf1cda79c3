"""The job logs of a scenario: read as they are, or as the source of a synthetic model."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from hpcosim_protocol.files import open_regular
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.workload import (
    SOURCES,
    Imitated,
    Sampled,
    Seasonal,
    Workload,
    swf_fields,
)
from hpcosim_sim.record.results import WorkloadSource
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.logs.catalogue import find_trace, known_trace
from hpcosim_workloads.logs.cqsim import read_cqsim
from hpcosim_workloads.logs.log_file import MOST_BYTES, log_start_s
from hpcosim_workloads.logs.requirements import NodesOf
from hpcosim_workloads.logs.swf import SwfFields, read_swf
from hpcosim_workloads.shaping import select
from hpcosim_workloads.synthetic.imitation import sampled, seasonal
from hpcosim_workloads.table import JobTable

MODEL = "$.workload.synthetic"


def log_jobs(
    which: Workload | Imitated, workload: Workload, folder: Path, nodes_of: NodesOf
) -> JobTable:
    """Return the jobs of a log.

    Args:
        which: the section that names the log, by `trace` or `swf`.
        workload: the section with the reader's settings.
        folder: the folder of the scenario's file.
        nodes_of: returns the nodes of a host list.

    Raises:
        ScenarioError: a setting does not apply to the log's format.
        WorkloadError: the log cannot be read, or no job of it is left.
    """
    path, fields = log_path(which, folder), swf_fields(workload)
    reading: Any = {
        "placement": workload.placement,
        "lenient": workload.lenient,
        "zero_run_time": workload.zero_run_time,
    }
    if not _is_cqsim(which):
        profiles = workload.profiles
        table = read_swf(path, profiles=profiles, fields=fields, nodes_of=nodes_of, **reading)
    else:
        _check_no_swf_fields(fields, which)
        table = read_cqsim(path, **reading)
    check_jobs_left(table, path)
    return table


def _check_no_swf_fields(fields: SwfFields, which: Workload | Imitated) -> None:
    for name, value, default in zip(fields._fields, fields, SwfFields(), strict=True):
        if value != default:
            what = f"applies to SWF logs; {which.trace} is in CQSim's format; remove the setting"
            raise ScenarioError(what, field=f"$.workload.{name}")


def check_jobs_left(table: JobTable, path: Path) -> None:
    """Check that a file has jobs, and that the reader kept one of them.

    Raises:
        WorkloadError: the file has no jobs, or every job was dropped; then the error names the
            rules and how to keep the jobs.
    """
    if len(table):
        return
    if not table.skipped:
        raise WorkloadError("the file has no jobs; expected at least one line with a job", path)
    dropped = sum(table.skipped.values())
    raise WorkloadError(f"all {dropped} jobs were dropped: {table.rules.drops()}", path)


def imitated_jobs(
    model: Sampled | Seasonal,
    workload: Workload,
    folder: Path,
    nodes_of: NodesOf,
    rng: np.random.Generator,
    most: int,
) -> JobTable:
    """Draw jobs from a log.

    Args:
        model: the model, with the name of the log.
        workload: the section with the reader's settings.
        folder: the folder of the scenario's file.
        nodes_of: returns the nodes of a host list.
        rng: the only source of random numbers.
        most: maximum number of jobs to draw.

    Raises:
        ScenarioError: the trace is unknown, the log has too few jobs for the model, or the model
            draws too many. It has the field, not file and line.
        WorkloadError: the log cannot be read.
    """
    if model.trace is not None:
        _check_trace(model.trace)
    if workload.preceding_jobs == "wait":
        what = "a model draws jobs without their preceding jobs; remove the setting"
        raise ScenarioError(what, field="$.workload.preceding_jobs")
    log = log_jobs(model, workload, folder, nodes_of)
    if model.of_jobs is not None:  # keeps submission times, which give weekday and hour
        log = select(log, *model.of_jobs)
    try:
        if isinstance(model, Sampled):
            return sampled(rng, log, jobs=model.jobs)
        start_s = _start_s(model, folder)
        return seasonal(
            rng, log, days=model.days, start_s=start_s, pairs=model.pairs, max_jobs=most
        )
    except WorkloadError as error:
        raise ScenarioError(error.what, field=MODEL) from None


def _check_trace(name: str) -> None:
    try:
        known_trace(name)
    except WorkloadError as error:
        raise ScenarioError(error.what, field=f"{MODEL}.trace") from None


def _start_s(model: Imitated, folder: Path) -> float:
    """Return the start of a log, s after Monday 00:00; 0 if its header has no start time."""
    return 0.0 if _is_cqsim(model) else log_start_s(log_path(model, folder)) or 0.0


def _is_cqsim(which: Workload | Imitated) -> bool:
    return which.trace is not None and known_trace(which.trace).format == "cqsim"


def log_path(which: Workload | Imitated, folder: Path) -> Path:
    """Return the path of the log that a section names.

    Raises:
        WorkloadError: the trace is unknown or not downloaded.
    """
    return folder / str(which.swf) if which.trace is None else find_trace(which.trace)


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
