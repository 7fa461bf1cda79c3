"""Frames of a running simulation."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_protocol import Platform
from hpcosim_server.service.session import Opened
from hpcosim_sim.physics.power import NODE_STATES
from hpcosim_sim.record.periods import FIRST_FINAL
from hpcosim_sim.record.recording import POWER_STATES, OwnerField, Recording
from hpcosim_sim.record.replay import (
    BEGIN,
    Change,
    Position,
    PowerChange,
    Replay,
    changes_of,
    position_of,
)
from hpcosim_sim.record.results import metrics_of, warnings_of
from hpcosim_view.run.csv_columns import Names
from hpcosim_view.run.folder import first_about
from hpcosim_view.run.frame import SUSPENDED, Frame, frame
from hpcosim_view.run.job_columns import WHOLE_NODES
from hpcosim_view.run.lanes import Ends, Lanes, Starts, boxes_of

# Periods that a reader returned as suspended, and whose jobs were requeued afterwards.


class SuspendedPeriods:
    """The periods that were returned as suspended and may still be requeued."""

    def __init__(self) -> None:
        self._periods: list[int] = []

    def requeued(self, of: Recording) -> list[int]:
        """Return the periods whose jobs were requeued since the last call; they are forgotten.

        Periods are also forgotten whose jobs were resumed or are over. The time of a call is
        proportional to the number of jobs that were suspended at the last call.
        """
        found = [period for period in self._periods if of.periods.why[period] != SUSPENDED]
        self._periods = [period for period in self._periods if _is_suspended(of, period)]
        return found

    def add(self, periods: list[int]) -> None:
        """Add periods that are returned as suspended."""
        self._periods += periods


def _is_suspended(of: Recording, period: int) -> bool:
    row = of.periods.row[period]
    is_last = of.last_period[row] == period and math.isnan(of.end_s[row])
    return is_last and of.periods.why[period] == SUSPENDED


# The portion of a recording that one frame has.

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


JOB_COLUMNS = {
    "job.id": "job_id",
    "job.submit_s": "submit_s",
    "job.requested_s": "requested_s",
    "job.cores": "cores",
    "job.placement": "placement",
}
"""Columns of the recording by column of a frame."""

NAMED_COLUMNS: Mapping[str, OwnerField] = {
    "users": "user",
    "groups": "group",
    "partitions": "partition",
}
"""Columns of the recording with names, by list of names of a frame."""

DRAIN_COLUMNS = {
    "drain.time_s": "drain_s",
    "drain.node": "drain_node",
    "drain.drained": "drained",
}
"""Columns of the drains by column of a frame."""

EXPLANATION_COLUMNS = {
    "explain.job": "row",
    "explain.time_s": "time_s",
    "explain.reason": "reason",
    "explain.expected_start_s": "expected_start_s",
}
"""Columns of the explanations by column of a frame."""


class RecordingReader:
    """Returns what a running simulation gained since the last call.

    Joined by `append`, the frames are the frame of the results folder, except that

    - the energies of jobs are unknown (NaN): they are attributed at the end of a run;
    - jobs may get other cores of a node if at one instant jobs start before others end;
    - a job that was requeued while it was suspended has a second row of `pause`, with the time of
      the suspension, once the frame with the first one is out;
    - states that last no time, also those from the last instant on, may be there.

    The simulation stays as it is: power is computed by replaying the recording. The time of a call
    is proportional to what is new. Call it in the thread of the simulation, between requests.

    Attributes:
        is_behind: whether the last frame was limited: the simulation has more than was returned.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        simulation = opened.simulation
        self._recording = simulation.recording
        platform = simulation.cluster.platform
        self._replay = Replay(platform, self._recording, simulation.start_s)
        self._lanes = Lanes(platform.cores_by_node())
        self._suspended = SuspendedPeriods()
        self._seen = Rows()
        self.is_behind = False
        self._names = {key: Names() for key in NAMED_COLUMNS}
        self._power = [POWER_STATES.index("on")] * platform.node_count
        self._watts = np.zeros(len(NODE_STATES))
        self._begun = self._ended = False

    def frame(self, work: int | None = None) -> Frame:
        """Return what is new since the last call.

        The first frame has the facts of the begin, the first frame after the end of the session
        that is not limited those of the end; see `Frame`.

        Args:
            work: limit of the work of this call, about the number of starts and ends of jobs with
                few nodes; a limited frame ends with an instant, and `now_s` is this instant. None:
                no limit.
        """
        of, seen = self._recording, self._seen
        new = Portion(rows_of(of), math.inf) if work is None else portion_of(of, seen, work)
        self._seen, self.is_behind = new.rows, math.isfinite(new.until_s)
        new_power, times_s, powers_w = self._replayed(seen.changes, new.until_s)
        jobs, explained = slice(seen.jobs, new.rows.jobs), of.explanations
        columns = {
            **_columns(of, JOB_COLUMNS, jobs),
            **self._named(of, jobs),
            **self._starts_and_ends(of, seen),
            **self._power_columns(new_power),
            **self._watts_columns(times_s, powers_w),
            **_columns(of, DRAIN_COLUMNS, slice(seen.drains, new.rows.drains)),
            **_columns(
                explained, EXPLANATION_COLUMNS, slice(seen.explanations, new.rows.explanations)
            ),
        }
        about = self._about(min(new.until_s, self._opened.simulation.now_s))
        about["reasons"] = explained.reasons[seen.reasons : new.rows.reasons]
        return frame(about, columns)

    def _about(self, now_s: float) -> dict[str, Any]:
        """Return the facts, without the lists of names that `_named` has not numbered."""
        opened = self._opened
        simulation, run = opened.simulation, opened.run
        about: dict[str, Any] = {"now_s": now_s, **self._new_names}
        if not self._begun:
            self._begun = True
            platform = simulation.cluster.platform
            about |= first_about(run, platform, simulation.start_s)
        if run.ended_because and not (self._ended or self.is_behind):
            self._ended = True
            record = simulation.record()
            about |= {
                "ended_because": run.ended_because,
                "complete": run.complete,
                "metrics": metrics_of(record, run),
                "warnings": warnings_of(record, run),
            }
        return about

    def _named(self, of: Recording, jobs: slice) -> dict[str, Any]:
        """Return the columns of users, groups and partitions of jobs."""
        columns: dict[str, Any] = {}
        self._new_names: dict[str, list[str]] = {}
        for key, name in NAMED_COLUMNS.items():
            names, before = self._names[key], len(self._names[key])
            columns[f"job.{name}"] = names(of.owners.names(name, jobs))
            self._new_names[key] = names.since(before)
        return columns

    def _starts_and_ends(self, of: Recording, seen: Rows) -> dict[str, Any]:
        """Return the new columns of `start`, `box` and `end`."""
        new = self._seen
        starts, ends = _starts_and_ends(of, seen, new)
        why = _values(of.periods.why, ends.period)
        final, paused = ends.period[why >= FIRST_FINAL], ends.period[why < FIRST_FINAL]
        # Requeues first: their times are not after those of the other pauses.
        paused = np.append(np.array(self._suspended.requeued(of), np.int64), paused)
        paused_why = _values(of.periods.why, paused)
        self._suspended.add(paused[paused_why == SUSPENDED].tolist())
        idle = of.ended_idle[seen.ended_idle : new.ended_idle]
        over = np.concatenate([_values(of.periods.row, final), np.array(idle, np.int64)])
        time_s = _values(of.end_s, over)
        order = np.lexsort((over, time_s))
        return {
            **boxes_of(self._lanes, starts, ends),
            "pause.start": paused,
            "pause.time_s": _values(of.periods.end_s, paused),
            "pause.why": paused_why,
            "end.job": over[order],
            "end.time_s": time_s[order],
            "end.state": _values(of.state, over[order]),
            "end.energy_j": np.full(len(over), np.nan),
        }

    def _replayed(
        self, since: Position, until_s: float
    ) -> tuple[list[tuple[float, int, int]], list[float], list[list[float]]]:
        """Replay the new changes up to a time, s.

        Returns:
            Time, node and state of each change of power states; and for each instant with changes
            its time, s, and the power of all nodes by node state, W.
        """
        replay, of = self._replay, self._recording
        for kind in of.kinds[len(replay.cluster.kinds) - len(replay.cluster.platform.nodes) :]:
            replay.cluster.add_kind(kind, self._opened.simulation.start_s)
        off: list[int] = []
        if len(of.kind_at) > since.kinds:
            off = [node for node, state in enumerate(replay.power) if state != "on"]
        power: list[tuple[float, int, int]] = []
        times_s, powers_w = [], []
        if not self._begun:
            times_s.append(self._opened.simulation.start_s)
            powers_w.append(_power_by_state(replay))
        changes = takewhile(lambda change: change.time_s <= until_s, changes_of(of, since, off))
        for time_s, together in groupby(changes, key=itemgetter(0)):
            for change in together:
                replay.apply(change)
                power += _entries(change)
            times_s.append(time_s)
            powers_w.append(_power_by_state(replay))
        return power, times_s, powers_w

    def _power_columns(self, changes: list[tuple[float, int, int]]) -> dict[str, Any]:
        """Return the columns of `power`, without states that last no time."""
        last = {(time_s, node): state for time_s, node, state in changes}
        found = []
        for (time_s, node), state in sorted(last.items()):
            if self._power[node] != state:
                self._power[node] = state
                found.append((time_s, node, state))
        times_s, nodes, states = zip(*found, strict=True) if found else ((), (), ())
        return {"power.time_s": times_s, "power.node": nodes, "power.state": states}

    def _watts_columns(self, times_s: list[float], powers_w: list[list[float]]) -> dict[str, Any]:
        """Return the columns of `watts`: one row for each state whose power has changed."""
        if not times_s:
            return {}
        at_s, values = np.array(times_s), np.array(powers_w)
        last = np.append(at_s[1:] != at_s[:-1], True)
        at_s, values = at_s[last], values[last]
        changed = np.diff(values, axis=0, prepend=self._watts[None]) != 0.0
        self._watts = values[-1]
        instant, state = np.nonzero(changed)
        return {
            "watts.time_s": at_s[instant],
            "watts.state": state,
            "watts.power_w": values[instant, state],
        }


