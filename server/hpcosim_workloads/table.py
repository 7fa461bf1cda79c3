"""`JobTable`: the jobs of a workload, one NumPy array per column, in submission order.

`AppliedRules` counts the jobs that a reader or a shaping function dropped or changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from msgspec import structs
from numpy.typing import ArrayLike, NDArray

from hpcosim_protocol import JobRequest, Placement

UNPLACED = -1
"""Row of an entry that belongs to the whole workload: every window keeps it."""

DROPS: Mapping[str, str] = MappingProxyType(
    {
        "run_time_unknown_or_zero": "the run time is 0 or unknown; to keep the jobs of run time 0, "
        "set workload.zero_run_time to keep",
        "cancelled_while_waiting": "the job was cancelled before it started; to keep such jobs, "
        "set workload.failed_jobs to complete and workload.zero_run_time to keep",
        "run_time_unknown": "the run time is unknown; remove the lines or add the run times",
        "cores_unknown": "requested and allocated processors are unknown; add one of them",
        "submit_time_unknown": "the submission time is unknown; add it",
        "corrupt_lines": "the line is not a job; to see the first error, set workload.lenient to "
        "false",
        "repeated_job_ids": "an earlier line has the job number; renumber the jobs",
    }
)
"""Rules that drop a job: what the rule found, and how to keep the job."""


PLACEMENTS: tuple[Placement, ...] = ("cores", "one_node", "whole_nodes")
BLOCK_ROWS = 4096
MAX_TIME_S = 1e15  # above, the resolution of float64 is coarser than 0.1 s
MAX_CORES = 2**31 - 1
NAMED = ("user", "group", "partition", "account", "qos")
"""Columns of names: the column has indices into a tuple of names."""

NO_NAMES: Mapping[str, tuple[str, ...]] = dict.fromkeys(NAMED, ("",))


def _no_rows() -> NDArray[np.int64]:
    return np.empty(0, np.int64)


def _no_times() -> NDArray[np.float64]:
    return np.empty(0, np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedRules:
    """The jobs that a rule dropped or changed, one entry per job and rule.

    Each entry has a place in the workload, so that a window of the workload counts its own jobs.

    Attributes:
        names: names of the rules, such as "cores_unknown".
        rule: int64[entries], index into `names`.
        row: int64[entries], row of the job table: of a changed job its own row, of a dropped job
            the row of the next job submitted later (the number of rows if there is none), or
            `UNPLACED`.
        submit_s: float64[entries], submission time of the job, s.
    """

    names: tuple[str, ...] = ()
    rule: NDArray[np.int64] = field(default_factory=_no_rows)
    row: NDArray[np.int64] = field(default_factory=_no_rows)
    submit_s: NDArray[np.float64] = field(default_factory=_no_times)

    def counts(self) -> dict[str, int]:
        """Return the number of entries of each rule that has any, by name in alphabetical order."""
        counts = np.bincount(self.rule, minlength=len(self.names)).tolist()
        by_name = sorted(zip(self.names, counts, strict=True))
        return {name: count for name, count in by_name if count}

    def drops(self) -> str:
        """Describe the dropped jobs: their number by rule, and how to keep them; "" for none."""
        counts = self.counts()
        return "; ".join(
            f"{counts[rule]} by rule {rule} ({meaning})"
            for rule, meaning in DROPS.items()
            if rule in counts
        )

    def plus(self, name: str, row: ArrayLike, submit_s: ArrayLike) -> Self:
        """Return these entries and those of one more rule."""
        rows, times_s = np.asarray(row, np.int64), np.asarray(submit_s, np.float64)
        if not rows.size:
            return self
        names = self.names if name in self.names else (*self.names, name)
        return replace(
            self,
            names=names,
            rule=np.append(self.rule, np.full(rows.size, names.index(name))),
            row=np.append(self.row, rows),
            submit_s=np.append(self.submit_s, times_s),
        )

    def unplaced(self) -> Self:
        """Return the entries without their places: every window counts all of them."""
        return replace(self, row=np.full_like(self.row, UNPLACED))

    def in_time(self, from_s: float, to_s: float) -> Self:
        """Return the entries of jobs submitted in [from_s, to_s), and the unplaced ones."""
        return self._kept((self.submit_s >= from_s) & (self.submit_s < to_s))

    def in_rows(self, first: int, last: int, jobs: int) -> Self:
        """Return the entries at rows [first, last), and the unplaced ones.

        The jobs dropped after the last of all rows belong to a window that reaches that row, so
        the counts of consecutive windows add up.
        """
        end = jobs + 1 if last >= jobs else last
        return self._kept((self.row >= first) & (self.row < end))

    def moved(self, rows: int, seconds: float) -> Self:
        """Return the entries `rows` rows and `seconds` seconds earlier."""
        row = np.where(self.row == UNPLACED, UNPLACED, self.row - rows)
        return replace(self, row=row, submit_s=self.submit_s - seconds)

    def _kept(self, chosen: NDArray[np.bool_]) -> Self:
        chosen = chosen | (self.row == UNPLACED)
        columns = {name: getattr(self, name)[chosen] for name in ("rule", "row", "submit_s")}
        return replace(self, **columns)


class JobSpec(NamedTuple):
    """One job of a workload. Only the simulator knows `run_s`, `ops` and `fails`.

    Attributes: as in `JobTable`, except that the columns of `NAMED` and `placement` are names, and
    `request` is the request itself; None: nothing beyond cores and time.
    """

    job_id: int
    submit_s: float
    run_s: float
    requested_s: float
    cores: int
    placement: Placement
    ops: float = 0.0
    memory_mb: float = 0.0
    memory_volume_mb: float = 0.0
    max_energy_j: float = math.inf
    profile: str = ""
    user: str = ""
    group: str = ""
    partition: str = ""
    deadline_s: float = math.inf
    account: str = ""
    qos: str = ""
    request: JobRequest | None = None
    fails: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTable:
    """Jobs in submission order, one attribute per column, all columns of the same length.

    Attributes:
        job_id: int64, unique.
        submit_s: float64, submission time, s; never decreases.
        run_s: float64, true run time, s; at the reference clock if the scenario has one. Of a job
            with `ops`: its run time at 10^9 operations per second.
        requested_s: float64, requested run time, s.
        cores: int64, requested cores.
        placement: int8, rule for the layout over nodes: an index into `PLACEMENTS`.
        ops: float64, operations of each task; 0: `run_s` states the run time.
        memory_mb: float64, requested memory per task, MB; 0: unknown.
        memory_volume_mb: float64, data that each task transfers to and from memory, MB.
        max_energy_j: float64, upper limit of the job's estimated energy, J; infinity: no limit.
        profile: int32, an index into `profiles`.
        user: int32, the user who submitted the job, an index into `names["user"]`.
        group: int32, the user's group, an index into `names["group"]`.
        partition: int32, the partitions that the job was submitted to, an index into
            `names["partition"]`; names of several partitions are separated by commas.
        deadline_s: float64, time by which the job should have ended, s, on the clock of `submit_s`;
            infinity: none.
        account: int32, the account that pays for the job, an index into `names["account"]`.
        qos: int32, the quality of service, an index into `names["qos"]`.
        request: int32, what the job requires beyond cores and time, an index into `requests`; -1:
            nothing.
        fails: bool, whether the job fails at its end.
        profiles: names of the job profiles; the first is "" for jobs without a profile.
        names: the names of each column of `NAMED`; the first is "" for unknown names.
        rules: the jobs of the source that reading and shaping dropped or changed.
    """

    job_id: NDArray[np.int64]
    submit_s: NDArray[np.float64]
    run_s: NDArray[np.float64]
    requested_s: NDArray[np.float64]
    cores: NDArray[np.int64]
    placement: NDArray[np.int8]
    ops: NDArray[np.float64]
    memory_mb: NDArray[np.float64]
    memory_volume_mb: NDArray[np.float64]
    max_energy_j: NDArray[np.float64]
    profile: NDArray[np.int32]
    user: NDArray[np.int32]
    group: NDArray[np.int32]
    partition: NDArray[np.int32]
    deadline_s: NDArray[np.float64]
    account: NDArray[np.int32]
    qos: NDArray[np.int32]
    request: NDArray[np.int32]
    fails: NDArray[np.bool_]
    profiles: tuple[str, ...] = ("",)
    names: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: NO_NAMES)
    requests: tuple[JobRequest, ...] = ()
    rules: AppliedRules = field(default_factory=AppliedRules)

    @property
    def skipped(self) -> dict[str, int]:
        """Number of jobs that were dropped or changed, by rule."""
        return self.rules.counts()

    def __len__(self) -> int:
        return len(self.job_id)

    def take(self, chosen: NDArray[Any] | slice) -> Self:
        """Return the table of the chosen rows: an index array, a mask or a slice.

        `skipped` keeps the counts of the whole table. See `shaping` for windows that count their
        own jobs.
        """
        columns = {name: getattr(self, name)[chosen] for name in COLUMNS}
        return replace(self, **columns, rules=self.rules.unplaced())

    def at(self, submit_s: NDArray[np.float64]) -> Self:
        """Return the table with other submission times, float64, s, never decreasing.

        Each deadline and each begin time moves with its job: the time from the submission stays
        the same.
        """
        later_s = submit_s - self.submit_s
        request, requests = _with_begins(self.request, self.requests, later_s)
        return replace(
            self,
            submit_s=submit_s,
            deadline_s=self.deadline_s + later_s,
            request=request,
            requests=requests,
        )

    def rows(self) -> Iterator[JobSpec]:
        """Yield the jobs as plain Python numbers, converted block by block to save memory."""
        for start in range(0, len(self), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            columns = {name: getattr(self, name)[part].tolist() for name in COLUMNS}
            columns["placement"] = [PLACEMENTS[code] for code in columns["placement"]]
            columns["profile"] = _decoded(columns["profile"], self.profiles)
            for name in NAMED:
                columns[name] = _decoded(columns[name], self.names[name])
            columns["request"] = _decoded(columns["request"], (*self.requests, None))
            # As `JobSpec._make`, without the call of a Python function for each job.
            yield from map(
                tuple.__new__,
                repeat(JobSpec),
                zip(*(columns[name] for name in JobSpec._fields), strict=False),
            )


# Type and default of each column.
COLUMNS: Mapping[str, tuple[type[np.generic], float]] = MappingProxyType(
    {
        "job_id": (np.int64, 0),
        "submit_s": (np.float64, 0.0),
        "run_s": (np.float64, 0.0),
        "requested_s": (np.float64, 0.0),
        "cores": (np.int64, 1),
        "placement": (np.int8, 0),
        "ops": (np.float64, 0.0),
        "memory_mb": (np.float64, 0.0),
        "memory_volume_mb": (np.float64, 0.0),
        "max_energy_j": (np.float64, math.inf),
        "profile": (np.int32, 0),
        "user": (np.int32, 0),
        "group": (np.int32, 0),
        "partition": (np.int32, 0),
        "deadline_s": (np.float64, math.inf),
        "account": (np.int32, 0),
        "qos": (np.int32, 0),
        "request": (np.int32, -1),
        "fails": (np.bool_, False),
    }
)


def job_table(
    *,
    profiles: tuple[str, ...] = ("",),
    names: Mapping[str, tuple[str, ...]] = NO_NAMES,
    requests: tuple[JobRequest, ...] = (),
    rules: AppliedRules | None = None,
    **columns: Any,
) -> JobTable:
    """Return a table of these columns.

    Args:
        rules: the jobs that the reader dropped or changed; default: none.
        **columns: a sequence, or one value for all jobs; a missing column has its default from
            `COLUMNS`. `job_id` must be a sequence: its length is the number of jobs.
    """
    count = len(columns["job_id"])
    filled = {
        name: np.array(np.broadcast_to(columns.pop(name, default), count), dtype=kind)
        for name, (kind, default) in COLUMNS.items()
    }
    assert not columns, f"no such columns: {list(columns)}"
    return JobTable(
        **filled, profiles=profiles, names=names, requests=requests, rules=rules or AppliedRules()
    )


def _decoded(codes: list[int], values: Sequence[Any]) -> Iterable[Any]:
    """Return the values of codes; if there is only one value, endlessly."""
    return [values[code] for code in codes] if len(values) > 1 else repeat(values[0])


def _with_begins(
    request: NDArray[np.int32], requests: tuple[JobRequest, ...], later_s: NDArray[np.float64]
) -> tuple[NDArray[np.int32], tuple[JobRequest, ...]]:
    """Return the requests of jobs that are submitted later, with begin times that are later too."""
    begins = [code for code, each in enumerate(requests) if each.begin_s is not None]
    if not begins:
        return request, requests
    changed, moved = request.copy(), [*requests]
    for row in np.flatnonzero(np.isin(request, begins) & (later_s != 0.0)).tolist():
        own = requests[request[row]]
        assert own.begin_s is not None
        changed[row] = len(moved)
        moved.append(structs.replace(own, begin_s=own.begin_s + float(later_s[row])))
    return changed, tuple(moved)


def coded(names: Iterable[str]) -> tuple[list[int], tuple[str, ...]]:
    """Return the codes of a column of names and its names, of which the first is ""."""
    known = {"": 0}
    codes = [known.setdefault(name, len(known)) for name in names]
    return codes, tuple(known)
