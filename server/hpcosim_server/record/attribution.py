"""Which job used how much energy, worked out from the recording."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_protocol import Platform
from hpcosim_server.physics.cluster import places
from hpcosim_server.record.recording import Recording
from hpcosim_server.record.replay import JobChange, KindChange, Replay, changes_of

Floats = NDArray[np.float64]
Ints = NDArray[np.intc]  # compact, as there may be many stays


class _Stays(NamedTuple):
    """The stays of jobs on processors on which they have tasks, one entry each.

    Attributes:
        row: intc[stays], the job's row in the recording.
        processor: intc[stays], number of the processor; those of node 0 come first, then those of
            node 1 and so on.
        tasks: intc[stays], tasks the job has there.
    """

    row: Ints
    processor: Ints
    tasks: Ints


def job_energies_j(platform: Platform, recording: Recording, end_s: float) -> array[float]:
    """Return the energy each job used up to `end_s`, J, by its row; 0 if it never started.

    A job is charged the dynamic power of its tasks and, of each processor on which it has tasks,
    the static power in equal parts with the other jobs there (the shares of equation 1 of Lopez,
    Stafford, Bosque 2025, as they change over time). Idle processors are charged to no job: the
    energies of the jobs and of idle processors sum to the energy of the platform.

    Args:
        platform: the cluster.
        recording: what happened.
        end_s: simulated second up to which running jobs are charged.
    """
    if recording.kind_at:
        return _energies_by_replay(platform, recording, end_s)
    changes = np.array(recording.changes)
    starts = changes >= 0
    rows = np.where(starts, changes, ~changes)
    start_s, ended_s = np.array(recording.start_s), np.array(recording.end_s)
    # Of every change, and of the end of all that has not ended.
    times_s = np.append(np.where(starts, start_s[rows], ended_s[rows]), end_s)
    first = np.zeros(len(recording), np.intc)
    last = np.full(len(recording), len(changes), np.intc)
    first[rows[starts]] = np.flatnonzero(starts)
    last[rows[~starts]] = np.flatnonzero(~starts)

    row, processor, tasks = _stays(platform, recording, rows[starts])
    begin, end = first[row], last[row]
    run_s = times_s[end] - times_s[begin]
    static_w, dynamic_w, cores = _processors(platform)
    energies_j = dynamic_w[processor] * tasks * run_s
    shares = tasks < cores[processor]  # one whose tasks fill the processor is alone there
    run_s[shares] = _share_s(processor[shares], begin[shares], end[shares], times_s)
    energies_j += static_w[processor] * run_s
    return array("d", np.bincount(row, energies_j, len(recording)).tobytes())


def _stays(platform: Platform, recording: Recording, started: NDArray[np.int64]) -> _Stays:
    """Return the stays of all jobs.

    Args:
        platform: the cluster.
        recording: what happened.
        started: int64[jobs], the rows of the jobs in the order they started.
    """
    if all(len(group.processors) == 1 for group in platform.nodes):
        row = np.repeat(started.astype(np.intc), np.array(recording.places)[started])
        return _Stays(row, np.array(recording.nodes), np.array(recording.tasks))
    # Which processors of a node a job's tasks are on depends on those that were there before.
    slots = [len(group.processors) for group in platform.nodes for _ in range(group.count)]
    first_of_node = (np.cumsum(slots) - slots).tolist()

    def found() -> Iterator[tuple[int, int, int]]:
        replay = Replay(platform, recording)
        for change in changes_of(recording):
            replay.apply(change)
            if isinstance(change, JobChange) and change.starts:
                for slot, _, node, tasks in places(replay.parts[change.row]):
                    yield change.row, first_of_node[node] + slot, tasks

    return _Stays(*np.fromiter(found(), np.dtype((np.intc, 3))).T)


def _share_s(processor: Ints, begin: Ints, end: Ints, times_s: Floats) -> Floats:
    """Return for each stay its time, each second divided by the number of jobs there, s.

    Args:
        processor: intc[stays], number of the processor.
        begin: intc[stays], index in `times_s` of the begin.
        end: intc[stays], index in `times_s` of the end.
        times_s: float64, ascending.
    """
    count = len(processor)
    if not count:
        return np.zeros(0)
    # All begins, then all ends; and these by processor, in order.
    at = np.concatenate((begin, end))
    order = np.argsort(np.tile(processor.astype(np.int64) * len(times_s), 2) + at)
    begins = order < count
    jobs = np.cumsum(np.where(begins, 1, -1))[:-1]  # between each and the next
    each_s = np.diff(times_s[at[order]]) / np.maximum(jobs, 1)
    place = np.empty_like(order)
    place[order] = np.arange(2 * count)
    # A stay is summed by itself: the difference of two running sums would be less precise.
    stays = order[begins]
    spans = np.column_stack((place[stays], place[stays + count])).ravel()
    share_s = np.empty(count)
    share_s[stays] = np.add.reduceat(np.append(each_s, 0.0), spans)[::2]
    return share_s


def _energies_by_replay(platform: Platform, recording: Recording, end_s: float) -> array[float]:
    """Return what `job_energies_j` does where nodes, of one processor each, changed their kind."""
    replay = Replay(platform, recording)
    cluster = replay.cluster
    energies_j = array("d", bytes(8 * len(recording)))
    tasks_of: list[dict[int, int]] = [{} for _ in cluster.capacity]  # each node's, by job
    since_s = [0.0] * len(tasks_of)  # only read where a job is

    def charge(node: int, now_s: float) -> None:
        jobs, processor = tasks_of[node], cluster.kinds[cluster.group_of[node]].processors[0]
        for row, tasks in jobs.items():
            power_w = processor.static_w / len(jobs) + processor.dynamic_w * tasks
            energies_j[row] += power_w * (now_s - since_s[node])
        since_s[node] = now_s

    for change in changes_of(recording):
        if isinstance(change, KindChange):
            for node in change.nodes:
                charge(node, change.time_s)
        elif isinstance(change, JobChange):
            row = change.row
            for node, tasks in zip(recording.nodes_of(row), recording.tasks_of(row), strict=True):
                charge(node, change.time_s)
                if change.starts and tasks:
                    tasks_of[node][row] = tasks
                else:
                    tasks_of[node].pop(row, None)
        replay.apply(change)
    for node in range(len(tasks_of)):
        charge(node, end_s)
    return energies_j


def _processors(platform: Platform) -> tuple[Floats, Floats, Ints]:
    """Return the static power, W, the dynamic power, W, and the cores of each processor."""
    processors = [
        processor
        for group in platform.nodes
        for _ in range(group.count)
        for processor in group.processors
    ]
    return (
        np.array([processor.static_w for processor in processors]),
        np.array([processor.dynamic_w for processor in processors]),
        np.array([processor.cores for processor in processors]),
    )
