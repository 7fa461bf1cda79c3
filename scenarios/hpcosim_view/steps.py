"""Numbers of a run over time: power by state, queue length, utilization."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from hpcosim_sim.physics.power import NODE_STATES, NodeState
from hpcosim_view.run.frame import Frame
from hpcosim_view.run.periods import periods_of
from hpcosim_view.runs import Floats, last_period_of, nodes_of


class Counter(NamedTuple):
    """A number over time.

    Attributes:
        name: name.
        unit: unit.
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
        changes: the changes.
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
