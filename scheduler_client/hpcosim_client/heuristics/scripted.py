"""A given schedule, replayed: each job at its time on its nodes."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcosim_client.alarm import PolicyAlarm
from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Job, Place
from hpcosim_client.view import Policy, View

COLUMNS = ("job_id", "start_s", "nodes", "tasks")
LATEST_S = 1e15


class Start(NamedTuple):
    """When and where a job starts.

    Attributes:
        order: jobs that start at one instant do so in this order.
        at_s: simulated second; infinity: never, the job is rejected.
        nodes: node numbers, each once.
        tasks: how many of the job's tasks on each; empty: the nodes are filled in their order.
        where: the file and line that says so.
    """

    order: int
    at_s: float
    nodes: list[int]
    tasks: list[int]
    where: str


def read_schedule(path: Path) -> dict[int, Start]:
    """Return the start of each job in a file such as `schedule.csv` of a results folder.

    Its columns are `job_id`, `start_s`, `nodes` and, where it matters, `tasks`, both lists parted
    by spaces. Jobs that start at one instant do so in the order of their lines. A job whose
    `start_s` is empty is rejected. Columns of other names are passed over.

    Raises:
        PolicyError: the file can't be read, or is no schedule; names the line.
    """
    schedule: dict[int, Start] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            missing = [name for name in COLUMNS[:3] if name not in (rows.fieldnames or ())]
            if missing:
                raise PolicyError(f"{path}:1: there is no column {missing[0]}; {','.join(COLUMNS)}")
            for order, row in enumerate(rows):
                where = f"{path}:{rows.line_num}"
                job_id, start = _start(row, order, where)
                if job_id in schedule:
                    raise PolicyError(f"{where}: job {job_id} is there twice")
                schedule[job_id] = start
    except OSError as error:
        raise PolicyError(f"the schedule {path} can't be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise PolicyError(f"the schedule {path} is not a CSV file: {error}") from None
    return schedule


def scripted(schedule: Mapping[int, Start], name: str = "") -> Policy:
    """Return the policy that starts each job at its time, or as soon after as its nodes are free.

    Jobs do not wait for each other. One that the schedule does not know is an error.

    Args:
        schedule: the start of each job.
        name: what errors call it, such as its file.
    """
    to_come: list[tuple[float, int, Job, Start]] = []
    due: dict[int, tuple[Job, Start]] = {}
    alarm = PolicyAlarm()

    def decide(view: View) -> None:
        for job in view.arrived:
            if job.job_id not in schedule:
                raise PolicyError(f"the schedule {name} has no job {job.job_id}")
            start = schedule[job.job_id]
            if start.at_s == math.inf:
                view.reject(job)
            else:
                heappush(to_come, (start.at_s, start.order, job, start))
        while to_come and to_come[0][0] <= view.now_s:
            _, order, job, start = heappop(to_come)
            due[order] = (job, start)
        for order in sorted(due):
            job, start = due[order]
            if job.job_id not in view.queue or _begin(view, job, start):
                del due[order]
        if to_come:
            alarm.set(view, to_come[0][0])

    return decide


def _begin(view: View, job: Job, start: Start) -> bool:
    """Start a job where the schedule says, and return whether there was room."""
    last = len(view.nodes.capacity) - 1
    if max(start.nodes) > last:
        raise PolicyError(f"{start.where}: there is no node {max(start.nodes)}; the last is {last}")
    if not start.tasks:
        if view.nodes.capacity[start.nodes].sum() < job.cores:
            raise PolicyError(f"{start.where}: job {job.job_id} has {job.cores} tasks: too many")
        return view.start(job, start.nodes)
    if sum(start.tasks) != job.cores:
        raise PolicyError(f"{start.where}: job {job.job_id} has {job.cores} tasks")
    nodes, tasks = np.array(start.nodes), np.array(start.tasks)
    held = view.nodes.capacity[nodes] if job.placement == "whole_nodes" else tasks
    return view.start_at(job, Place(nodes, tasks, held, int(held.sum())))


def _start(row: Mapping[str, str | None], order: int, where: str) -> tuple[int, Start]:
    try:
        job_id = int(row["job_id"] or "")
        at_s = float(row["start_s"]) if row["start_s"] else math.inf
        nodes = [int(node) for node in (row["nodes"] or "").split()]
        tasks = [int(count) for count in (row.get("tasks") or "").split()]
    except ValueError as error:
        raise PolicyError(f"{where}: is no {','.join(COLUMNS)}: {error}") from None
    what = _fault(row, at_s, nodes, tasks)
    if what:
        raise PolicyError(f"{where}: job {job_id} {what}")
    return job_id, Start(order, at_s, nodes, tasks, where)


def _fault(row: Mapping[str, str | None], at_s: float, nodes: list[int], tasks: list[int]) -> str:
    """Return what is wrong with a start; empty: nothing."""
    if row["start_s"] is None or row["nodes"] is None:
        return "has too few fields"
    if not row["start_s"]:
        return ""
    if not 0.0 <= at_s <= LATEST_S:
        return f"starts at {at_s} s; it must be from 0 to {LATEST_S} s, or empty to reject it"
    if not nodes or min(nodes) < 0 or len(set(nodes)) < len(nodes):
        return "needs nodes, each once, numbered from 0"
    if tasks and (len(tasks) != len(nodes) or min(tasks) < 1):
        return "needs as many numbers of tasks as nodes, each 1 or more"
    return ""
