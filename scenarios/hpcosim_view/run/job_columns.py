"""The columns of a frame that `jobs.csv`, `schedule.csv` and `explanations.csv` have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_sim.record.recording import STATES
from hpcosim_view.run import csv_columns as read
from hpcosim_view.run.lanes import Starts
from hpcosim_workloads.table import PLACEMENTS

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

WHOLE_NODES = PLACEMENTS.index("whole_nodes")
NOT_STARTED = np.array([state in ("waiting", "rejected") for state in STATES])
STARTED = np.array([state in ("running", "completed", "timeout") for state in STATES])
OVER = np.array([state not in ("waiting", "running") for state in STATES])


class Names(NamedTuple):
    """The names that columns of a frame index."""

    users: read.Names
    groups: read.Names
    partitions: read.Names
    reasons: read.Names

    def lists(self) -> dict[str, list[str]]:
        """Return the names by key of `about`."""
        return {key: names.since(0) for key, names in zip(self._fields, self, strict=True)}


def new_names() -> Names:
    """Return empty lists of names."""
    return Names(read.Names(), read.Names(), read.Names(), read.Names())


class JobRows:
    """The rows of jobs by job id."""

    def __init__(self, path: Path, job_id: Ints) -> None:
        self._order = np.argsort(job_id, kind="stable")
        self._sorted = job_id[self._order]
        twice = np.flatnonzero(np.diff(self._sorted) == 0)
        if len(twice):
            row = int(self._order[twice[0] + 1])
            raise read.located(path, row, f"job {job_id[row]} is there a second time")

    def of(self, path: Path, job_id: Ints) -> Ints:
        """Return the rows of jobs.

        Args:
            path: the file that names the jobs, one in each row.
            job_id: job ids, int64[rows].

        Raises:
            ReadResultsError: `jobs.csv` does not have a job.
        """
        at = np.minimum(np.searchsorted(self._sorted, job_id), max(len(self._sorted) - 1, 0))
        unknown = self._sorted[at] != job_id if len(self._sorted) else np.ones(len(job_id), bool)
        if unknown.any():
            row = int(np.flatnonzero(unknown)[0])
            what = f"jobs.csv has no job {job_id[row]}; {MIXED}"
            raise read.located(path, row, what)
        return self._order[at]


MIXED = "the files are of different runs, or one is cut off"


def read_jobs(path: Path, names: Names) -> dict[str, Any]:
    """Return the columns of `jobs.csv` by their names in the file.

    Raises:
        ReadResultsError: the file is missing or damaged.
    """
    required: dict[str, read.Convert] = {
        "job_id": read.integers,
        "submit_s": read.times_s,
        "start_s": read.optional_times_s,
        "end_s": read.optional_times_s,
        "state": read.one_of(STATES),
        "cores": read.counts,
        "energy_j": read.amounts,
    }
    optional: dict[str, read.Convert] = {
        "requested_s": read.durations_s,
        "placement": read.one_of(PLACEMENTS),
        "user": names.users,
        "group": names.groups,
        "partition": names.partitions,
    }
    jobs = joined(read.read_columns(path, required, optional), [*required])
    count = len(jobs["job_id"])
    missing = {"requested_s": np.nan, "placement": 0, "user": -1, "group": -1, "partition": -1}
    jobs = {name: np.full(count, value) for name, value in missing.items()} | jobs
    _check_states(path, jobs)
    return jobs


def joined(blocks: Iterator[dict[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """Return the columns of all blocks; without blocks, empty columns of these names."""
    parts: dict[str, list[Any]] = {}
    for block in blocks:
        for name, values in block.items():
            parts.setdefault(name, []).append(values)
    empty: dict[str, Any] = {name: np.zeros(0, np.int64) for name in names}
    return empty | {name: np.concatenate(values) for name, values in parts.items()}


def _check_states(path: Path, jobs: Mapping[str, Any]) -> None:
    """Check that each job has the times that belong to its state."""
    submit_s, start_s, end_s, state = (
        jobs[name] for name in ("submit_s", "start_s", "end_s", "state")
    )
    started, ended = ~np.isnan(start_s), ~np.isnan(end_s)
    wrong = (started & NOT_STARTED[state]) | (~started & STARTED[state]) | (ended != OVER[state])
    first_s = np.where(started, start_s, submit_s)
    wrong |= (first_s < submit_s) | (ended & (end_s < first_s))
    wrong[1:] |= submit_s[1:] < submit_s[:-1]
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        what = (
            f"job {jobs['job_id'][row]} has state {STATES[state[row]]}, submission "
            f"{submit_s[row]} s, start {start_s[row]} s and end {end_s[row]} s; expected rows in "
            "order of submission with times that belong to the state"
        )
        raise read.located(path, row, what)


def read_allocations(path: Path, columns: Mapping[str, read.Convert]) -> dict[str, Any]:
    """Return the columns of a file that has `nodes` and `tasks` as lists.

    Returns:
        The columns by name; `nodes` and `tasks` have the number of elements of each row, `node` and
        `count` all elements.

    Raises:
        ReadResultsError: the file is missing or damaged.
    """
    wanted = {**columns, "nodes": read.lists, "tasks": read.lists}
    blocks = []
    for block in read.read_columns(path, wanted):
        (lengths, nodes), (counts, tasks) = block["nodes"], block["tasks"]
        block |= {"nodes": lengths, "tasks": counts, "node": nodes, "count": tasks}
        blocks.append(block)
    # Columns of rows and columns of elements differ in length, so each is joined on its own.
    return joined(iter(blocks), [*wanted, "node", "count"])


def starts_of(
    whole: Mapping[str, Any], jobs: Mapping[str, Any], job: Ints, started: NDArray[np.bool_]
) -> Starts:
    """Return the starts in a file.

    Args:
        whole: its columns, see `read_allocations`.
        jobs: the columns of `jobs.csv`.
        job: rows of the jobs, int64[rows].
        started: whether a row is a start, bool[rows]; the others have no nodes.
    """
    first = np.concatenate([[0], np.cumsum(whole["nodes"][started])])
    job, start_s = job[started], whole["start_s"][started]
    all_cores = jobs["placement"][job] == WHOLE_NODES
    period = np.arange(len(job))
    return Starts(period, job, start_s, all_cores, first, whole["node"], whole["count"])


def read_starts(path: Path, rows: JobRows, jobs: Mapping[str, Any]) -> Starts:
    """Return the starts in `schedule.csv`.

    Raises:
        ReadResultsError: the file is missing or damaged, or contradicts `jobs.csv`.
    """
    columns: dict[str, read.Convert] = {
        "job_id": read.integers,
        "start_s": read.optional_times_s,
    }
    whole = read_allocations(path, columns)
    job, started = rows.of(path, whole["job_id"]), ~np.isnan(whole["start_s"])
    wrong = started & ((whole["start_s"] != jobs["start_s"][job]) | (whole["nodes"] == 0))
    wrong |= (~started & ~np.isnan(jobs["start_s"][job])) | (whole["nodes"] != whole["tasks"])
    wrong[1:] |= whole["start_s"][1:] < whole["start_s"][:-1]
    wrong |= _is_repeated(job)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        what = (
            f"job {whole['job_id'][row]}: expected one row for each job, in order of starts, with "
            f"its start in jobs.csv, its nodes and as many numbers of tasks; {MIXED}"
        )
        raise read.located(path, row, what)
    if started.sum() != np.count_nonzero(~np.isnan(jobs["start_s"])):
        there = np.zeros(len(jobs["start_s"]), bool)
        there[job] = True
        row = int(np.flatnonzero(~there & ~np.isnan(jobs["start_s"]))[0])
        what = f"job {jobs['job_id'][row]} started, but schedule.csv does not have it; {MIXED}"
        raise read.located(path.with_name("jobs.csv"), row, what)
    return starts_of(whole, jobs, job, started)


def _is_repeated(job: Ints) -> NDArray[np.bool_]:
    """Return whether a job is there before, bool[rows]."""
    repeated = np.ones(len(job), bool)
    repeated[np.unique(job, return_index=True)[1]] = False
    return repeated


def ends_of(jobs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of `end`: jobs that are over, in order of their ends and rows."""
    over = np.flatnonzero(~np.isnan(jobs["end_s"]))
    over = over[np.argsort(jobs["end_s"][over], kind="stable")]
    return {
        "end.job": over,
        "end.time_s": jobs["end_s"][over],
        "end.state": jobs["state"][over],
        "end.energy_j": jobs["energy_j"][over],
    }


def read_explanations(path: Path, rows: JobRows, names: Names) -> dict[str, Any]:
    """Return the columns of `explain`; empty: there is no `explanations.csv`.

    Raises:
        ReadResultsError: the file is damaged, or has a job that `jobs.csv` lacks.
    """
    if not path.exists():
        return {}
    columns: dict[str, read.Convert] = {
        "job_id": read.integers,
        "time_s": read.times_s,
        "reason": names.reasons,
        "expected_start_s": read.optional_times_s,
    }
    found = joined(read.read_columns(path, columns), [*columns])
    wrong = found["reason"] < 0
    wrong[1:] |= found["time_s"][1:] < found["time_s"][:-1]
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise read.located(path, row, "expected rows in order of time_s, each with a reason")
    return {
        "explain.job": rows.of(path, found["job_id"]),
        "explain.time_s": found["time_s"],
        "explain.reason": found["reason"],
        "explain.expected_start_s": found["expected_start_s"],
    }
