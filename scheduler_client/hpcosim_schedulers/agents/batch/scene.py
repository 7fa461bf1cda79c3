"""What the batch agent observes: a row for each visible job, and the state of the cluster.

All columns are relative to the cluster's size or to fixed times, so that one network serves any
cluster. `BatchRounds` adds the observations to the rounds of `ChosenHead`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Floats, Job
from hpcosim_client.view import View
from hpcosim_protocol import Platform
from hpcosim_schedulers.heuristics.easy import MAX_WINDOW_JOBS, ChosenHead

Rows = NDArray[np.float32]

SHORTEST_S, LONGEST_S = 10.0, 30 * 86_400.0
"""Times are log(1 + t / SHORTEST_S), divided by its value at LONGEST_S, at most 1."""

AHEAD_S = (600.0, 3600.0, 4 * 3600.0, 16 * 3600.0)
"""Times from now at which the free cores are observed, in seconds."""

SMALLEST_CORE_S, LARGEST_CORE_S = 10.0, 1e12
"""Areas a, in core-seconds, are log(1 + a / SMALLEST_CORE_S), divided by its value at
LARGEST_CORE_S, at most 1."""

DAY_S = 86_400.0

LONG_WAIT_S = 7 * DAY_S

JOB_COLUMNS = (
    "requested_time",
    "requested_area",
    "cores",
    "log_cores",
    "wait",
    "long_wait",
    "wait_share",
    "fits",
    "earliest_start",
    "cores_beside",
    "place",
)
"""Columns of a visible job, each 0 to 1:

- requested_time: requested run time, as a time above.
- requested_area: requested run time x requested cores, as an area above.
- cores: requested cores / cores of the cluster.
- log_cores: log(1 + requested cores) / log(1 + cores of the cluster).
- wait: wait so far, as a time above.
- long_wait: wait / LONG_WAIT_S, at most 1.
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

_AHEAD_S = np.array(AHEAD_S)
_PLACES = np.arange(MAX_WINDOW_JOBS)
_LOG_LONGEST = math.log1p(LONGEST_S / SHORTEST_S)
_LOG_LARGEST = math.log1p(LARGEST_CORE_S / SMALLEST_CORE_S)


Form = Literal["dict", "flat"]

CLUSTER, VISIBLE = "cluster", "visible"

SLOT_COLUMNS = (VISIBLE, *JOB_COLUMNS)
"""Columns of a slot: 1 if a job is visible there, then those of the job; 0 without a job."""


class QueueScene(NamedTuple):
    """The observation of a round.

    Attributes:
        columns: float32[JOB_COLUMNS, jobs], the visible jobs in submission order.
        cluster: float32[CLUSTER_COLUMNS].
    """

    columns: Rows
    cluster: Rows


# The formulas of the columns. Compiled code calls those of one number too, and those of arrays with
# numbers, so they use what Numba can compile.

WAIT, LONG_WAIT, WAIT_SHARE, FITS, EARLIEST_START, CORES_BESIDE, PLACE = map(
    JOB_COLUMNS.index,
    ("wait", "long_wait", "wait_share", "fits", "earliest_start", "cores_beside", "place"),
)


def fixed_columns(requested_s: float, cores: int, of_cores: float) -> tuple[float, ...]:
    """Return the columns of a job that never change: the first of JOB_COLUMNS."""
    area = math.log1p(requested_s * cores / SMALLEST_CORE_S) / _LOG_LARGEST
    log_cores = math.log1p(cores) / math.log1p(of_cores)
    return scaled_time(requested_s), min(area, 1.0), cores / of_cores, log_cores


def scaled_time(time_s: float) -> float:
    """Return a time as a column."""
    return min(math.log1p(time_s / SHORTEST_S) / _LOG_LONGEST, 1.0)


def scaled_times(times_s: Floats) -> Floats:
    """Return times as columns; NumPy's logarithm may differ in the last bit."""
    found: Floats = np.minimum(np.log1p(times_s / SHORTEST_S) / _LOG_LONGEST, 1.0)
    return found


def long_wait(wait_s: Any) -> Any:
    """Return the column `long_wait` of one job or of many."""
    return np.minimum(wait_s / LONG_WAIT_S, 1.0)


def wait_share(wait_s: Any, requested_s: Any) -> Any:
    """Return the column `wait_share` of one job or of many."""
    return wait_s / np.maximum(wait_s + requested_s, 1e-9)


def saturated(value: float, half: float) -> float:
    """Return a value >= 0 as a column, which is 1/2 for `half`."""
    return value / (value + half)


