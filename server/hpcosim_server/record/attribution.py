"""Energy attribution: the energy of each job, computed from the recording."""

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
Ints = NDArray[np.intc]  # 32 bits: a run may have many placements


class _Placements(NamedTuple):
    """Placements: a job has tasks on a processor from its start to its end. One entry each.

    Attributes:
        row: intc[placements], row of the job in the recording.
        processor: intc[placements], number of the processor; nodes number their processors
            consecutively, from node 0.
        tasks: intc[placements], number of tasks of the job on the processor.
    """

    row: Ints
    processor: Ints
    tasks: Ints


def job_energies_j(platform: Platform, recording: Recording, end_s: float) -> array[float]:
    """Return the energy attributed to each job up to `end_s`, J.

    The power of a job is the dynamic power of its tasks plus, for each processor with its tasks,
    the static power divided by the number of jobs on the processor (equation 1 of Lopez, Stafford,
    Bosque 2025, with shares that change over time). Idle processors are attributed to no job. The
    energies of all jobs and of idle processors add up to the energy of the platform.

    Args:
        platform: description of the cluster.
        recording: the recording of the run.
        end_s: simulation time up to which running jobs are charged, s.

    Returns:
        float64[jobs], by row of the recording; 0 for a job that has not started.
    """
    if recording.kind_at:
        return _energies_by_replay(platform, recording, end_s)
    changes = np.array(recording.changes)
    starts = changes >= 0
    rows = np.where(starts, changes, ~changes)
    start_s, ended_s = np.array(recording.start_s), np.array(recording.end_s)
    # Times of all changes; the last element is the end of jobs that are still running.
    times_s = np.append(np.where(starts, start_s[rows], ended_s[rows]), end_s)
    first = np.zeros(len(recording), np.intc)
    last = np.full(len(recording), len(changes), np.intc)
    first[rows[starts]] = np.flatnonzero(starts)
    last[rows[~starts]] = np.flatnonzero(~starts)

    row, processor, tasks = _placements(platform, recording, rows[starts])
    begin, end = first[row], last[row]
    run_s = times_s[end] - times_s[begin]
    static_w, dynamic_w, cores = _processors(platform)
    energies_j = dynamic_w[processor] * tasks * run_s
    shared = tasks < cores[processor]  # a job that fills a processor has it alone
    run_s[shared] = _share_s(processor[shared], begin[shared], end[shared], times_s)
    energies_j += static_w[processor] * run_s
    return array("d", np.bincount(row, energies_j, len(recording)).tobytes())


def _placements(
    platform: Platform, recording: Recording, started: NDArray[np.int64]
) -> _Placements:
    """Return the placements of all jobs.

    Args:
        platform: description of the cluster.
        recording: the recording of the run.
        started: int64[jobs], rows of the jobs in order of their start.
    """
    if all(len(group.processors) == 1 for group in platform.nodes):
        row = np.repeat(started.astype(np.intc), np.array(recording.places)[started])
        return _Placements(row, np.array(recording.nodes), np.array(recording.tasks))
    # With several processors per node, the placement of tasks depends on the earlier tasks.
    slots = [len(group.processors) for group in platform.nodes for _ in range(group.count)]
    first_of_node = (np.cumsum(slots) - slots).tolist()

    def found() -> Iterator[tuple[int, int, int]]:
        replay = Replay(platform, recording)
        for change in changes_of(recording):
            replay.apply(change)
            if isinstance(change, JobChange) and change.starts:
                for slot, _, node, tasks in places(replay.parts[change.row]):
                    yield change.row, first_of_node[node] + slot, tasks

    return _Placements(*np.fromiter(found(), np.dtype((np.intc, 3))).T)


def _share_s(processor: Ints, begin: Ints, end: Ints, times_s: Floats) -> Floats:
    """Return for each placement the integral of 1 / (number of jobs on the processor), s.

    Args:
        processor: intc[placements], number of the processor.
        begin: intc[placements], index of the start in `times_s`.
        end: intc[placements], index of the end in `times_s`.
        times_s: float64[changes + 1], ascending simulation times, s.
    """
    count = len(processor)
    if not count:
        return np.zeros(0)
    # All starts, then all ends; `order` sorts them by processor and time.
    at = np.concatenate((begin, end))
    order = np.argsort(np.tile(processor.astype(np.int64) * len(times_s), 2) + at)
    begins = order < count
    jobs = np.cumsum(np.where(begins, 1, -1))[:-1]  # between consecutive changes
    each_s = np.diff(times_s[at[order]]) / np.maximum(jobs, 1)
    place = np.empty_like(order)
    place[order] = np.arange(2 * count)
    # Each placement has its own sum: the difference of two running sums would be less precise.
    started = order[begins]
    spans = np.column_stack((place[started], place[started + count])).ravel()
    share_s = np.empty(count)
    share_s[started] = np.add.reduceat(np.append(each_s, 0.0), spans)[::2]
    return share_s


def _energies_by_replay(platform: Platform, recording: Recording, end_s: float) -> array[float]:
    """Return `job_energies_j` for a run in which nodes, with one processor each, changed kind."""
    replay = Replay(platform, recording)
    cluster = replay.cluster
    energies_j = array("d", bytes(8 * len(recording)))
    tasks_of: list[dict[int, int]] = [{} for _ in cluster.capacity]  # by node, then by row
    since_s = [0.0] * len(tasks_of)  # time up to which the jobs of each node are charged

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
