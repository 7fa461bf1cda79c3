"""What several formats take from a run: names, nodes of a start, changes and steps over time."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_sim.physics.power import NODE_STATES, NodeState
from hpcosim_sim.record.recording import STATES
from hpcosim_view.run.frame import Frame, JobPeriods, periods_of

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Node(NamedTuple):
    """A node of the platform."""

    number: int
    group: str
    cores: int


class Place(NamedTuple):
    """The cores of a job on a node."""

    node: int
    cores: int


class JobChange(NamedTuple):
    """A computing period of a job begins or ends.

    Attributes:
        time_s: simulated time, s.
        job: row of the job.
        start: index of the start.
        starts: True if it begins, False if it ends or the simulation ends before it.
    """

    time_s: float
    job: int
    start: int
    starts: bool


def nodes_of(frame: Frame) -> list[Node]:
    """Return the nodes of the platform, in order of their numbers."""
    nodes: list[Node] = []
    for count, cores, group in frame.about["nodes"]:
        nodes += [Node(len(nodes) + number, clean(group), cores) for number in range(count)]
    return nodes


def clean(text: object) -> str:
    """Return text that any encoding in UTF-8 accepts."""
    return str(text).encode("utf-8", "replace").decode()


def printable(text: str) -> str:
    """Return text on one line without characters that control a terminal or its direction."""
    return "".join(each if each.isprintable() else "?" for each in text)


def named(frame: Frame, names: str, column: str) -> list[str | None]:
    """Return a column of names as text; None: unknown."""
    texts = [clean(name) for name in frame.about[names]]
    return [texts[index] if index >= 0 else None for index in frame.columns[column].tolist()]


def by_job(frame: Frame, rows: str, column: str, missing: float = math.nan) -> Floats:
    """Return a column of starts or ends by row of the job.

    Args:
        rows: name of the column with the row of the job.
        column: name of the column with the values.
        missing: value of jobs without such a row.
    """
    values = np.full(len(frame.columns["job.id"]), missing)
    values[frame.columns[rows]] = frame.columns[column]
    return values


def states_of(frame: Frame) -> list[str]:
    """Return the state of each job at the end of the run, one of `STATES`."""
    codes = np.zeros(len(frame.columns["job.id"]), np.int64)
    codes[frame.columns["start.job"]] = STATES.index("running")
    periods = periods_of(frame)
    codes[waits_again(periods)] = STATES.index("waiting")
    codes[frame.columns["end.job"]] = frame.columns["end.state"]
    return [STATES[code] for code in codes.tolist()]


def waits_again(periods: JobPeriods) -> NDArray[np.bool_]:
    """Return whether each job waits, or was over, after a requeue, by row of the job."""
    found: NDArray[np.bool_] = np.append(periods.requeued, False)[periods.last]
    return found


def last_period_of(periods: JobPeriods) -> Ints:
    """Return the row of `start` with the last period of the last run, by row of the job.

    It is -1 for a job that has not started, or that did not start again after a requeue.
    """
    return np.where(waits_again(periods), -1, periods.last)


def starts_of(periods: JobPeriods, last: Ints) -> Floats:
    """Return the start of the last run of each job, s; NaN: see `last_period_of`."""
    return np.append(periods.run_start_s, np.nan)[last]


class Placements:
    """The nodes of each start, from the boxes of cores."""

    def __init__(self, frame: Frame) -> None:
        self._first_core = list(accumulate((node.cores for node in nodes_of(frame)), initial=0))
        self._first = frame.columns["box.first"].astype(np.int64)
        self._last = frame.columns["box.last"].astype(np.int64)
        self._first_box = np.concatenate(
            ([0], np.cumsum(frame.columns["start.boxes"], dtype=np.int64))
        )

    def cores_of(self, start: int) -> int:
        """Return the number of cores that a start holds."""
        boxes = slice(self._first_box[start], self._first_box[start + 1])
        return int((self._last[boxes] - self._first[boxes] + 1).sum())

    def of(self, start: int) -> list[Place]:
        """Return the nodes of a start, in order of their numbers."""
        cores: dict[int, int] = {}
        ends = self._first_core
        for box in range(self._first_box[start], self._first_box[start + 1]):
            first, last = int(self._first[box]), int(self._last[box])
            node = bisect_right(ends, first) - 1
            while first <= last:
                until = min(last + 1, ends[node + 1])
                cores[node] = cores.get(node, 0) + until - first
                first, node = until, node + 1
        return [Place(node, count) for node, count in sorted(cores.items())]


def job_changes(frame: Frame) -> Iterator[JobChange]:
    """Yield the begins and ends of computing periods in chronological order.

    At one instant periods end before others begin; a period that ends at the instant of its begin
    does both at once. Periods that last at the end of the simulation end then.
    """
    columns = frame.columns
    end_s = periods_of(frame).end_s.tolist()
    times_s, jobs = columns["start.time_s"].tolist(), columns["start.job"].tolist()
    ends = iter([*_ends_in_order(frame), (math.inf, -1)])
    end = next(ends)
    for start, (time_s, job) in enumerate(zip(times_s, jobs, strict=True)):
        while end[0] <= time_s:
            if times_s[end[1]] < end[0]:
                yield JobChange(end[0], jobs[end[1]], end[1], False)
            end = next(ends)
        yield JobChange(time_s, job, start, True)
        if end_s[start] <= time_s:
            yield JobChange(time_s, job, start, False)
    while end[1] >= 0:
        if times_s[end[1]] < end[0]:
            yield JobChange(end[0], jobs[end[1]], end[1], False)
        end = next(ends)
    for start, job in enumerate(jobs):
        if math.isnan(end_s[start]):
            yield JobChange(frame.about["now_s"], job, start, False)


def _ends_in_order(frame: Frame) -> list[tuple[float, int]]:
    """Return time, s, and row of `start` of the ends of periods, in chronological order."""
    columns = frame.columns
    paused = columns["pause.start"].astype(np.int64)
    final = periods_of(frame).last[columns["end.job"]]
    is_end = (final >= 0) & ~np.isin(final, paused)
    times_s = np.concatenate([columns["pause.time_s"], columns["end.time_s"][is_end]])
    starts = np.concatenate([paused, final[is_end]])
    order = np.argsort(times_s, kind="stable")
    return list(zip(times_s[order].tolist(), starts[order].tolist(), strict=True))


class Counter(NamedTuple):
    """A number over time.

    Attributes:
        samples: time, s, and value from this time on, in chronological order. The last sample is
            at the end of the run and repeats the value.
    """

    name: str
    unit: str
    samples: Iterable[tuple[float, float]]


class Steps(NamedTuple):
    """A step function.

    Attributes:
        times_s: times of the steps, s, ascending.
        values: value from each time on.
    """

    times_s: Floats
    values: Floats

    def at(self, times_s: Floats) -> Floats:
        """Return the values at these times; 0 before the first step."""
        return np.append(self.values, 0.0)[np.searchsorted(self.times_s, times_s, side="right") - 1]


def counters_of(frame: Frame) -> Iterator[Counter]:
    """Yield the counters of a run: power of the nodes by state, queue length, utilization."""
    for state in NODE_STATES:
        steps = power_of(frame, state)
        if len(steps.times_s):
            yield Counter(f"power, {state}", "W", _to_the_end(frame, steps))
    yield Counter("jobs waiting", "jobs", _to_the_end(frame, queue_of(frame)))
    cores = sum(node.cores for node in nodes_of(frame))
    used = used_cores_of(frame)
    shares = Steps(used.times_s, 100 * used.values / max(cores, 1))
    yield Counter("utilization", "%", _to_the_end(frame, shares))


def power_of(frame: Frame, state: NodeState) -> Steps:
    """Return the power of all nodes in a state over time, W."""
    columns = frame.columns
    of_state = columns["watts.state"] == NODE_STATES.index(state)
    return Steps(columns["watts.time_s"][of_state], columns["watts.power_w"][of_state])


def queue_of(frame: Frame) -> Steps:
    """Return the number of waiting jobs over time."""
    columns, periods = frame.columns, periods_of(frame)
    ended = columns["end.time_s"][last_period_of(periods)[columns["end.job"]] < 0]
    left_s = np.concatenate((columns["start.time_s"][~periods.resumes], ended))
    came_s = np.concatenate((columns["job.submit_s"], periods.end_s[periods.requeued]))
    times_s = np.concatenate((came_s, left_s))
    changes = np.concatenate((np.ones(len(came_s)), -np.ones(len(left_s))))
    return _from_start(frame, times_s, changes)


def used_cores_of(frame: Frame) -> Steps:
    """Return the number of cores that jobs hold over time."""
    columns = frame.columns
    widths = columns["box.last"].astype(np.int64) - columns["box.first"].astype(np.int64) + 1
    before = np.concatenate(([0], np.cumsum(widths)))
    boxes = np.concatenate(([0], np.cumsum(columns["start.boxes"], dtype=np.int64)))
    cores = np.diff(before[boxes]).astype(float)
    end_s = periods_of(frame).end_s
    over = np.isfinite(end_s)
    times_s = np.concatenate((columns["start.time_s"], end_s[over]))
    return _from_start(frame, times_s, np.concatenate((cores, -cores[over])))


def sums(times_s: Floats, changes: Floats) -> Steps:
    """Return the running sum of changes.

    Args:
        times_s: time of each change, s, in any order.
    """
    order = np.argsort(times_s, kind="stable")
    at_s, first = np.unique(times_s[order], return_index=True)
    return Steps(at_s, np.cumsum(np.add.reduceat(changes[order], first)))


def _from_start(frame: Frame, times_s: Floats, changes: Floats) -> Steps:
    """Return the running sum of changes; 0 at the start of the run."""
    return sums(np.append(frame.about["start_s"], times_s), np.append(0.0, changes))


def _to_the_end(frame: Frame, steps: Steps) -> Iterator[tuple[float, float]]:
    """Yield the steps, and the last value again at the end of the run."""
    samples = zip(steps.times_s.tolist(), steps.values.tolist(), strict=True)
    last = None
    for sample in samples:
        yield sample
        last = sample
    if last is not None and last[0] < frame.about["now_s"]:
        yield frame.about["now_s"], last[1]


class Unit(NamedTuple):
    """A unit of an axis or a title.

    Attributes:
        name: its symbol.
        size: its size in the unit of the data.
        least: smallest maximum of the data for which it is used, in the unit of the data.
    """

    name: str
    size: float
    least: float


TIME_UNITS = (
    Unit("days", 86400.0, 3 * 86400.0),
    Unit("hours", 3600.0, 3 * 3600.0),
    Unit("seconds", 1.0, 0.0),
)
"""Units of durations in s."""

POWER_UNITS = (Unit("MW", 1e6, 1e6), Unit("kW", 1e3, 1e3), Unit("W", 1.0, 0.0))
"""Units of powers in W."""

ENERGY_UNITS = (
    Unit("GWh", 3.6e12, 3.6e12),
    Unit("MWh", 3.6e9, 3.6e9),
    Unit("kWh", 3.6e6, 3.6e6),
    Unit("Wh", 3.6e3, 0.0),
)
"""Units of energies in J."""


def unit_for(largest: float, units: Sequence[Unit]) -> Unit:
    """Return the unit for values of which `largest` is the largest."""
    # The smallest unit, too, for a sum that rounding made negative.
    return next((unit for unit in units if largest >= unit.least), units[-1])


def with_unit(value: float, units: Sequence[Unit]) -> str:
    """Return a value >= 0 with its unit and at least three significant digits: `1.08 MWh`."""
    unit = unit_for(value, units)
    number = value / unit.size
    digits = 0 if number >= 99.95 else 1 if number >= 9.995 else 2
    return f"{number:,.{digits}f} {unit.name}"
