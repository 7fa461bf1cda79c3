"""The boxes of jobs: starts and ends of jobs in order, with the cores that the jobs get."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_view.errors import ReadResultsError
from hpcosim_view.run.lanes import MANY_NODES, Integers, Lanes

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class LayoutError(ReadResultsError):
    """A job takes cores that are not free.

    Attributes:
        start: index of its start.
    """

    def __init__(self, start: int, what: str) -> None:
        super().__init__(what)
        self.start = start


class Starts(NamedTuple):
    """Begins of computing periods in chronological order.

    Attributes:
        period: number of the period.
        job: row of the job.
        time_s: start time, s.
        whole: whether the job holds all cores of its nodes.
        first: index of the first node in `nodes` and `tasks`; one more element than starts.
        nodes: node numbers.
        tasks: number of tasks on each node.
    """

    period: Ints
    job: Ints
    time_s: Floats
    whole: NDArray[np.bool_]
    first: Ints
    nodes: Ints
    tasks: Ints


class Ends(NamedTuple):
    """Ends of computing periods: number of the period, and time, s."""

    period: Ints
    time_s: Floats


def boxes_of(lanes: Lanes, starts: Starts, ends: Ends) -> dict[str, Any]:
    """Return the columns of `start` and `box`.

    At one instant periods that began earlier end first. A period that lasts no time ends directly
    after its begin.

    Args:
        lanes: the free cores.
        starts: the starts.
        ends: the ends of these periods or of periods before.

    Raises:
        LayoutError: a job takes cores that are not free.
    """
    count = len(starts.job)
    boxes: list[tuple[int, int]] = []
    boxes_of_start = np.zeros(count, np.int64)
    first, period, ended = starts.first.tolist(), starts.period.tolist(), ends.period.tolist()
    for event in _in_order(starts, ends).tolist():
        if event >= count:
            lanes.release(ended[event - count])
            continue
        part = slice(first[event], first[event + 1])
        nodes: Integers = starts.nodes[part]
        tasks: Integers = starts.tasks[part]
        if len(nodes) < MANY_NODES:
            nodes, tasks = starts.nodes[part].tolist(), starts.tasks[part].tolist()
        try:
            taken = lanes.take(period[event], nodes, None if starts.whole[event] else tasks)
        except ReadResultsError as error:
            raise LayoutError(event, str(error)) from None
        boxes_of_start[event] = len(taken)
        boxes += taken
    edges = np.array(boxes, np.int64).reshape(-1, 2)
    return {
        "start.job": starts.job,
        "start.time_s": starts.time_s,
        "start.boxes": boxes_of_start,
        "box.first": edges[:, 0],
        "box.last": edges[:, 1],
    }


def _in_order(starts: Starts, ends: Ends) -> Ints:
    """Return starts and ends in order: start i as i, end j as j + number of starts."""
    count = len(starts.job)
    number = np.arange(count)
    by_period = np.argsort(starts.period, kind="stable")
    sorted_periods = starts.period[by_period]
    at = np.searchsorted(sorted_periods, ends.period)
    among = at < count
    among[among] = sorted_periods[at[among]] == ends.period[among]
    start = np.full(len(ends.period), -1, np.int64)  # the start of each period that ends
    start[among] = by_period[at[among]]
    instant = among.copy()
    instant[among] = starts.time_s[start[among]] == ends.time_s[among]
    time_s = np.concatenate([starts.time_s, ends.time_s])
    group = np.concatenate([np.ones(count), instant])  # ends of earlier periods precede starts
    order = np.concatenate([number, start])
    is_end = np.arange(count + len(ends.period)) >= count
    return np.lexsort((is_end, order, group, time_s))
