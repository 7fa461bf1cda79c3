"""Reader of job logs with one job per line: drops unusable jobs and builds the job table."""

from __future__ import annotations

import math
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
from hpcosim_workloads.logs.log_file import NumberedLines, line_blocks
from hpcosim_workloads.logs.requirements import NodesOf, memory_per_core_mb, request_of
from hpcosim_workloads.table import (
    COLUMNS,
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


CORRUPT = LogJob(0, math.nan, math.nan, math.nan, 0)
"""Stands for a line that is not a job."""

KINDS: Mapping[str, Any] = {
    **dict.fromkeys(LogJob._fields, np.int64),
    **dict.fromkeys(("submit_s", "run_s", "requested_s", "memory_mb", "think_s"), np.float64),
    **dict.fromkeys(("fails", "cancelled"), np.bool_),
    "profile": object,
}
"""Types of the fields of `LogJob` as columns."""

READ = (*(name for name in LogJob._fields if name in COLUMNS), "request")
"""Columns of the table that a log states."""

Ints = NDArray[np.int64]
JobColumns = dict[str, NDArray[Any]]
"""Jobs of consecutive lines: the fields of `LogJob` with the types of `KINDS`."""

Parse = Callable[[str], LogJob]
ParsePlain = Callable[[Sequence[bytes]], JobColumns | None]


def read_log(
    path: Path,
    parse: Parse,
    *,
    parse_plain: ParsePlain | None = None,
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
        parse_plain: parses many lines by column; returns None if one of them may be corrupt or is
            not a job, then `parse` parses each of them. None: `parse` parses all lines.
    """
    reading = _Reading(path, lenient, zero_run_time)
    reading.read(parse, comment, parse_plain)
    table = reading.table()
    kinds = [profiles.get(name, NO_PROFILE) for name in table.profiles]
    return with_profiles(table, kinds, placement, path, nodes_of)


def job_columns(count: int, **columns: NDArray[Any]) -> JobColumns:
    """Return the columns of jobs; those that are not given have the defaults of `LogJob`."""
    defaults = {
        name: np.full(count, default, KINDS[name])
        for name, default in LogJob._field_defaults.items()
    }
    return defaults | {name: column.astype(KINDS[name]) for name, column in columns.items()}


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
        self._blocks: defaultdict[str, list[NDArray[Any]]] = defaultdict(list)  # kept jobs
        self._count = 0  # of kept jobs
        self._line_s, self._latest_s = 0.0, -math.inf  # of the lines and of the kept jobs so far
        self._profiles = {"": 0}  # number of each profile
        self._requests: list[JobRequest] = []
        self._dropped_s: defaultdict[str, list[float]] = defaultdict(list)
        self._changed: defaultdict[str, list[int]] = defaultdict(list)

    def read(self, parse: Parse, comment: str, parse_plain: ParsePlain | None) -> None:
        """Read every line of the file."""
        ignored = (b"", comment.encode())
        for lines in line_blocks(self._path, comment):
            jobs = parse_plain([raw for _, raw in lines]) if lines and parse_plain else None
            if jobs is None:
                # The lines at the head of a log are comments.
                lines = [each for each in lines if each[1].lstrip()[:1] not in ignored]
                jobs = parse_plain([raw for _, raw in lines]) if lines and parse_plain else None
            if jobs is not None:
                self._add(np.array([number for number, _ in lines]), jobs)
            else:
                self._add(*self._parsed(lines, parse, comment))

    def _parsed(self, lines: NumberedLines, parse: Parse, comment: str) -> tuple[Ints, JobColumns]:
        """Parse lines one by one; return the numbers of those with jobs, and the jobs."""
        numbers: list[int] = []
        jobs: list[LogJob] = []
        for number, raw in lines:
            line = raw.decode("latin-1").strip()  # headers are in various encodings
            if not line or line.startswith(comment):
                continue
            try:
                job = parse(line)
            except ValueError as error:
                if not self._lenient:
                    raise WorkloadError(f"{error}; {ADVICE}", self._path, number) from None
                job = CORRUPT
            numbers.append(number)
            jobs.append(job)
        columns = zip(*jobs, strict=True) if jobs else ((),) * len(LogJob._fields)
        found: dict[str, Sequence[Any]] = dict(zip(LogJob._fields, columns, strict=True))
        for name in ("cores", *SUBMITTERS):  # numbers below 0 may be of any size
            found[name] = [max(number, -1) for number in found[name]]
        return np.array(numbers, np.int64), {
            name: np.array(found[name], kind) for name, kind in KINDS.items()
        }

    def _add(self, numbers: Ints, jobs: JobColumns) -> None:
        """Apply the rules to the jobs of consecutive lines, and keep the others.

        Args:
            numbers: numbers of the lines.
        """
        submit_s, run_s = jobs["submit_s"], jobs["run_s"]
        # A job without submission time belongs to the place of its line.
        known = np.append(0, np.where(submit_s >= 0, np.arange(1, len(submit_s) + 1), 0))
        line_s = np.append(self._line_s, submit_s)[np.maximum.accumulate(known)]
        self._line_s = float(line_s[-1])
        kept = np.ones(len(submit_s), np.bool_)
        keeps_zero = self._zero_run_time == "keep"
        for rule, found in (
            ("corrupt_lines", np.isnan(run_s)),
            ("cancelled_while_waiting", jobs["cancelled"]),
            ("run_time_unknown", (run_s < 0) & keeps_zero),
            ("run_time_unknown_or_zero", (run_s <= 0) & (not keeps_zero)),
            ("cores_unknown", jobs["cores"] <= 0),
            ("submit_time_unknown", submit_s < 0),
        ):
            if (kept & found).any():
                self._dropped_s[rule] += line_s[1:][kept & found].tolist()
                kept &= ~found
        own = {name: column[kept] for name, column in jobs.items()}
        latest_s = np.maximum.accumulate(np.append(self._latest_s, own["submit_s"]))
        self._latest_s = float(latest_s[-1])
        unknown = own["requested_s"] <= 0
        own["requested_s"] = np.where(unknown, own["run_s"], own["requested_s"])
        for rule, found in (
            ("out_of_order", own["submit_s"] < latest_s[:-1]),
            ("requested_time_unknown", unknown),
        ):
            self._changed[rule] += (np.flatnonzero(found) + self._count).tolist()
        names = own["profile"].tolist() if own["profile"].any() else ()
        own["profile"] = np.zeros(len(unknown), np.int64)
        if names:
            codes = [self._profiles.setdefault(name, len(self._profiles)) for name in names]
            own["profile"] = np.array(codes)
        after = np.flatnonzero(own["preceding_id"] >= 0)
        own["request"] = np.full(len(unknown), -1)
        own["request"][after] = np.arange(len(after)) + len(self._requests)
        for row in after.tolist():
            first, think_s = int(own["preceding_id"][row]), float(own["think_s"][row])
            dependency = Dependency("afterany", (first,), think_s)
            self._requests.append(JobRequest(dependencies=(dependency,)))
        own["line"] = numbers[kept]
        self._count += len(unknown)
        for name in (*READ, "line"):
            self._blocks[name].append(own[name])

    def table(self) -> JobTable:
        """Return the jobs in order of submission, each number once."""
        columns: dict[str, Any] = {
            name: np.concatenate(self._blocks.pop(name)) for name in (*READ, "line")
        }
        lines = columns.pop("line")
        names: dict[str, tuple[str, ...]] = dict.fromkeys(NAMED, ("",))
        for name in SUBMITTERS:
            columns[name], names[name] = _texts(columns[name])
        table = job_table(
            profiles=tuple(self._profiles), names=names, requests=tuple(self._requests), **columns
        )
        kept = self._first_of_each_number(table, lines)
        order = kept[np.argsort(table.submit_s[kept], kind="stable")]
        row_of = np.full(len(table), -1)
        row_of[order] = np.arange(len(order))
        table = table.take(order)
        return replace(table, rules=self._rules(table, row_of))

    def _first_of_each_number(self, table: JobTable, lines: Ints) -> NDArray[np.intp]:
        """Return the rows of the jobs whose number no earlier line has, ascending.

        Args:
            lines: number of the line of each job.
        """
        firsts = np.unique(table.job_id, return_index=True)[1]
        repeated = np.delete(np.arange(len(table)), firsts)
        if repeated.size and not self._lenient:
            row = int(repeated[0])
            what = f"a second job has the number {table.job_id[row]}; {ADVICE}"
            raise WorkloadError(what, self._path, int(lines[row]))
        if repeated.size:
            self._dropped_s["repeated_job_ids"].extend(table.submit_s[repeated].tolist())
        return np.sort(firsts)

    def _rules(self, table: JobTable, row_of: NDArray[np.int64]) -> AppliedRules:
        """Return the applied rules."""
        rules = AppliedRules()
        for name, places in self._changed.items():
            rows = row_of[np.array(places, np.int64)]
            rows = rows[rows >= 0]
            rules = rules.plus(name, rows, table.submit_s[rows])
        for name, times_s in self._dropped_s.items():
            rows = np.searchsorted(table.submit_s, times_s, side="right")
            rules = rules.plus(name, rows, times_s)
        return rules


def _texts(numbers: Ints) -> tuple[Ints, tuple[str, ...]]:
    """Return codes of numbers and the text of each code; "" for numbers below 0."""
    known = numbers >= 0
    different, first, which = np.unique(numbers[known], return_index=True, return_inverse=True)
    order = np.argsort(first)
    code = np.empty_like(order)
    code[order] = np.arange(1, len(order) + 1)
    codes = np.zeros(len(numbers), np.int64)
    codes[known] = code[which]
    return codes, ("", *map(str, different[order].tolist()))
