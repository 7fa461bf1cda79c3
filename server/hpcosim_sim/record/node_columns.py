"""The spans of `timeline.node_spans` as columns: the same spans, computed for many nodes at once.

Only for runs in which each node has one processor and keeps its kind. The changes are processed in
portions of consecutive instants, so that memory is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hpcosim_sim.record.node_sets import portions
from hpcosim_sim.record.recording import POWER_STATES
from hpcosim_sim.record.run_record import RunRecord

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
T = TypeVar("T", bound=np.generic)

MAX_INSTANTS = 60_000
MAX_CHANGES = 500_000
"""Numbers of instants and of changes of nodes in a portion; an instant is never divided."""

ON = POWER_STATES.index("on")


class SpanColumns(NamedTuple):
    """Consecutive spans of `node_spans`.

    Attributes:
        start_s: float64[spans], begin, s.
        end_s: float64[spans], end, s.
        level: int64[spans], level of the nodes; see `Levels`.
        first: int64[spans], index of the first node of each span in `node`.
        node: int64[nodes of all spans], node numbers, ascending in each span.
    """

    start_s: Floats
    end_s: Floats
    level: Ints
    first: Ints
    node: Ints


class Levels:
    """Codes of the levels of nodes: kind, power state and number of tasks.

    Args:
        record: the run.
    """

    def __init__(self, record: RunRecord) -> None:
        self._tasks = max(record.platform.cores_by_node()) + 1
        groups = record.platform.nodes
        self._kind = np.repeat(np.arange(len(groups)), [group.count for group in groups])

    def codes(self, node: Ints, power: Ints, tasks: Ints) -> Ints:
        """Return the levels of nodes in power states, indices into `POWER_STATES`, with tasks."""
        return (self._kind[node] * len(POWER_STATES) + power) * self._tasks + tasks

    def parts(self, level: int) -> tuple[int, int, int]:
        """Return the kind, the index of the power state and the number of tasks of a level."""
        rest, tasks = divmod(level, self._tasks)
        kind, power = divmod(rest, len(POWER_STATES))
        return kind, power, tasks


class _Changes(NamedTuple):
    """Changes of nodes, in chronological order.

    Attributes:
        instant: index of the instant in the portion.
        node: node number.
        tasks: change of the number of tasks.
        power: the new power state, an index into `POWER_STATES`; -1: no change.
    """

    instant: Ints
    node: Ints
    tasks: Ints
    power: Ints


def can_be_columns(record: RunRecord) -> bool:
    """Return whether `span_columns` is for this run."""
    return not record.recording.kind_at and all(
        len(group.processors) == 1 for group in record.platform.nodes
    )


def span_columns(record: RunRecord, levels: Levels) -> Iterator[SpanColumns]:
    """Yield the spans of all nodes of a run, in the order of `node_spans`.

    Args:
        record: a run for which `can_be_columns` is true.
        levels: the codes of levels.
    """
    nodes = np.arange(record.platform.node_count)
    tasks, power = np.zeros(len(nodes), np.int64), np.full(len(nodes), ON)
    since_s = np.full(len(nodes), float(record.start_s))
    level = levels.codes(nodes, power, tasks)
    for times_s, changes in _portions(record):
        at = _last_of_instants(changes)
        node, instant = at.node, at.instant
        # Tasks and power after each instant with changes of the node.
        at_tasks = at.tasks + tasks[node]
        at_power = np.where(at.power >= 0, at.power, power[node])
        last = np.append(node[1:] != node[:-1], True)
        tasks[node[last]], power[node[last]] = at_tasks[last], at_power[last]
        at_level = levels.codes(node, at_power, at_tasks)
        changed = at_level != _before(node, at_level, level)
        node, instant, at_level = node[changed], instant[changed], at_level[changed]
        at_s = times_s[instant]
        begin_s, before = _before(node, at_s, since_s), _before(node, at_level, level)
        last = np.append(node[1:] != node[:-1], True)[: len(node)]
        since_s[node[last]], level[node[last]] = at_s[last], at_level[last]
        kept = np.flatnonzero(at_s > begin_s)
        kept = kept[np.argsort(instant[kept].astype(np.uint16), kind="stable")]
        yield _grouped(at_s[kept], begin_s[kept], before[kept], node[kept])
    kept = np.flatnonzero(since_s < record.end_s)
    end_s = np.full(len(kept), float(record.end_s))
    yield _grouped(end_s, since_s[kept], level[kept], kept)


def _portions(record: RunRecord) -> Iterator[tuple[Floats, _Changes]]:
    """Yield the changes before the end, in portions, with the times of their instants."""
    of, periods = record.recording, record.recording.periods
    codes, power_s = np.array(of.changes), np.array(of.power_s)
    starts = codes >= 0
    period = np.where(starts, codes, ~codes)
    time_s = np.where(starts, np.array(periods.start_s)[period], np.array(periods.end_s)[period])
    instants_s = np.sort(np.concatenate([time_s, power_s]))
    instants_s = instants_s[np.append(True, instants_s[1:] != instants_s[:-1])[: len(instants_s)]]
    instants_s = instants_s[instants_s < record.end_s]
    instant = np.searchsorted(instants_s, time_s)
    power_at = np.searchsorted(instants_s, power_s)
    first_place, places = np.array(periods.first_place), np.array(periods.places, np.int64)
    nodes, tasks = np.array(periods.nodes), np.array(periods.tasks)
    power_node, power_state = np.array(of.power_node), np.array(of.power_state)
    counts = np.bincount(instant, places[period], len(instants_s) + 1)
    counts += np.bincount(power_at, minlength=len(instants_s) + 1)
    for first, last in portions(counts[:-1], MAX_INSTANTS, MAX_CHANGES):
        some = slice(*np.searchsorted(instant, (first, last)))
        powers = slice(*np.searchsorted(power_at, (first, last)))
        each = places[period[some]]
        # Index of each node of the periods in `nodes` and `tasks`.
        place = np.repeat(first_place[period[some]] - (np.cumsum(each) - each), each)
        place += np.arange(len(place))
        sign = np.repeat(np.where(starts[some], 1, -1), each)
        none = len(power_node[powers])
        yield (
            instants_s[first:last],
            _Changes(
                np.concatenate([np.repeat(instant[some], each), power_at[powers]]) - first,
                np.concatenate([nodes[place], power_node[powers]]).astype(np.int64),
                np.append(sign * tasks[place], np.zeros(none, np.int64)),
                np.append(np.full(len(place), -1), power_state[powers]),
            ),
        )


def _last_of_instants(changes: _Changes) -> _Changes:
    """Return what the changes of each node and instant amount to, by node and then by instant.

    Returns:
        `tasks` is the change since the begin of the portion, `power` the latest new power state
        since then.
    """
    by_node = changes.node
    if len(by_node) and by_node.max() < 2**16:
        by_node = by_node.astype(np.uint16)  # numpy sorts 16 bits in linear time
    if (changes.power >= 0).any():
        by_time = np.argsort(changes.instant, kind="stable")
        order = by_time[np.argsort(by_node[by_time], kind="stable")]
    else:
        order = np.argsort(by_node, kind="stable")
    instant, node, tasks, power = (column[order] for column in changes)
    others = node[1:] != node[:-1]
    last = np.append(others | (instant[1:] != instant[:-1]), True)[: len(node)]
    begin = np.flatnonzero(np.append(True, others)[: len(node)])
    each = np.diff(np.append(begin, len(node)))
    total = np.cumsum(tasks)
    tasks = total - np.repeat(total[begin] - tasks[begin], each)
    if (power >= 0).any():
        known = power >= 0
        known[begin] = True
        power = power[np.maximum.accumulate(np.where(known, np.arange(len(power)), 0))]
    return _Changes(instant[last], node[last], tasks[last], power[last])


def _before(node: Ints, values: NDArray[T], first: NDArray[T]) -> NDArray[T]:
    """Return the previous value of the same node.

    Args:
        node: nodes; all entries of a node are consecutive.
        values: the value of each entry.
        first: value before the first entry, by node.
    """
    before = np.empty_like(values)
    before[1:] = values[:-1]
    begin = np.flatnonzero(np.append(True, node[1:] != node[:-1])[: len(node)])
    before[begin] = first[node[begin]]
    return before


def _grouped(end_s: Floats, start_s: Floats, level: Ints, node: Ints) -> SpanColumns:
    """Return the spans of nodes: nodes with equal begin, end and level are together.

    Args:
        end_s: end of the span of each node, s, ascending.
        start_s: begin, s.
        level: level.
        node: node number, ascending for an equal end.
    """
    others = np.append(True, end_s[1:] != end_s[:-1])[: len(node)]
    breaks = others.copy()
    breaks[1:] |= (start_s[1:] != start_s[:-1]) | (level[1:] != level[:-1])
    first = np.flatnonzero(breaks)  # of runs of consecutive equal entries
    keys = level[first], start_s[first], end_s[first]
    order = np.lexsort(keys)  # stable: runs of one span are in the order of their nodes
    alike = np.append(False, np.ones(max(len(first) - 1, 0), bool))[: len(first)]
    for key in keys:
        alike[1:] &= key[order][1:] == key[order][:-1]
    if alike.any():  # spans with several runs: move them to the first one
        lead = order[np.maximum.accumulate(np.where(alike, 0, np.arange(len(order))))]
        leader = np.empty_like(order)
        leader[order] = lead
        runs = np.argsort(leader, kind="stable")
        length = np.diff(np.append(first, len(node)))[runs]
        entry = np.repeat(first[runs] - (np.cumsum(length) - length), length)
        entry += np.arange(len(entry))
        head = leader[runs] == runs
        first = (np.cumsum(length) - length)[head]
        end_s, start_s, level, node = end_s[entry], start_s[entry], level[entry], node[entry]
    return SpanColumns(start_s[first], end_s[first], level[first], first, node)
