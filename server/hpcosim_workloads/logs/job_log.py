"""Reader of job logs with one job per line: drops unusable jobs and builds the job table."""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from hpcosim_protocol import Dependency, JobRequest, Placement
from hpcosim_workloads.errors import LineError, WorkloadError
from hpcosim_workloads.logs.job_lines import (
    LOG_FIELDS,
    NO_PROFILE,
    NO_PROFILES,
    JobProfile,
    log_field_message,
)
from hpcosim_workloads.logs.log_file import numbered_lines
from hpcosim_workloads.logs.requirements import NodesOf, memory_per_core_mb, request_of
from hpcosim_workloads.table import (
    MAX_CORES,
    MAX_TIME_S,
    NAMED,
    PLACEMENTS,
    AppliedRules,
    JobTable,
    job_table,
)


def with_profiles(
    table: JobTable,
    kinds: Sequence[JobProfile],
    placement: Placement,
    path: Path,
    nodes_of: NodesOf | None = None,
) -> JobTable:
    """Return a table in which profiles and `placement` supply what the log lacks.

    Args:
        kinds: profile of each entry of `table.profiles`.
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


ZeroRunTime = Literal["drop", "keep"]
"""Whether a reader drops or keeps the jobs whose run time is 0."""

SUBMITTERS = ("user", "group", "partition")

ADVICE = "--lenient (workload.lenient: true) skips such lines and counts them"


class LogJob(NamedTuple):
    """A job as one line of a log states it.

    Attributes:
        submit_s: submission time, s; below 0: unknown.
        run_s: run time, s; below 0: unknown.
        requested_s: requested run time, s; 0 or less: unknown.
        cores: number of cores; 0 or less: unknown.
        memory_mb: memory per task, MB; 0: unknown.
        profile: name of the job's profile; "": none.
        user: number of the user; below 0: unknown.
        group: number of the user's group; below 0: unknown.
        partition: number of the partition; below 0: unknown.
        fails: whether the job fails at its end.
        cancelled: whether the job was cancelled while it waited.
        preceding_id: number of the job that must end before this one starts; below 0: none.
        think_s: time from the end of that job, s.
    """

    job_id: int
    submit_s: float
    run_s: float
    requested_s: float
    cores: int
    memory_mb: float = 0.0
    profile: str = ""
    user: int = -1
    group: int = -1
    partition: int = -1
    fails: bool = False
    cancelled: bool = False
    preceding_id: int = -1
    think_s: float = 0.0


def read_log(
    path: Path,
    parse: Callable[[str], LogJob],
    *,
    comment: str = ";",
    placement: Placement = "cores",
    lenient: bool = False,
    profiles: Mapping[str, JobProfile] = NO_PROFILES,
    zero_run_time: ZeroRunTime = "drop",
    nodes_of: NodesOf | None = None,
) -> JobTable:
    """Return the jobs of a log with one job per line.

    The rules, the other arguments and the errors are those of `read_swf`.

    Args:
        parse: parses a line; raises ValueError if the line is corrupt.
    """
    reading = _Reading(path, lenient, zero_run_time)
    reading.read(parse, comment)
    table = reading.table()
    kinds = [profiles.get(name, NO_PROFILE) for name in table.profiles]
    return with_profiles(table, kinds, placement, path, nodes_of)


def checked(job: LogJob) -> LogJob:
    """Return a job whose numbers fit the columns of a table."""
    times_s = (job.submit_s, job.run_s, job.requested_s)
    for name, time_s in zip(("submission", "run", "requested"), times_s, strict=True):
        if not abs(time_s) <= MAX_TIME_S:
            expected = f"expected a number up to {MAX_TIME_S:g} s"
            raise ValueError(f"{name} time: {expected}, got {time_s:g}")
    if not 0 <= job.job_id < 2**63:
        raise ValueError(f"job number: expected a number from 0 to 2**63 - 1, got {job.job_id}")
    if job.cores > MAX_CORES:
        raise ValueError(f"cores: expected at most {MAX_CORES}, got {job.cores}")
    for name in SUBMITTERS:
        if (number := getattr(job, name)) >= 2**63:
            raise ValueError(f"{name} number: expected a number up to 2**63 - 1, got {number}")
    return job


class _Reading:
    """The jobs of a log in the order of the file, and the rules applied to its lines."""

    def __init__(self, path: Path, lenient: bool, zero_run_time: ZeroRunTime) -> None:
        self._path = path
        self._lenient = lenient
        self._zero_run_time = zero_run_time
        self._lines = array("q")  # number of each job's line
        self._codes = {"": 0}  # number of each profile
        self._names = {name: {"": 0} for name in NAMED}
        self._columns: dict[str, array[Any]] = {
            name: array("q") for name in ("job_id", "cores", "profile", *SUBMITTERS)
        } | {name: array("d") for name in ("submit_s", "run_s", "requested_s", "memory_mb")}
        self._columns |= {"request": array("l"), "fails": array("b")}
        self._requests: list[JobRequest] = []
        self._dropped_s: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
        self._changed: defaultdict[str, array[int]] = defaultdict(lambda: array("q"))

    def read(self, parse: Callable[[str], LogJob], comment: str) -> None:
        """Read every line of the file."""
        line_s, latest_s = 0.0, -math.inf
        for number, raw in numbered_lines(self._path, comment):
            line = raw.decode("latin-1").strip()  # headers are in various encodings
            if not line or line.startswith(comment):
                continue
            try:
                job = parse(line)
            except ValueError as error:
                if not self._lenient:
                    raise WorkloadError(f"{error}; {ADVICE}", self._path, number) from None
                self._dropped_s["corrupt_lines"].append(line_s)
                continue
            if job.submit_s >= 0:
                line_s = job.submit_s
            if rule := _drop_rule(job, self._zero_run_time):
                # A job without submission time belongs to the place of its line.
                self._dropped_s[rule].append(line_s)
                continue
            if job.submit_s < latest_s:
                self._changed["out_of_order"].append(len(self._lines))
            latest_s = max(latest_s, job.submit_s)
            self._add(number, job)

    def _add(self, number: int, job: LogJob) -> None:
        if job.requested_s <= 0:
            self._changed["requested_time_unknown"].append(len(self._lines))
        self._lines.append(number)
        columns = self._columns
        columns["job_id"].append(job.job_id)
        columns["submit_s"].append(job.submit_s)
        columns["run_s"].append(job.run_s)
        columns["requested_s"].append(job.requested_s if job.requested_s > 0 else job.run_s)
        columns["cores"].append(job.cores)
        columns["memory_mb"].append(job.memory_mb)
        columns["profile"].append(self._codes.setdefault(job.profile, len(self._codes)))
        columns["fails"].append(job.fails)
        columns["request"].append(-1 if job.preceding_id < 0 else len(self._requests))
        if job.preceding_id >= 0:
            dependency = Dependency("afterany", (job.preceding_id,), job.think_s)
            self._requests.append(JobRequest(dependencies=(dependency,)))
        for name in SUBMITTERS:
            number, known = getattr(job, name), self._names[name]
            text = "" if number < 0 else str(number)
            columns[name].append(known.setdefault(text, len(known)))

    def table(self) -> JobTable:
        """Return the jobs in order of submission, each number once."""
        columns: dict[str, Any] = dict(self._columns)
        names = {name: tuple(known) for name, known in self._names.items()}
        table = job_table(
            profiles=tuple(self._codes), names=names, requests=tuple(self._requests), **columns
        )
        kept = self._first_of_each_number(table)
        order = kept[np.argsort(table.submit_s[kept], kind="stable")]
        row_of = np.full(len(table), -1)
        row_of[order] = np.arange(len(order))
        table = table.take(order)
        return replace(table, rules=self._rules(table, row_of))

    def _first_of_each_number(self, table: JobTable) -> NDArray[np.intp]:
        """Return the rows of the jobs whose number no earlier line has, ascending."""
        firsts = np.unique(table.job_id, return_index=True)[1]
        repeated = np.delete(np.arange(len(table)), firsts)
        if repeated.size and not self._lenient:
            row = int(repeated[0])
            what = f"a second job has the number {table.job_id[row]}; {ADVICE}"
            raise WorkloadError(what, self._path, self._lines[row])
        if repeated.size:
            self._dropped_s["repeated_job_ids"].extend(table.submit_s[repeated].tolist())
        return np.sort(firsts)

    def _rules(self, table: JobTable, row_of: NDArray[np.int64]) -> AppliedRules:
        """Return the applied rules."""
        rules = AppliedRules()
        for name, places in self._changed.items():
            rows = row_of[np.array(places)]
            rows = rows[rows >= 0]
            rules = rules.plus(name, rows, table.submit_s[rows])
        for name, times_s in self._dropped_s.items():
            rows = np.searchsorted(table.submit_s, times_s, side="right")
            rules = rules.plus(name, rows, times_s)
        return rules


def _drop_rule(job: LogJob, zero_run_time: ZeroRunTime) -> str:
    """Return the name of the rule that drops a job, "" if none does."""
    if job.cancelled:
        return "cancelled_while_waiting"
    if job.run_s < 0 and zero_run_time == "keep":
        return "run_time_unknown"
    if job.run_s <= 0 and zero_run_time == "drop":
        return "run_time_unknown_or_zero"
    if job.cores <= 0:
        return "cores_unknown"
    return "submit_time_unknown" if job.submit_s < 0 else ""
