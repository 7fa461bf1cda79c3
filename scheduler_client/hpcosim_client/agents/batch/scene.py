"""What the batch agent observes: a row for each visible job, and the state of the cluster.

All columns are relative to the cluster's size or to fixed times, so that one network serves any
cluster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Floats, Job
from hpcosim_client.view import View

Rows = NDArray[np.float32]

SHORTEST_S, LONGEST_S = 10.0, 30 * 86_400.0
"""Times are log(1 + t / SHORTEST_S), divided by its value at LONGEST_S, at most 1."""

AHEAD_S = (600.0, 3600.0, 4 * 3600.0, 16 * 3600.0)
"""Times from now at which the free cores are observed, in seconds."""

DAY_S = 86_400.0

JOB_COLUMNS = (
    "requested_time",
    "cores",
    "log_cores",
    "wait",
    "wait_share",
    "fits",
    "earliest_start",
    "cores_beside",
    "place",
)
"""Columns of a visible job, each 0 to 1:

- requested_time: requested run time, as a time above.
- cores: requested cores / cores of the cluster.
- log_cores: log(1 + requested cores) / log(1 + cores of the cluster).
- wait: wait so far, as a time above.
- wait_share: wait / (wait + requested time).
- fits: 1 if as many cores are free.
- earliest_start: time until as many cores are free by the requested times of running jobs.
- cores_beside: cores that are then free beside those of the job / cores of the cluster.
- place: number of jobs before it in the queue / number of visible jobs.
"""

CLUSTER_COLUMNS = (
    "free_cores",
    "queue",
    "requested_work",
    "mean_wait",
    *(f"free_in_{ahead_s / 3600:g}_h" for ahead_s in AHEAD_S),
)
"""Columns of the cluster, each 0 to 1:

- free_cores: free cores / cores of the cluster.
- queue: n / (n + 64) for n waiting jobs.
- requested_work: x / (1 + x), x: requested core-seconds of visible jobs / those of a day.
- mean_wait: mean wait of the visible jobs, as a time above.
- free_in_T_h: cores that are free in T hours by the requested times of running jobs / cores.
"""

SATURATION_JOBS = 64.0


class QueueScene(NamedTuple):
    """The observation of a round.

    Attributes:
        rows: float32[jobs, JOB_COLUMNS], the visible jobs in submission order.
        cluster: float32[CLUSTER_COLUMNS].
    """

    rows: Rows
    cluster: Rows


def scene_of(view: View, jobs: Sequence[Job]) -> QueueScene:
    """Return the observation of a round.

    Args:
        view: the view.
        jobs: the visible jobs, at least one.
    """
    now_s, nodes = view.now_s, view.nodes
    total, free_cores = float(nodes.capacity.sum()), nodes.free_cores
    asked = np.array([(job.requested_s, job.cores, job.submit_s) for job in jobs]).T
    requested_s, cores, wait_s = asked[0], asked[1], now_s - asked[2]
    ends_s, free = _releases(view)
    step = np.minimum(free.searchsorted(cores), len(free) - 1)
    starts_s = np.maximum(ends_s[step] - now_s, 0.0)
    # Jobs that end at the same time release their cores together.
    beside = free[ends_s.searchsorted(ends_s[step], "right") - 1] - cores
    rows = np.empty((len(jobs), len(JOB_COLUMNS)), dtype=np.float32)
    rows[:, 0] = _log_time(requested_s)
    rows[:, 1] = cores / total
    rows[:, 2] = np.log1p(cores) / math.log1p(total)
    rows[:, 3] = _log_time(wait_s)
    rows[:, 4] = wait_s / np.maximum(wait_s + requested_s, 1e-9)
    rows[:, 5] = cores <= free_cores
    rows[:, 6] = _log_time(starts_s)
    rows[:, 7] = beside / total
    rows[:, 8] = np.arange(len(jobs)) / len(jobs)
    waiting = len(view.queue)
    work = float(requested_s @ cores) / (total * DAY_S)
    ahead = free[ends_s.searchsorted(now_s + np.array(AHEAD_S), "right") - 1] / total
    cluster = np.empty(len(CLUSTER_COLUMNS), dtype=np.float32)
    cluster[:4] = (
        free_cores / total,
        waiting / (waiting + SATURATION_JOBS),
        work / (1.0 + work),
        _log_time(wait_s.mean()),
    )
    cluster[4:] = ahead
    return QueueScene(rows.clip(0.0, 1.0), cluster.clip(0.0, 1.0))


def _releases(view: View) -> tuple[Floats, Floats]:
    """Return when cores become free by requested times, ascending, and how many are free then.

    The first time is now. A job that overruns its request ends now.
    """
    now_s = view.now_s
    running = [
        (job.expected_end_s(now_s), 0 if job.allocation is None else job.allocation.cores)
        for job in view.running.values()
    ]
    running.append((now_s, view.nodes.free_cores))
    running.sort()
    ends = np.array(running, dtype=np.float64)
    return ends[:, 0], ends[:, 1].cumsum()


def _log_time(time_s: Floats) -> Floats:
    scaled: Floats = np.log1p(time_s / SHORTEST_S) / math.log1p(LONGEST_S / SHORTEST_S)
    return scaled
