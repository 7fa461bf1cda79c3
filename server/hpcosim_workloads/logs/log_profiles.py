"""Profiles of the jobs of a log: they supply what the log does not state."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from hpcosim_protocol import JobRequest, Placement
from hpcosim_workloads.errors import LineError, WorkloadError
from hpcosim_workloads.logs.job_line import (
    LOG_FIELDS,
    NO_PROFILE,
    JobProfile,
    log_field_message,
)
from hpcosim_workloads.logs.requirements import NodesOf, memory_per_core_mb, request_of
from hpcosim_workloads.table import PLACEMENTS, JobTable


def with_profiles(
    table: JobTable,
    kinds: Sequence[JobProfile],
    placement: Placement,
    path: Path,
    nodes_of: NodesOf | None = None,
) -> JobTable:
    """Return a table in which profiles and `placement` supply what the log lacks.

    Args:
        table: the jobs.
        kinds: profile of each entry of `table.profiles`.
        placement: placement of jobs whose profile states none.
        path: the log, for errors.
        nodes_of: returns the nodes of a host list; None: nodes have no names.

    Raises:
        WorkloadError: a profile states what the log states, or does not fit a job of the log.
    """
    for name, kind in zip(table.profiles, kinds, strict=True):
        for field in LOG_FIELDS:
            if getattr(kind, field) is not None:
                what = f"a job of this log has profile {name!r}, but {log_field_message(field)}"
                raise WorkloadError(what, path)

    def by_job(values: Iterable[float], kind: type[np.generic] = np.float64) -> NDArray[Any]:
        return np.array(list(values), dtype=kind)[table.profile]

    table = replace(
        table,
        placement=by_job(
            (PLACEMENTS.index(kind.placement or placement) for kind in kinds), np.int8
        ),
        memory_volume_mb=by_job(kind.memory_volume_mb or 0.0 for kind in kinds),
        max_energy_j=by_job(kind.max_energy_j or math.inf for kind in kinds),
    )
    for code, kind in enumerate(kinds):
        if kind is not NO_PROFILE:
            table = _with_requirements(table, code, kind, path, nodes_of)
    return table


def _with_requirements(
    table: JobTable, code: int, kind: JobProfile, path: Path, nodes_of: NodesOf | None
) -> JobTable:
    """Return a table in which the jobs of a profile have its memory and its request."""
    memory_mb, request, requests = table.memory_mb.copy(), table.request.copy(), [*table.requests]
    code_of: dict[tuple[int, int], int] = {}  # request by cores and by the request of the log
    for row in np.flatnonzero(table.profile == code).tolist():
        cores, own = int(table.cores[row]), int(request[row])
        try:
            if not memory_mb[row]:
                memory_mb[row] = memory_per_core_mb(NO_PROFILE, kind, cores)
            if (cores, own) not in code_of:
                required = request_of(NO_PROFILE, kind, cores, nodes_of=nodes_of)
                code_of[cores, own] = own
                if required is not None:
                    code_of[cores, own] = len(requests)
                    requests.append(_joined(required, requests[own] if own >= 0 else None))
        except LineError as error:
            name = table.profiles[code]
            what = f"profile {name!r} does not fit job {table.job_id[row]} of this log: "
            raise WorkloadError(f"{what}{error.field}: {error.what}", path) from None
        request[row] = code_of[cores, own]
    return replace(table, memory_mb=memory_mb, request=request, requests=tuple(requests))


def _joined(required: JobRequest, own: JobRequest | None) -> JobRequest:
    """Return the request of a profile with the dependencies of the log."""
    if own is None:
        return required
    return structs.replace(required, dependencies=own.dependencies)
