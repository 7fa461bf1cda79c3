"""The state of a run at a time: its queue, its running jobs and its nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_sim.record.recording import POWER_STATES
from hpcosim_view.errors import ReadResultsError
from hpcosim_view.run.frame import SUSPENDED, Frame, JobPeriods, periods_of

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class WaitingJobs(NamedTuple):
    """The jobs that wait, in order of submission.

    Attributes:
        job: rows of the jobs.
        reason: reason of the last explanation, an index into the reasons of the frame; -1: none.
        expected_start_s: expected start of the last explanation, s; NaN: none.
    """

    job: Ints
    reason: Ints
    expected_start_s: Floats


class RunningJobs(NamedTuple):
    """Jobs that run, or that are suspended, in order of the begins of their computing.

    Attributes:
        job: rows of the jobs.
        start_s: start of the present run, s.
        used_s: time for which the run has computed, without suspensions, s.
        left_s: requested run time - `used_s`, s, at least 0; NaN: the requested time is unknown.
        nodes: nodes of each job: first and last of each interval, ascending.
    """

    job: Ints
    start_s: Floats
    used_s: Floats
    left_s: Floats
    nodes: list[list[tuple[int, int]]]


class NodesThen(NamedTuple):
    """The nodes, in order of their numbers.

    Attributes:
        power: power state, an index into `hpcosim_sim.record.recording.POWER_STATES`.
        cores: number of cores.
        allocated: number of cores that running jobs hold.
        group: index into `nodes` of the frame's `about`.
        drained: 1 if it is drained: it accepts no new jobs; else 0.
    """

    power: Ints
    cores: Ints
    allocated: Ints
    group: Ints
    drained: Ints


class Moment(NamedTuple):
    """The state of a run at a time.

    Changes at this time have taken place: a job that ends then no longer runs.

    Attributes:
        at_s: simulated time, s.
        waiting, running, nodes: jobs and nodes at this time.
        suspended: jobs that are suspended: their cores are free.
    """

    at_s: float
    waiting: WaitingJobs
    running: RunningJobs
    nodes: NodesThen
    suspended: RunningJobs


def moment(frame: Frame, at_s: float) -> Moment:
    """Return the state of a run at a time.

    Args:
        frame: the whole run up to this time, or more of it; see `append`.
        at_s: simulated time, s, from `start_s` to `now_s` of the frame.

    Raises:
        ReadResultsError: the frame does not have this time.
    """
    about = frame.about
    if not about["start_s"] <= at_s <= about["now_s"]:
        raise ReadResultsError(
            f"time {at_s:g} s: expected a time of the run, from {about['start_s']:g} s to "
            f"{about['now_s']:g} s"
        )
    columns = frame.columns
    jobs = len(columns["job.id"])
    started = columns["start.job"][columns["start.time_s"] <= at_s].astype(np.int64)
    ended = columns["end.job"][columns["end.time_s"] <= at_s]
    over, is_placed = np.zeros(jobs, bool), np.zeros(jobs, bool)
    over[ended] = True
    pauses = columns["pause.time_s"] <= at_s
    why = np.zeros(len(columns["start.job"]), np.int64)  # 0: the period goes on
    why[columns["pause.start"][pauses]] = columns["pause.why"][pauses]
    # The last period of a job counts. Suspended jobs neither wait nor run.
    is_placed[started] = (why == 0)[: len(started)] | (why == SUSPENDED)[: len(started)]
    waits = (columns["job.submit_s"] <= at_s) & ~is_placed & ~over
    runs = np.zeros(len(columns["start.job"]), bool)
    runs[: len(started)] = ~over[started] & (why[: len(started)] == 0)
    rests = np.zeros(len(runs), bool)
    last = np.full(jobs, -1, np.int64)
    last[started] = np.arange(len(started))  # the last assignment counts
    rests[last[~over & (last >= 0)]] = True
    rests &= why == SUSPENDED
    group = np.repeat(np.arange(len(about["nodes"])), [count for count, *_ in about["nodes"]])
    cores = np.array([cores for _, cores, *_ in about["nodes"]], np.int64)[group]
    periods = periods_of(frame)
    running, allocated = _running(frame, at_s, periods, runs, cores)
    suspended, _ = _running(frame, at_s, periods, rests, cores)
    drained = _last_of(frame, "drain", "drained", at_s, np.zeros(len(cores), np.int64))
    power = np.full(len(cores), POWER_STATES.index("on"), np.int64)
    power = _last_of(frame, "power", "state", at_s, power)
    nodes = NodesThen(power, cores, allocated, group, drained)
    waiting = _waiting(frame, at_s, np.flatnonzero(waits))
    return Moment(at_s, waiting, running, nodes, suspended)


def _waiting(frame: Frame, at_s: float, job: Ints) -> WaitingJobs:
    columns = frame.columns
    known = columns["explain.time_s"] <= at_s
    last = np.full(len(columns["job.id"]), -1, np.int64)  # index of the last explanation
    last[columns["explain.job"][known]] = np.flatnonzero(known)  # the last assignment counts
    at = last[job]
    reason, expected_s = np.full(len(job), -1, np.int64), np.full(len(job), np.nan)
    reason[at >= 0] = columns["explain.reason"][at[at >= 0]]
    expected_s[at >= 0] = columns["explain.expected_start_s"][at[at >= 0]]
    return WaitingJobs(job, reason, expected_s)


def _running(
    frame: Frame, at_s: float, periods: JobPeriods, runs: NDArray[np.bool_], cores: Ints
) -> tuple[RunningJobs, Ints]:
    """Return the jobs of these periods, and the number of cores of each node that they hold."""
    columns = frame.columns
    job = columns["start.job"][runs].astype(np.int64)
    used_s = periods.computed_s(columns["start.time_s"], at_s)[runs]
    left_s = np.maximum(columns["job.requested_s"][job] - used_s, 0.0)
    boxes = columns["start.boxes"].astype(np.int64)
    shown = np.repeat(runs, boxes)
    first, last = (columns[name][shown].astype(np.int64) for name in ("box.first", "box.last"))
    first_core = np.concatenate([[0], np.cumsum(cores)])
    first_node = np.searchsorted(first_core, first, "right") - 1
    last_node = np.searchsorted(first_core, last, "right") - 1
    # Cores from the first of the box to the end of the last node, without those beside the box.
    change = np.zeros(len(cores) + 1, np.int64)
    np.add.at(change, first_node, 1)
    np.add.at(change, last_node + 1, -1)
    allocated = np.cumsum(change)[:-1] * cores
    np.subtract.at(allocated, first_node, first - first_core[first_node])
    np.subtract.at(allocated, last_node, first_core[last_node + 1] - 1 - last)
    ends = np.cumsum(boxes[runs])
    intervals = list(zip(first_node.tolist(), last_node.tolist(), strict=True))
    parts = zip(ends - boxes[runs], ends, strict=True)
    nodes = [_merged(intervals[begin:end]) for begin, end in parts]
    return RunningJobs(job, periods.run_start_s[runs], used_s, left_s, nodes), allocated


def _merged(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ascending intervals, of which neighbours may share a node, as distinct ones."""
    found: list[tuple[int, int]] = []
    for first, last in intervals:
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def _last_of(frame: Frame, changes: str, value: str, at_s: float, first: Ints) -> Ints:
    """Return the last value of each node up to a time, instead of the first one."""
    columns = frame.columns
    known = columns[f"{changes}.time_s"] <= at_s
    first[columns[f"{changes}.node"][known]] = columns[f"{changes}.{value}"][known]
    return first
