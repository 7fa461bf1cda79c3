"""Energy of a run at each event."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from hpcosim_batsim.bridge.switch_log import EnergyEntry
from hpcosim_batsim.outputs.model import EnergyPoint
from hpcosim_sim.record.replay import JobChange, PowerChange, Replay, changes_of
from hpcosim_sim.record.run_record import RunRecord


class EnergyLog(Struct):
    """Energy of a run over time.

    Attributes:
        points: energy of all hosts at each event, by time.
        before_j: energy before the first submission, J; 0 if nothing changed after it.
    """

    points: list[EnergyPoint]
    before_j: float = 0.0


def energy_log(record: RunRecord, switches: Iterable[EnergyEntry] | None) -> EnergyLog:
    """Return the energy of a run.

    Args:
        record: the run.
        switches: energy at requests to change pstates and at their ends; None: each change of power
            in the recording is a request or an end.
    """
    replay = Replay(record.platform, record.recording, record.start_s)
    log, of_requests = EnergyLog([]), deque(switches or ())
    first_s = min(record.recording.submit_s, default=record.start_s)
    starts_and_ends, before = 0, True
    for change in changes_of(record.recording):
        if before and first_s <= change.time_s:
            log.before_j, before = replay.cluster.energy_j(first_s), False
        if isinstance(change, JobChange):
            while of_requests and of_requests[0].after <= starts_and_ends:
                log.points.append(_point_of(of_requests.popleft()))
            starts_and_ends += 1
            replay.apply(change)
            log.points.append(_point(replay, change.time_s, "s" if change.starts else "e"))
        elif switches is None and isinstance(change, PowerChange):
            requested = _point(replay, change.time_s, "p")
            replay.apply(change)
            begins = change.state.startswith("switching")
            log.points.append(requested if begins else _point(replay, change.time_s, "p"))
        else:
            replay.apply(change)
    log.points += map(_point_of, of_requests)
    return log


def _point(replay: Replay, time_s: float, kind: Literal["s", "e", "p"]) -> EnergyPoint:
    cluster = replay.cluster
    return EnergyPoint(time_s, cluster.energy_j(time_s), kind, cluster.idle_power_w)


def _point_of(entry: EnergyEntry) -> EnergyPoint:
    return EnergyPoint(entry.time_s, entry.energy_j, "p", entry.idle_w)