class SceneMaker:
    """Makes the observations of one simulation. It keeps the columns of a job that never change."""

    def __init__(self, platform: Platform) -> None:
        self._cores = float(platform.core_count)
        # By `Job.order`: requested time, cores and submission, then the columns of the first two.
        self._jobs = np.empty((7, 256))

    def update(self, view: View) -> None:
        """Read the jobs that joined the queue; call it once after each event."""
        for job in view.arrived:
            if job.order >= self._jobs.shape[1]:
                missing = max(self._jobs.shape[1], job.order + 1 - self._jobs.shape[1])
                self._jobs = np.pad(self._jobs, ((0, 0), (0, missing)))
            self._jobs[:, job.order] = (
                job.requested_s,
                job.cores,
                job.submit_s,
                *fixed_columns(job.requested_s, job.cores, self._cores),
            )

    def scene_of(self, view: View, jobs: Sequence[Job]) -> QueueScene:
        """Return the observation of a round."""
        known = self._jobs.take([job.order for job in jobs], axis=1)
        requested_s, cores = known[0], known[1]
        wait_s = view.now_s - known[2]
        ends_s, free = _releases(view)
        starts_s = ends_s[np.minimum(free.searchsorted(cores), len(free) - 1)]
        # Jobs that end at the same time release their cores together.
        beside = free[ends_s.searchsorted(starts_s, "right") - 1] - cores
        times = scaled_times(np.array((wait_s, starts_s - view.now_s)))
        count = len(jobs)
        columns = np.empty((len(JOB_COLUMNS), count), dtype=np.float32)
        columns[:4] = known[3:]
        columns[WAIT] = times[0]
        columns[LONG_WAIT] = long_wait(wait_s)
        columns[WAIT_SHARE] = wait_share(wait_s, requested_s)
        columns[FITS] = cores <= view.nodes.free_cores
        columns[EARLIEST_START] = times[1]
        columns[CORES_BESIDE] = np.maximum(beside, 0.0) / self._cores
        columns[PLACE] = _PLACES[:count] / count
        # Not a product of vectors, whose order of additions differs between machines.
        work = float((requested_s * cores).sum()) / (self._cores * DAY_S)
        mean_wait_s = float(wait_s.sum()) / count
        ahead = free[ends_s.searchsorted(view.now_s + _AHEAD_S, "right") - 1]
        return QueueScene(columns, self._cluster(view, work, mean_wait_s, ahead))

    def _cluster(self, view: View, work: float, mean_wait_s: float, ahead: Floats) -> Rows:
        waiting = len(view.queue)
        cluster = np.empty(len(CLUSTER_COLUMNS), dtype=np.float32)
        cluster[0] = view.nodes.free_cores / self._cores
        cluster[1] = saturated(waiting, SATURATION_JOBS)
        cluster[2] = saturated(work, 1.0)
        cluster[3] = scaled_time(mean_wait_s)
        cluster[len(cluster) - len(AHEAD_S) :] = ahead / self._cores
        return cluster


def _releases(view: View) -> tuple[Floats, Floats]:
    """Return when cores become free by requested times, ascending, and how many are free then."""
    now_s = view.now_s
    releases = [(now_s, view.nodes.free_cores)]
    for job in view.running.values():
        if job.allocation is not None:
            end_s = job.start_s + job.suspended_s + job.requested_s
            releases.append((end_s if end_s > now_s else now_s, job.allocation.cores))
    releases.sort()
    ends = np.array(releases, dtype=np.float64)
    return ends[:, 0], ends[:, 1].cumsum()


def flat_size(window_jobs: int) -> int:
    """Return the number of values of a flat observation."""
    return len(CLUSTER_COLUMNS) + len(SLOT_COLUMNS) * window_jobs


def flat(scene: QueueScene | None, window_jobs: int) -> Rows:
    """Return an observation as one array: the cluster, then each column for all slots.

    Args:
        scene: the observation; None: all values are 0, after the last round.
        window_jobs: number of slots, at least that of the visible jobs.

    Returns:
        float32[CLUSTER_COLUMNS + SLOT_COLUMNS x window_jobs].
    """
    values = np.zeros(flat_size(window_jobs), dtype=np.float32)
    if scene is not None:
        first = len(CLUSTER_COLUMNS)
        values[:first] = scene.cluster
        slots = values[first:].reshape(len(SLOT_COLUMNS), window_jobs)
        visible = scene.columns.shape[1]
        slots[0, :visible] = 1.0
        slots[1:, :visible] = scene.columns
    return values


def by_name(scene: QueueScene | None, window_jobs: int) -> dict[str, Rows]:
    """Return an observation as arrays by name: `cluster`, and each of SLOT_COLUMNS.

    For the arguments see `flat`.
    """
    values, first = flat(scene, window_jobs), len(CLUSTER_COLUMNS)
    slots = values[first:].reshape(len(SLOT_COLUMNS), window_jobs)
    return {CLUSTER: values[:first], **dict(zip(SLOT_COLUMNS, slots, strict=True))}


def mask_of(jobs: int, window_jobs: int) -> NDArray[np.int8]:
    """Return the action mask, int8[window_jobs]: 1 for the slots of visible jobs."""
    mask = np.zeros(window_jobs, dtype=np.int8)
    mask[:jobs] = 1
    return mask


class QueueChoices(NamedTuple):
    """A round: the visible jobs and the observation. An action is the index of a job."""

    jobs: list[Job]
    scene: QueueScene


class BatchRounds:
    """The rounds of one simulation, as `agents.rounds.AgentRounds`."""

    def __init__(self, view: View, window_jobs: int) -> None:
        self._heads, self._scenes = ChosenHead(window_jobs), SceneMaker(view.platform)

    def begin(self, view: View) -> None:
        """See `AgentRounds`."""
        self._heads.begin(view)
        self._scenes.update(view)

    def look(self, view: View) -> QueueChoices | None:
        """See `AgentRounds`."""
        jobs = self.visible(view)
        return None if jobs is None else self.choices(view, jobs)

    def visible(self, view: View) -> list[Job] | None:
        """Return the visible jobs of the next round; None: no round until the next event."""
        return self._heads.look(view)

    def choices(self, view: View, jobs: list[Job]) -> QueueChoices:
        """Return the visible jobs of a round with their observation."""
        return QueueChoices(jobs, self._scenes.scene_of(view, jobs))

    def take(self, view: View, observed: QueueChoices, action: int, /) -> None:
        """See `AgentRounds`."""
        self.start_or_reserve(view, observed.jobs[action])

    def start_or_reserve(self, view: View, job: Job) -> None:
        """Choose a visible job in a round."""
        self._heads.take(view, job)
