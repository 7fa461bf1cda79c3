"""Bookkeeping of the jobs that a reader or a shaping function dropped or changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
        """Return these entries and those of one more rule.

        Args:
            name: name of the rule.
            row: row of each entry.
            submit_s: submission time of each entry, s.
        """
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

        Args:
            first: first row of the window.
            last: row after the window.
            jobs: number of rows of the whole table.
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
