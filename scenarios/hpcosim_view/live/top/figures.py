"""The figures above the tables: nodes by state, cores, power and queue, with their histories."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_sim.physics.power import NODE_STATES
from hpcosim_sim.record.recording import POWER_STATES
from hpcosim_view.run.frame import Frame
from hpcosim_view.run.moment import Moment
from hpcosim_view.runs import Floats
from hpcosim_view.steps import power_of, queue_of, used_cores_of

POINTS = 60
"""Number of points of a history."""


class Histories:
    """Power, queue length and cores in use of a run over time.

    Args:
        frame: the run so far.
    """

    def __init__(self, frame: Frame) -> None:
        self._start_s = float(frame.about["start_s"])
        self._power = [power_of(frame, state) for state in NODE_STATES]
        self._queue, self._cores = queue_of(frame), used_cores_of(frame)
        self._power_until_s = _power_until_s(frame)

    def power_is_known(self, at_s: float) -> bool:
        """Return whether the run has the power at a time.

        The periods of a results folder end at the end of the run, so the power after the last
        event is not among them.
        """
        return at_s < self._power_until_s

    def at(self, now_s: float) -> Mapping[str, Floats]:
        """Return `POINTS` values from the begin of the run to a time, by name.

        Args:
            now_s: simulated time, s.

        Returns:
            `cores`: cores that jobs hold. `power`: power of all nodes, W. `queue`: waiting jobs.
        """
        times_s = np.linspace(self._start_s, now_s, POINTS)
        return {
            "cores": self._cores.at(times_s),
            "power": sum((each.at(times_s) for each in self._power), np.zeros(POINTS)),
            "queue": self._queue.at(times_s),
        }


class Figures(NamedTuple):
    """Figures of a moment.

    Attributes:
        nodes: number of nodes by state: `allocated`, `mixed`, `idle`, or a power state.
        cores: number of cores, and of those that jobs hold.
    """

    nodes: Mapping[str, int]
    cores: tuple[int, int]


def figures_of(then: Moment) -> Figures:
    """Return the figures of a moment."""
    nodes = then.nodes
    is_on = nodes.power == POWER_STATES.index("on")
    full, empty = nodes.allocated >= nodes.cores, nodes.allocated == 0
    counts: dict[str, NDArray[np.bool_]] = {
        "allocated": is_on & full & ~empty,
        "mixed": is_on & ~full & ~empty,
        "idle": is_on & empty,
        **{name: nodes.power == POWER_STATES.index(name) for name in POWER_STATES if name != "on"},
    }
    found = {name: int(chosen.sum()) for name, chosen in counts.items()}
    return Figures(found, (int(nodes.cores.sum()), int(nodes.allocated.sum())))


def _power_until_s(frame: Frame) -> float:
    """Return the time from which the power is unknown, s: never, or the end of the run."""
    columns, end_s = frame.columns, frame.about["now_s"]
    changes = ("start.time_s", "pause.time_s", "end.time_s", "power.time_s")
    changed = any((columns[name] == end_s).any() for name in changes)
    recorded = (columns["watts.time_s"] == end_s).any()
    over = bool(frame.about.get("ended_because"))
    return float(end_s) if over and changed and not recorded else math.inf
