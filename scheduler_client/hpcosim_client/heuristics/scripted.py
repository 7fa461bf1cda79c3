"""A given schedule, replayed: each job at its time on its nodes."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hpcosim_client.errors import PolicyError
from hpcosim_client.view import Policy, View

MOST_NODES = 1_000_000


class Start(NamedTuple):
    """When and where a job starts.

    Attributes:
        at_s: simulated second; infinity: never, the job is rejected.
        nodes: in this order, filled as far as the job needs them.
    """

    at_s: float
    nodes: list[int]


def read_schedule(path: Path) -> dict[int, Start]:
    """Return the start of each job in a file such as `jobs.csv` of a results folder.

    It has the columns `job_id`, `start_s` and `nodes` (`0 3-5`), others are passed over. A job
    with an empty `start_s` is rejected.

    Raises:
        PolicyError: the file can't be read, or is no schedule; names the line.
    """
    schedule: dict[int, Start] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            for row in rows:
                where = f"{path}:{rows.line_num}"
                job_id, start = _start(row, where)
                if job_id in schedule:
                    raise PolicyError(f"{where}: job {job_id} is there twice")
                schedule[job_id] = start
    except OSError as error:
        raise PolicyError(f"the schedule {path} can't be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise PolicyError(f"the schedule {path} is not a CSV file: {error}") from None
    return schedule


def scripted(schedule: dict[int, Start]) -> Policy:
    """Return the policy that starts each job at its time, or as soon after as its nodes are free.

    Jobs do not wait for each other. One that the schedule does not know is an error.
    """
    due: dict[int, Start] = {}

    def decide(view: View) -> None:
        for job in view.arrived:
            if job.job_id not in schedule:
                raise PolicyError(f"the schedule has no job {job.job_id}")
            due[job.job_id] = schedule[job.job_id]
        for job_id, (at_s, nodes) in list(due.items()):
            waiting = view.queue.get(job_id)
            if waiting is None:
                del due[job_id]
            elif at_s == math.inf:
                del due[job_id]
                view.reject(waiting)
            elif at_s > view.now_s:
                view.set_alarm(at_s, job_id)
            elif view.start(waiting, nodes):
                del due[job_id]

    return decide


def _start(row: dict[str, str], where: str) -> tuple[int, Start]:
    try:
        job_id = int(row["job_id"])
        at_s = float(row["start_s"]) if row["start_s"] else math.inf
        nodes = list(_numbers(row["nodes"] or ""))
    except KeyError as error:
        raise PolicyError(f"{where}: there is no column {error}; job_id,start_s,nodes") from None
    except (TypeError, ValueError) as error:
        raise PolicyError(f"{where}: is no job_id,start_s,nodes: {error}") from None
    if math.isnan(at_s) or (at_s < math.inf and not nodes):
        raise PolicyError(f"{where}: job {job_id} has no start, or no nodes to start on")
    return job_id, Start(at_s, nodes)


def _numbers(intervals: str) -> Iterator[int]:
    """Yield the numbers of a set of intervals: `0-3 7`."""
    for part in intervals.split():
        first, _, last = part.partition("-")
        if int(last or first) - int(first) >= MOST_NODES:
            raise ValueError(f"{part} is more than {MOST_NODES} nodes")
        yield from range(int(first), int(last or first) + 1)
