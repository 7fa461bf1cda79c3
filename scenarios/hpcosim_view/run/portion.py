"""The portion of a recording that one frame has."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from hpcosim_sim.record.recording import Recording
from hpcosim_sim.record.replay import BEGIN, Position, position_of

PLACES_OF_A_CHANGE = 10
"""Number of nodes of a job that take as long as the fixed part of its start or end."""


class Rows(NamedTuple):
    """Numbers of rows of a recording, from its begin.

    Attributes:
        jobs: number of jobs.
        periods: number of computing periods.
        changes: number of changes of jobs and nodes.
        ended_idle: number of jobs that were over while none of their tasks ran.
        drains: number of changes of drains.
        explanations: number of explanations.
        reasons: number of different reasons of explanations.
    """

    jobs: int = 0
    periods: int = 0
    changes: Position = BEGIN
    ended_idle: int = 0
    drains: int = 0
    explanations: int = 0
    reasons: int = 0


class Portion(NamedTuple):
    """Rows up to a time.

    Attributes:
        rows: the numbers of rows.
        until_s: simulated time up to which they are complete, s; infinity: they are all rows.
    """

    rows: Rows
    until_s: float


def rows_of(of: Recording) -> Rows:
    """Return the numbers of all rows so far."""
    return Rows(
        len(of),
        len(of.periods),
        position_of(of),
        len(of.ended_idle),
        len(of.drained),
        len(of.explanations),
        len(of.explanations.reasons),
    )


def portion_of(of: Recording, seen: Rows, work: int) -> Portion:
    """Return what follows some rows, up to the end of an instant.

    Args:
        of: the recording.
        seen: the rows that earlier frames have.
        work: number of changes of jobs with few nodes, of changes of nodes, and of explanations,
            after which the portion ends with its instant.
    """
    until_s = min(_limits_s(of, seen, work), default=math.inf)
    everything = rows_of(of)
    if not math.isfinite(until_s):
        return Portion(everything, until_s)
    changes = Position(
        bisect_right(of.changes, until_s, seen.changes.changes, key=lambda c: _time_s(of, c)),
        bisect_right(of.power_s, until_s, seen.changes.power),
        bisect_right(of.kind_s, until_s, seen.changes.kinds),
    )
    codes = of.changes[seen.changes.changes : changes.changes]
    rows = Rows(
        bisect_right(of.submit_s, until_s, seen.jobs),
        seen.periods + sum(code >= 0 for code in codes),
        changes,
        bisect_right(of.ended_idle, until_s, seen.ended_idle, key=of.end_s.__getitem__),
        bisect_right(of.drain_s, until_s, seen.drains),
        bisect_right(of.explanations.time_s, until_s, seen.explanations),
        everything.reasons,
    )
    return Portion(rows, math.inf if rows == everything else until_s)


def _limits_s(of: Recording, seen: Rows, work: int) -> Iterator[float]:
    """Yield the time, s, at which each column with more rows than the limit must end."""
    next_codes = of.changes[seen.changes.changes : seen.changes.changes + work]
    codes = np.array(next_codes, np.int64)
    periods = np.where(codes < 0, ~codes, codes).tolist()
    costs = np.cumsum([PLACES_OF_A_CHANGE + of.periods.places[period] for period in periods])
    last = int(np.searchsorted(costs, work * PLACES_OF_A_CHANGE))
    if last < len(codes):
        yield _time_s(of, next_codes[last])
    times_s = (
        (of.power_s, seen.changes.power),
        (of.kind_s, seen.changes.kinds),
        (of.explanations.time_s, seen.explanations),
    )
    for column, first in times_s:
        if len(column) - first > work:
            yield column[first + work]


def _time_s(of: Recording, code: int) -> float:
    """Return the time of an entry of `changes`, s."""
    return of.periods.start_s[code] if code >= 0 else of.periods.end_s[~code]
