"""The schedulers and measures of the paper, and the interpretations of its ambiguous parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_experiments.report.measures import Measure

Floats = NDArray[np.float64]

WEEK_S = 7 * 86400.0
MOST_CORES = 64  # of a job and of a node
DIVISOR = 8
IDLE_W = 0.4  # idle power of a node, as table 1 prints it
TIE = 1e-9  # relative difference to the best below which two results are a tie
WELL_BEYOND = 1.25  # least makespan of Duplex, in weeks, in the representative week
BUSY = 1000  # least number of jobs of a busy week; the paper's weeks have 1393 on average
NOTEWORTHY = 1.0  # least difference that is reported, in %

# Labels of schedulers by name: the paper's two; its baselines as its program runs them, errors
# included; the same without the errors; and the same heuristics in batch mode.
OURS = {"first-high-gflops": "HighGFlops", "first-low-power": "LowPower"}
CHAINED = {
    "minmin-chained": "MinMin chained",
    "maxmin-chained": "MaxMin chained",
    "duplex-chained": "Duplex chained",
}
IMMEDIATE = {
    "minmin-immediate": "MinMin immediate",
    "maxmin-immediate": "MaxMin immediate",
    "duplex-immediate": "Duplex immediate",
}
BATCH = {"minmin": "MinMin batch", "maxmin": "MaxMin batch", "duplex": "Duplex batch"}
SCHEDULERS: Mapping[str, str] = OURS | CHAINED | IMMEDIATE | BATCH
PAPERS_DUPLEX = "duplex-chained"
FAMILIES = (CHAINED, IMMEDIATE, BATCH)

CAPS: Mapping[str, str] = {
    "clip": f"jobs clipped to {MOST_CORES} cores",
    "eighth": f"cores divided by {DIVISOR}, then clipped to {MOST_CORES}",
}
"""Caps: ways to fit the jobs of the log into one node, by name."""

IDLES: Mapping[str, str] = {
    "fraction": "idle 0.3959 x static",
    "watts": f"idle {IDLE_W} W",
    "fraction_untouched": "idle 0.3959 x static, 0 W before a node's first task",
    "watts_untouched": f"idle {IDLE_W} W, 0 W before a node's first task",
}
"""Interpretations of the power of an idle node, by name."""


class Reading(NamedTuple):
    """A measure under one interpretation of its definition.

    Attributes:
        measure: the measure, with its column in `results.csv`.
        reading: the interpretation; empty: the definition is unambiguous.
        paper: the published changes of the median relative to the baseline, in %: that of
            HighGFlops and that of LowPower.
    """

    measure: Measure
    reading: str
    paper: tuple[float, float]

    @property
    def column(self) -> str:
        """The column of the measure."""
        return self.measure.column

    @property
    def named(self) -> str:
        """The title of the measure, with the interpretation."""
        return ", ".join(filter(None, (self.measure.title, self.reading)))


def _read(
    column: str, title: str, reading: str, unit: str, scale: float, paper: tuple[float, float]
) -> Reading:
    return Reading(Measure(column, title, unit, scale), reading, paper)


READINGS: tuple[Reading, ...] = (
    _read("makespan_s", "makespan", "", "h", 3600.0, (-11.5, 11.0)),
    _read("mean_wait_s", "mean wait", "", "h", 3600.0, (-80.0, -75.0)),
    _read("slowdown_requested", "slowdown", "t_b as requested", "", 1.0, (-94.0, -75.0)),
    _read("slowdown_run", "slowdown", "t_b at 1 GHz", "", 1.0, (-94.0, -75.0)),
    *(
        _read(f"energy_{idle}_j", "energy", says, "kWh", 3.6e6, (-10.0, -17.0))
        for idle, says in IDLES.items()
    ),
    *(
        _read(f"edp_{idle}_js", "EDP", says, "MWh h", 3.6e9 * 3600.0, (-33.0, -10.0))
        for idle, says in IDLES.items()
    ),
)
DRAWN = tuple(reading for reading in READINGS if "untouched" not in reading.column)
COLUMNS = ("cap", "week", "scheduler", "jobs", *(reading.column for reading in READINGS))
"""Columns of `results.csv`, which has a row per cap, week and scheduler; weeks count from 0."""