def recorded_boxes(platform: Platform, recording: Recording) -> dict[str, Any]:
    """Return the columns of `start` and `box` of a run."""
    lanes = Lanes(platform.cores_by_node())
    return boxes_of(lanes, *_starts_and_ends(recording, Rows(), rows_of(recording)))


def _starts_and_ends(of: Recording, seen: Rows, new: Rows) -> tuple[Starts, Ends]:
    """Return the starts and ends of jobs after some rows, up to others."""
    changes = np.array(of.changes[seen.changes.changes : new.changes.changes], np.int64)
    periods, ended = of.periods, ~changes[changes < 0]
    begun = slice(seen.periods, new.periods)
    job = np.array(periods.row[begun], np.int64)
    places, nodes, tasks = periods.placements(seen.periods, new.periods)
    starts = Starts(
        np.arange(seen.periods, new.periods),
        job,
        np.array(periods.start_s[begun]),
        _values(of.placement, job) == WHOLE_NODES,
        np.concatenate([[0], np.cumsum(places, dtype=np.int64)]),
        nodes.astype(np.int64),
        tasks.astype(np.int64),
    )
    return starts, Ends(ended, _values(periods.end_s, ended))


def _columns(of: object, columns: dict[str, str], rows: slice) -> dict[str, Any]:
    return {name: getattr(of, column)[rows] for name, column in columns.items()}


def _values(column: array[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Return the values of rows; their number counts, not that of all rows."""
    return np.array([column[row] for row in rows.tolist()], np.dtype(column.typecode))


def _power_by_state(replay: Replay) -> list[float]:
    """Return the power of all nodes by node state, W."""
    meters = replay.cluster.meters
    return [sum(powers) for powers in zip(*(m.state_power_w for m in meters), strict=True)]


def _entries(change: Change) -> Iterable[tuple[float, int, int]]:
    """Return time, node and state of the changes of power states of a change."""
    if not isinstance(change, PowerChange):
        return ()
    code = POWER_STATES.index(change.state)
    return [(change.time_s, node, code) for node in change.nodes]
