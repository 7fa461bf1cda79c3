"""A run as plain data, without its simulation: the input of metrics and result files.

`node_spans` is the state and power of every node over time.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_protocol import Platform
from hpcosim_sim.physics.cluster import Cluster, places
from hpcosim_sim.physics.power import NODE_STATES, NodeState, RecordedState
from hpcosim_sim.record.economics import UNKNOWN, Rates, rated_by_state
from hpcosim_sim.record.recording import Recording
from hpcosim_sim.record.replay import JobChange, KindChange, Replay, changes_of

# Energy attribution: the energy of each job, computed from the recording.

Floats = NDArray[np.float64]
Ints = NDArray[np.intc]  # 32 bits: a run may have many placements


class _Placements(NamedTuple):
    """Placements: a job has tasks on a processor in a computing period. One entry each.

    Attributes:
        processor: intc[placements], number of the processor; nodes number their processors
            consecutively, from node 0.
        tasks: intc[placements], number of tasks of the job on the processor.
    """

    period: Ints
    processor: Ints
    tasks: Ints


def job_energies_j(platform: Platform, recording: Recording, end_s: float) -> array[float]:
    """Return the energy attributed to each job up to `end_s`, J.

    The power of a job is the dynamic power of its tasks plus, for each processor with its tasks,
    the static power divided by the number of jobs on the processor (equation 1 of Lopez, Stafford,
    Bosque 2025, with shares that change over time). Idle processors are attributed to no job. The
    energies of all jobs and of idle processors add up to the energy of the platform.

    Args:
        end_s: simulation time up to which running jobs are charged, s.

    Returns:
        float64[jobs], by row of the recording; 0 for a job that has not started.
    """
    if recording.kind_at:
        return _energies_by_replay(platform, recording, end_s)
    periods, changes = recording.periods, np.array(recording.changes)
    starts = changes >= 0
    of = np.where(starts, changes, ~changes)
    start_s, ended_s = np.array(periods.start_s), np.array(periods.end_s)
    # Times of all changes; the last element is the end of jobs that are still running.
    times_s = np.append(np.where(starts, start_s[of], ended_s[of]), end_s)
    first = np.flatnonzero(starts).astype(np.intc)  # periods are numbered in order of their starts
    last = np.full(len(periods), len(changes), np.intc)
    last[of[~starts]] = np.flatnonzero(~starts)

    period, processor, tasks = _placements(platform, recording)
    begin, end = first[period], last[period]
    run_s = times_s[end] - times_s[begin]
    static_w, dynamic_w, cores = _processors(platform)
    energies_j = dynamic_w[processor] * tasks * run_s
    shared = tasks < cores[processor]  # a job that fills a processor has it alone
    run_s[shared] = _share_s(processor[shared], begin[shared], end[shared], times_s)
    energies_j += static_w[processor] * run_s
    row = np.array(periods.row)[period]
    return array("d", np.bincount(row, energies_j, len(recording)).tobytes())


def _placements(platform: Platform, recording: Recording) -> _Placements:
    """Return the placements of all jobs."""
    if all(len(group.processors) == 1 for group in platform.nodes):
        counts, nodes, tasks = recording.periods.placements()
        return _Placements(np.repeat(np.arange(len(counts), dtype=np.intc), counts), nodes, tasks)
    # With several processors per node, the placement of tasks depends on the earlier tasks.
    slots = [len(group.processors) for group in platform.nodes for _ in range(group.count)]
    first_of_node = (np.cumsum(slots) - slots).tolist()

    def found() -> Iterator[tuple[int, int, int]]:
        replay = Replay(platform, recording)
        for change in changes_of(recording):
            replay.apply(change)
            if isinstance(change, JobChange) and change.starts:
                for slot, _, node, tasks in places(replay.parts[change.row]):
                    yield change.period, first_of_node[node] + slot, tasks

    return _Placements(*np.fromiter(found(), np.dtype((np.intc, 3))).T)


def _share_s(processor: Ints, begin: Ints, end: Ints, times_s: Floats) -> Floats:
    """Return for each placement the integral of 1 / (number of jobs on the processor), s."""
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
    replay, periods = Replay(platform, recording), recording.periods
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
            placed = periods.nodes_of(change.period), periods.tasks_of(change.period)
            for node, tasks in zip(*placed, strict=True):
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


@dataclass(frozen=True)
class RunRecord:
    """A run up to `end_s`, complete or not. Readers leave it unchanged.

    The record shares the recording with the simulation. It is valid until the simulation advances.

    Attributes:
        end_s: simulation time up to which the run is recorded, s.
        metered_j: [node kinds, node states], metered energy, J; see `Cluster.kinds` and
            `NODE_STATES`.
        metered_node_s: [node kinds, node states], node-seconds.
        peak_power_w: greatest power of all nodes at any time, W.
    """

    platform: Platform
    recording: Recording
    start_s: float
    end_s: float
    metered_j: tuple[tuple[float, ...], ...]
    metered_node_s: tuple[tuple[float, ...], ...]
    peak_power_w: float
    rates: Rates = UNKNOWN

    @property
    def duration_s(self) -> float:
        """Simulated duration, `end_s` - `start_s`, s."""
        return self.end_s - self.start_s

    @property
    def energy_j(self) -> float:
        """Energy of all nodes over the duration, J."""
        return sum(map(sum, self.metered_j))

    @property
    def state_energy_j(self) -> Mapping[NodeState, float]:
        """Energy of all nodes by node state, J."""
        return _by_state(self.metered_j)

    @property
    def state_node_s(self) -> Mapping[NodeState, float]:
        """Node-seconds by node state."""
        return _by_state(self.metered_node_s)

    @cached_property
    def state_cost(self) -> Mapping[NodeState, float]:
        """Cost of the energy by node state, in the currency of the rates; empty: no price."""
        return rated_by_state(self, self.rates.price_per_kwh)

    @cached_property
    def state_co2_g(self) -> Mapping[NodeState, float]:
        """CO2 emissions of the energy by node state, g; empty: no carbon intensity."""
        return rated_by_state(self, self.rates.co2_g_per_kwh)

    @cached_property
    def job_energies_j(self) -> array[float]:
        """Energy attributed to each job, J, by row of the recording; see `attribution`."""
        return job_energies_j(self.platform, self.recording, self.end_s)


def record_of(
    cluster: Cluster, recording: Recording, start_s: float, end_s: float, rates: Rates = UNKNOWN
) -> RunRecord:
    """Return the record of a run.

    Args:
        cluster: the cluster; the function settles its meters up to `end_s`.
    """
    cluster.settle(end_s)
    return RunRecord(
        platform=cluster.platform,
        recording=recording,
        start_s=start_s,
        end_s=end_s,
        metered_j=tuple(tuple(meter.state_energy_j) for meter in cluster.meters),
        metered_node_s=tuple(tuple(meter.state_node_s) for meter in cluster.meters),
        peak_power_w=cluster.peak_w,
        rates=rates,
    )


def _by_state(rows: tuple[tuple[float, ...], ...]) -> dict[NodeState, float]:
    return dict(zip(NODE_STATES, map(sum, zip(*rows, strict=True)), strict=True))


class Span(NamedTuple):
    """A period in which nodes have constant state and power.

    Attributes:
        end_s: end of the period or of the record, s.
        nodes: node numbers, ascending.
        state: one of `power.NODE_STATES`.
        power_w: power of each node, W.
    """

    start_s: float
    end_s: float
    nodes: list[int]
    state: NodeState
    power_w: float


Level = tuple[RecordedState, tuple[int, ...], int]
"""Power state of a node, number of tasks on each of its processors, and node kind."""


def node_spans(record: RunRecord) -> Iterator[Span]:
    """Yield the spans of all nodes of a run, in order of their end.

    The replay computes power from power states, node kinds and tasks. Every node is in exactly one
    span at any time. The integral of power over all spans is the energy of the run.
    """
    recording, end_s = record.recording, record.end_s
    replay = Replay(record.platform, recording, record.start_s)
    cluster, nodes = replay.cluster, range(record.platform.node_count)
    levels = _levels(replay, nodes)
    since_s = [record.start_s] * len(nodes)

    def close(touched: Iterable[int], now_s: float) -> Iterator[Span]:
        ordered = sorted(touched)
        changed = [
            (node, new)
            for node, new in zip(ordered, _levels(replay, ordered), strict=True)
            if new != levels[node] or now_s == end_s
        ]
        for members in _grouped([node for node, _ in changed], since_s, levels):
            first = members[0]
            if now_s > since_s[first]:
                power, tasks, kind = levels[first]
                power_w = cluster.meters[kind].node_power_w(power, tasks)
                yield Span(since_s[first], now_s, members, _state(levels[first]), power_w)
        for node, new in changed:
            since_s[node], levels[node] = now_s, new

    for now_s, together in groupby(changes_of(recording), key=itemgetter(0)):
        touched: set[int] = set()
        for change in together:
            replay.apply(change)
            if isinstance(change, JobChange):
                touched.update(recording.periods.nodes_of(change.period))
            else:
                touched.update(change.nodes)
        if now_s < end_s:
            yield from close(touched, now_s)
    yield from close(nodes, end_s)


def _levels(replay: Replay, nodes: Sequence[int]) -> list[Level]:
    cluster, power = replay.cluster, replay.power
    return [
        (power[node], tasks, cluster.group_of[node])
        for node, tasks in zip(nodes, cluster.levels(nodes), strict=True)
    ]


def _state(level: Level) -> NodeState:
    power, tasks, _ = level
    if power != "on":
        return power
    return "computing" if any(tasks) else "idle"


def _grouped(nodes: list[int], since_s: list[float], levels: list[Level]) -> Iterable[list[int]]:
    """Return the nodes grouped by equal level and equal begin of that level."""
    groups: dict[tuple[float, Level], list[int]] = {}
    for node in nodes:
        groups.setdefault((since_s[node], levels[node]), []).append(node)
    return groups.values()
