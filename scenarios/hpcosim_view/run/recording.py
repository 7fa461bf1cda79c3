"""Frames of a running simulation."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcosim_protocol import Platform
from hpcosim_server.service.session import Opened
from hpcosim_sim.physics.power import NODE_STATES
from hpcosim_sim.record.names import OwnerField
from hpcosim_sim.record.periods import FIRST_FINAL
from hpcosim_sim.record.recording import POWER_STATES, Recording
from hpcosim_sim.record.replay import Change, Position, PowerChange, Replay, changes_of
from hpcosim_sim.record.results import metrics_of, warnings_of
from hpcosim_view.run.csv_columns import Names
from hpcosim_view.run.folder import first_about
from hpcosim_view.run.frame import Frame, frame
from hpcosim_view.run.job_columns import WHOLE_NODES
from hpcosim_view.run.lanes import Lanes
from hpcosim_view.run.layout import Ends, Starts, boxes_of
from hpcosim_view.run.periods import SUSPENDED
from hpcosim_view.run.portion import Portion, Rows, portion_of, rows_of
from hpcosim_view.run.suspended import SuspendedPeriods

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

    Args:
        opened: the simulation.

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
