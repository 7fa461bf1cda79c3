"""Numbers of a run over time: power by state, queue length, utilization."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from hpcosim_results.frame import Frame
from hpcosim_server.physics.power import NODE_STATES
from hpcosim_view.export.runs import Floats, by_job, job_changes, nodes_of


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


def counters_of(frame: Frame) -> Iterator[Counter]:
    """Yield the counters of a run: power of the nodes by state, queue length, utilization."""
    columns, start_s, now_s = frame.columns, frame.about["start_s"], frame.about["now_s"]
    for code, state in enumerate(NODE_STATES):
        of_state = columns["watts.state"] == code
        times_s, power_w = columns["watts.time_s"][of_state], columns["watts.power_w"][of_state]
        if len(times_s):
            samples = zip(times_s.tolist(), power_w.tolist(), strict=True)
            yield Counter(f"power, {state}", "W", _to_the_end(samples, now_s))
    yield Counter("jobs waiting", "jobs", _to_the_end(_queue(frame), now_s))
    cores = sum(node.cores for node in nodes_of(frame))
    used = _sums(start_s, *_cores_in_use(frame))
    shares = ((time_s, 100 * count / cores) for time_s, count in used)
    yield Counter("utilization", "%", _to_the_end(shares, now_s))


def _queue(frame: Frame) -> Iterator[tuple[float, float]]:
    """Yield the number of waiting jobs from each time on."""
    columns = frame.columns
    went_s = by_job(frame, "end.job", "end.time_s")  # rejected, unless it started
    went_s[columns["start.job"]] = columns["start.time_s"]
    left_s = went_s[np.isfinite(went_s)]
    times_s = np.concatenate((columns["job.submit_s"], left_s))
    steps = np.concatenate((np.ones(len(columns["job.id"])), -np.ones(len(left_s))))
    return _sums(frame.about["start_s"], times_s, steps)


def _cores_in_use(frame: Frame) -> tuple[Floats, Floats]:
    """Return the times, s, at which jobs start and end, and the cores that they take or free."""
    columns = frame.columns
    last = np.concatenate(([0], np.cumsum(columns["start.boxes"], dtype=np.int64)))
    widths = columns["box.last"].astype(np.int64) - columns["box.first"].astype(np.int64) + 1
    before = np.concatenate(([0], np.cumsum(widths)))
    cores = np.diff(before[last])
    changes = list(job_changes(frame))
    times_s = np.array([change.time_s for change in changes])
    signs = np.array([1 if change.starts else -1 for change in changes], np.int64)
    return times_s, signs * cores[np.array([change.start for change in changes], np.int64)]


def _sums(start_s: float, times_s: Floats, steps: Floats) -> Iterator[tuple[float, float]]:
    """Yield the running sum of steps at each time with a step; 0 at the start."""
    times_s, steps = np.append(start_s, times_s), np.append(0.0, steps)
    order = np.argsort(times_s, kind="stable")
    at_s, first = np.unique(times_s[order], return_index=True)
    sums = np.cumsum(np.add.reduceat(steps[order], first))
    return zip(at_s.tolist(), sums.tolist(), strict=True)


def _to_the_end(
    samples: Iterable[tuple[float, float]], now_s: float
) -> Iterator[tuple[float, float]]:
    """Yield samples, and the last one again at the end of the run."""
    last = None
    for sample in samples:
        yield sample
        last = sample
    if last is not None and last[0] < now_s:
        yield now_s, last[1]
