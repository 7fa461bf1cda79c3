"""Replay of recorded runs: each job starts when and where it did in reality.

`hpcosim import` writes the runs. Unlike `scripted`, nodes have their names, a job may have several
runs (it was requeued), and the cores on each node are unknown.
An invalid file is a `PolicyError`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Ints, Job
from hpcosim_client.view import Policy, PolicyAlarm, View
from hpcosim_protocol.errors import HostListError
from hpcosim_protocol.hosts import NodeNames
from hpcosim_schedulers.heuristics.scripted import table_rows

COLUMNS = ("job_id", "submit_s", "start_s", "end_s", "nodes", "state")
LATEST_S = 1e15
BUSY, GONE = "Resources", "ReqNodeNotAvail"


class RecordedRun(NamedTuple):
    """A run of a job as it happened.

    Attributes:
        wait_s: time from the submission to the start, s.
        end_s: time from the submission to the end, s; infinity: unknown.
        nodes: host list; empty: unknown, the job may start anywhere.
    """

    wait_s: float
    end_s: float
    nodes: str
    where: str


def recorded_path(jobs: Path) -> Path:
    """Return the file of recorded runs that `hpcosim import` writes beside a file of jobs.

    Example:
        >>> recorded_path(Path("site/jobs.jsonl.gz")).as_posix()
        'site/jobs.recorded.csv'
    """
    return jobs.with_name(f"{jobs.name.split('.')[0]}.recorded.csv")


def read_recorded(path: Path) -> dict[int, list[RecordedRun]]:
    """Return the runs of each job, by its number, from a file that `hpcosim import` wrote."""
    found: dict[int, list[RecordedRun]] = {}
    expected = f"{','.join(COLUMNS)}, as `hpcosim import sacct` writes them"
    for where, row in table_rows(path, "recorded runs", COLUMNS[:5], expected):
        job_id, run = _run(row, where)
        found.setdefault(job_id, []).append(run)
    for runs in found.values():
        runs.sort()
    return found


def recorded(runs: Mapping[int, Sequence[RecordedRun]], name: str = "") -> Policy:
    """Return the policy that replays recorded runs.

    A job starts at its recorded time, or as soon after as its nodes are free: recorded times are
    whole seconds, and simulated jobs may end later than in reality. It is requeued at the end of
    each recorded run but the last. A job that does not fit on its nodes although nothing runs is
    rejected. A job without a run is an error.
    """
    return _Replay(runs, name)


class _Due(NamedTuple):
    """A run whose time has come.

    Recorded times are whole seconds. Of the runs of one second, the one that ended first starts
    first: it may have ended within that second, and another one have used its nodes.
    """

    at_s: float
    end_s: float
    order: int
    job: Job
    run: RecordedRun


class _Replay:
    """The policy of `recorded`, for one simulation.

    Its state: runs to come, by time; jobs whose time has come; number of runs of each job that
    began; the time at which each running job is requeued.
    """

    def __init__(self, runs: Mapping[int, Sequence[RecordedRun]], name: str) -> None:
        self._runs = runs
        self._name = name
        self._coming: list[tuple[float, int, int]] = []
        self._jobs: dict[int, Job] = {}
        self._due: dict[int, _Due] = {}
        self._begun: dict[int, int] = {}
        self._requeues: list[tuple[float, int, int]] = []
        self._alarm = PolicyAlarm()
        self._names: NodeNames | None = None

    def __call__(self, view: View) -> None:
        for job in view.queue.values():
            if job.job_id not in self._jobs or self._jobs[job.job_id] is not job:
                self._plan(job)
        self._requeue(view)
        while self._coming and self._coming[0][0] <= view.now_s:
            at_s, order, job_id = heappop(self._coming)
            job, run = self._jobs[job_id], self._runs[job_id][self._begun.get(job_id, 0)]
            self._due[job_id] = _Due(at_s, job.submit_s + run.end_s, order, job, run)
        for due in sorted(self._due.values(), key=lambda due: due[:3]):
            self._start(view, due)
        times = [each[0][0] for each in (self._coming, self._requeues) if each]
        self._alarm.set_or_cancel(view, min(times, default=math.inf))

    def _plan(self, job: Job) -> None:
        """Plan the next recorded run of a job that has entered the queue."""
        self._jobs[job.job_id] = job
        runs = self._runs.get(job.job_id)
        if runs is None:
            raise PolicyError(f"the recorded runs {self._name} have no line for job {job.job_id}")
        begun = self._begun.get(job.job_id, 0)
        if begun < len(runs):
            at_s = job.submit_s + runs[begun].wait_s
        else:  # it runs more often than in reality: at once, where it ran last
            self._begun[job.job_id], at_s = len(runs) - 1, -math.inf
        heappush(self._coming, (at_s, job.order, job.job_id))

    def _requeue(self, view: View) -> None:
        """Requeue the jobs whose recorded run has ended, and which ran again later."""
        while self._requeues and self._requeues[0][0] <= view.now_s:
            _, job_id, run = heappop(self._requeues)
            job = view.running.get(job_id)
            if job is not None and self._begun[job_id] == run:
                del self._jobs[job_id]
                view.requeue(job)

    def _start(self, view: View, due: _Due) -> None:
        """Start a job on its recorded nodes if they are free."""
        job_id = due.job.job_id
        job = view.queue.get(job_id)
        if job is None:  # it is over, or held
            del self._due[job_id]
            return
        nodes = self._nodes(view, due.run)
        if not _begin(view, job, nodes):
            gone = set(nodes.tolist()) & (view.nodes.failed | view.nodes.drained)
            if view.running or view.suspended or gone:
                view.explain(job, GONE if gone else BUSY)
                return
            what = f"{due.run.where}: the recorded nodes {due.run.nodes!r:.60} cannot hold the job"
            view.reject(job, reason=what[:200])
            del self._due[job_id]
            return
        del self._due[job_id]
        self._begun[job_id] = begun = self._begun.get(job_id, 0) + 1
        if begun < len(self._runs[job_id]) and due.run.end_s < math.inf:
            end_s = job.submit_s + due.run.end_s
            heappush(self._requeues, (max(end_s, view.now_s), job_id, begun))

    def _nodes(self, view: View, run: RecordedRun) -> Ints:
        """Return the node numbers of a run; none: they are unknown."""
        if self._names is None:
            self._names = NodeNames(view.platform)
        try:
            numbers = self._names.numbers(run.nodes) if run.nodes else []
        except HostListError as error:
            raise PolicyError(f"{run.where}: {error}") from None
        return np.array(numbers, dtype=np.int64)


def _begin(view: View, job: Job, nodes: Ints) -> bool:
    """Start a job with at least one task on each of the nodes, if they have the resources."""
    if not nodes.size:
        return view.start(job)
    each = 1 if job.request is None else job.request.cores_per_task
    nodes = nodes[: job.cores // each]
    offered = view.nodes.offered(job)[nodes]
    if offered.sum() < job.cores or offered.min() < each:
        return False
    cores = np.full_like(offered, each)
    room = (offered - cores) // each * each
    before = np.cumsum(room) - room
    cores += np.clip(job.cores - cores.sum() - before, 0, room)
    return view.start(job, nodes.tolist(), cores=cores.tolist())


def _run(row: Mapping[str, str | None], where: str) -> tuple[int, RecordedRun]:
    try:
        job_id = int(row["job_id"] or "")
        submit_s, start_s = float(row["submit_s"] or ""), float(row["start_s"] or "")
        end_s = float(row["end_s"]) if row["end_s"] else math.inf
    except ValueError as error:
        raise PolicyError(f"{where}: expected {','.join(COLUMNS[:5])}: {error}") from None
    if not 0 <= submit_s <= start_s <= LATEST_S or not end_s >= start_s:
        what = f"expected 0 <= submit_s <= start_s <= end_s, up to {LATEST_S:g}"
        raise PolicyError(f"{where}: job {job_id}: {what}")
    run = RecordedRun(start_s - submit_s, end_s - submit_s, row["nodes"] or "", where)
    return job_id, run
