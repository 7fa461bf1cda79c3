"""The readings of what the paper leaves open, the measures, and the schedulers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_scenarios.model.scenario import Scalar
from hpcosim_studies.measures import Measure
from hpcosim_studies.papers import scenario_path

Floats = NDArray[np.float64]

WHOLE_LOG: Mapping[str, Scalar] = {"workload.window_s": None, "workload.max_cores": None}
WEEK_S = 7 * 86400.0
MOST_CORES = 64  # of a job, and of a node
DIVISOR = 8
IDLE_W = 0.4  # of every node, by the letter of table 1
TIE = 1e-9  # results this close to the best, relative to it, are as good
WELL_BEYOND = 1.25  # weeks; so long is Duplex's makespan in the week drawn
BUSY = 1000  # jobs; weeks as full as those of the paper, which have 1393 on average
NOTEWORTHY = 1.0  # %; less is called no difference

# Label of each scheduler, by its name: the paper's own two; its baselines as its program runs
# them, with their slips, and without these; and the same heuristics in a fair mode.
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
"""How the log's jobs are made to fit into one node, by name."""

IDLES: Mapping[str, str] = {
    "fraction": "idle 0.3959 x static",
    "watts": f"idle {IDLE_W} W",
    "fraction_untouched": "idle 0.3959 x static, 0 W before a node's first task",
    "watts_untouched": f"idle {IDLE_W} W, 0 W before a node's first task",
}
"""What an idle node draws, by name."""


class Reading(NamedTuple):
    """A measure, in one reading of its definition.

    Attributes:
        measure: a column of `results.csv`.
        reading: of the definition; empty: it is not ambiguous.
        paper: the paper's changes of the median against the baseline, %, by HighGFlops and by
            LowPower.
    """

    measure: Measure
    reading: str
    paper: tuple[float, float]

    @property
    def column(self) -> str:
        """The measure's column."""
        return self.measure.column

    @property
    def named(self) -> str:
        """The measure's title, with the reading."""
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
"""Of `results.csv`: a row for each week, counted from 0, under a scheduler."""


def base() -> Path:
    """Return the scenario of the study."""
    return scenario_path("node_centric", "kit")
