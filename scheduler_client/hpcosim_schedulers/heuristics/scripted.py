"""Replay of a schedule: each job starts at a given time on given nodes.

An invalid file is a `PolicyError`.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Allocation, Job
from hpcosim_client.view import Policy, PolicyAlarm, View
from hpcosim_protocol.files import open_table

COLUMNS = ("job_id", "start_s", "nodes", "tasks")
LATEST_S = 1e15


class Start(NamedTuple):
    """The start of a job.

    Attributes:
        order: order of the starts at one instant.
        at_s: simulated second; infinity: the job is rejected.
        tasks: tasks of the job on each node; empty: the job fills the nodes in their order.
        then: the next start of the job, after a requeue; None: there is none.
    """

    order: int
    at_s: float
    nodes: list[int]
    tasks: list[int]
    where: str
    then: Start | None = None


def read_schedule(path: Path) -> dict[int, Start]:
    """Read the first start of each job from a file such as `schedule.csv` of a results folder.

    The columns are `job_id`, `start_s`, `nodes` and optionally `tasks`; nodes and tasks are lists
    separated by spaces. Jobs of one instant start in the order of their lines. A job with an empty
    `start_s` is rejected. A job has a line for each run: more than one if it was requeued, in
    order of time. Other columns are ignored.
    """
    lines: dict[int, list[Start]] = {}
    rows = table_rows(path, "a schedule", COLUMNS[:3], ",".join(COLUMNS))
    for order, (where, row) in enumerate(rows):
        job_id, start = _start(row, order, where)
        runs = lines.setdefault(job_id, [])
        if runs and not runs[-1].at_s < start.at_s:
            raise PolicyError(
                f"{where}: job {job_id} has a line already; expected a later start_s, of "
                "the run after a requeue"
            )
        runs.append(start)
    return {job_id: _chained(runs) for job_id, runs in lines.items()}


def table_rows(
    path: Path, what: str, columns: Sequence[str], expected: str
) -> Iterator[tuple[str, Mapping[str, str | None]]]:
    """Yield place and fields of the rows of a CSV file that has at least some columns."""
    try:
        with open_table(path) as file:
            rows = csv.DictReader(file)
            for name in columns:
                if name not in (rows.fieldnames or ()):
                    raise PolicyError(f"{path}:1: column {name} is missing; expected {expected}")
            for row in rows:
                yield f"{path}:{rows.line_num}", row
    except OSError as error:
        of = what.removeprefix("a ")
        raise PolicyError(f"{path}: the {of} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise PolicyError(f"{path}: expected {what} in CSV format: {error}") from None


def _chained(runs: list[Start]) -> Start:
    """Return the first of the starts of a job, each with the next one."""
    start = runs[-1]
    for before in reversed(runs[:-1]):
        start = before._replace(then=start)
    return start


def scripted(schedule: Mapping[int, Start], name: str = "") -> Policy:
    """Return the policy that starts each job at its time, or as soon after as its nodes are free.

    Jobs do not wait for each other. A job that was requeued starts at its next start; without one,
    at once where it ran last. A job without a start is an error.

    Args:
        schedule: the first start of each job by number.
    """
    pending: list[tuple[float, int, Job, Start]] = []
    due: dict[int, tuple[Job, Start]] = {}
    planned: set[int] = set()  # orders of the starts that are pending or due
    next_start = dict(schedule)
    alarm = PolicyAlarm()

    def decide(view: View) -> None:
        for job in view.arrived:
            start = next_start.get(job.job_id)
            if start is None:
                raise PolicyError(f"the schedule {name} has no line for job {job.job_id}")
            if start.at_s == math.inf:
                view.reject(job)
            elif start.order not in planned:
                planned.add(start.order)
                heappush(pending, (start.at_s, start.order, job, start))
        while pending and pending[0][0] <= view.now_s:
            _, order, job, start = heappop(pending)
            due[order] = (job, start)
        for order in sorted(due):
            job, start = due[order]
            waits = job.job_id in view.queue
            if waits and not _begin(view, job, start):
                continue
            if waits:
                next_start[job.job_id] = start.then or start
            planned.discard(order)
            del due[order]
        if pending:
            alarm.set(view, pending[0][0])

    return decide


def _begin(view: View, job: Job, start: Start) -> bool:
    """Start a job on its nodes if they are free, and return whether it started."""
    last = len(view.nodes.capacity) - 1
    if max(start.nodes) > last:
        raise PolicyError(
            f"{start.where}: expected node numbers from 0 to {last}, got {max(start.nodes)}"
        )
    if not start.tasks:
        if view.nodes.capacity[start.nodes].sum() < job.cores:
            raise PolicyError(
                f"{start.where}: the nodes have too few cores for the {job.cores} tasks of job "
                f"{job.job_id}"
            )
        return view.start(job, start.nodes)
    if sum(start.tasks) != job.cores:
        raise PolicyError(
            f"{start.where}: expected {job.cores} tasks of job {job.job_id}, got {sum(start.tasks)}"
        )
    nodes, tasks = np.array(start.nodes), np.array(start.tasks)
    held = view.nodes.capacity[nodes] if job.placement == "whole_nodes" else tasks
    return view.start_at(job, Allocation(nodes, tasks, held, int(held.sum())))


def _start(row: Mapping[str, str | None], order: int, where: str) -> tuple[int, Start]:
    try:
        job_id = int(row["job_id"] or "")
        at_s = float(row["start_s"]) if row["start_s"] else math.inf
        nodes = [int(node) for node in (row["nodes"] or "").split()]
        tasks = [int(count) for count in (row.get("tasks") or "").split()]
    except ValueError as error:
        raise PolicyError(f"{where}: expected {','.join(COLUMNS)}: {error}") from None
    what = _fault(row, at_s, nodes, tasks)
    if what:
        raise PolicyError(f"{where}: job {job_id}: {what}")
    return job_id, Start(order, at_s, nodes, tasks, where)


def _fault(row: Mapping[str, str | None], at_s: float, nodes: list[int], tasks: list[int]) -> str:
    """Return the error of a start; empty: none."""
    if row["start_s"] is None or row["nodes"] is None:
        return "too few fields"
    if not row["start_s"]:
        return ""
    if not 0.0 <= at_s <= LATEST_S:
        return f"start_s is {at_s}, expected 0 to {LATEST_S}, or empty to reject the job"
    if not nodes or min(nodes) < 0 or len(set(nodes)) < len(nodes):
        return "expected node numbers >= 0, each once"
    if tasks and (len(tasks) != len(nodes) or min(tasks) < 1):
        return "expected a number of tasks >= 1 for each node"
    return ""
