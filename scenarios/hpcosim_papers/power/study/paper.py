"""The scenarios of the study, and the results that its paper publishes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hpcosim_experiments.report.measures import Measure
from hpcosim_papers.studies.papers import scenario_path
from hpcosim_schedulers.heuristics.power_aware import Awareness

AWARENESSES: tuple[Awareness, ...] = ("unaware", "aware", "planned")
"""Power awareness of the job schedulers. The paper does not specify it."""

AGENTS_AWARENESS: Awareness = "aware"
"""Power awareness of the job scheduler in training and test of the paper's agents."""

PAPERS_TIMEOUT_MIN = 15
"""Timeout with the least wasted energy in the paper (figure 12), min."""

WASTED = Measure("wasted_energy_j", "wasted energy", "GJ", 1e9, 2)
WAIT = Measure("mean_wait_s", "mean wait", "s")
FILLING = Measure("job_filling_rate", "job-filling rate", "%", 0.01, 1)
"""Equation 15."""

SHUTDOWNS = Measure("node_shutdowns", "node shutdowns")
ENERGY = Measure("energy_j", "energy in all", "GJ", 1e9, 2)
MAX_WAIT = Measure("max_wait_s", "longest wait", "h", 3600.0, 1)

METRICS = (
    "mean_wait_s",
    "max_wait_s",
    "wasted_energy_j",
    "energy_j",
    "node_shutdowns",
    "job_filling_rate",
    "mean_response_s",
    "mean_slowdown",
)
"""The metrics of the paper."""

COLUMNS = ("scenario", "cluster", "kind", "manager", "awareness", "seed", *METRICS)
"""Columns of `results.csv`."""


def scenario_file() -> Path:
    """Return the scenario of the last 20 % of the log."""
    return scenario_path("power", "test")


class Paper(NamedTuple):
    """Values in the paper's text, in % or percentage points.

    Attributes:
        wasted_to_timeout: wasted energy of the Best Agent, change from the 15-min timeout.
        wasted_to_no_cl: wasted energy of the Best Agent, change from no curriculum.
        wait_to_timeout: mean wait of the Best Agent, change from the 15-min timeout.
        wait_to_no_cl: mean wait of the easy-to-hard curricula, change from no curriculum.
        filling_all_on: job-filling rate with all nodes on.
        filling_gain: job-filling rate of the Best Agent minus `filling_all_on`.
        filling_to_timeout: job-filling rate of the Best Agent minus that of the 15-min timeout.
    """

    wasted_to_timeout: float = -4.66
    wasted_to_no_cl: float = -3.73
    wait_to_timeout: float = -13.02
    wait_to_no_cl: tuple[float, float] = (-44.75, -43.84)
    filling_all_on: float = 48.17
    filling_gain: float = 32.70
    filling_to_timeout: float = 2.0


PAPER = Paper()

PEER = (
    {"timeout_s": 300, "mean_wait_s": 1260, "wasted_energy_j": 6.29e9},
    {"timeout_s": 900, "mean_wait_s": 968, "wasted_energy_j": 6.87e9},
    {"timeout_s": 3600, "mean_wait_s": 443, "wasted_energy_j": 9.21e9},
)
"""Results of SPARS, another simulator, with its planned EASY on the same jobs and nodes."""

CURRICULA: Mapping[str, str] = {
    "sampled-real-synthetic": "easy to hard",
    "sampled-synthetic-real": "easy to hard",
    "real-sampled-synthetic": "hard, easy, hard",
    "synthetic-sampled-real": "hard, easy, hard",
    "real-synthetic-sampled": "hard to easy",
    "synthetic-real-sampled": "hard to easy",
    "real": "no curriculum",
}
"""The curricula in the order of tables and figures, with the paper's names for them (figure 7).

Without curriculum an agent learns from the real workload only, with three times the iterations.
"""

BEST = "sampled-real-synthetic"
NO_CL = "real"
UNTRAINED = "untrained"


def agent_name(curriculum: str) -> str:
    """Return the name of the agents of a curriculum in tables, the same for all seeds."""
    return f"A2C {CURRICULA[curriculum] if curriculum == NO_CL else curriculum}"


CLUSTERS: Mapping[str, Sequence[str]] = {
    "off/on": ("off/on 30/45 min", "off/on 20/30 min", "off/on 10/15 min"),
    "sleep/active": ("sleep/active 9/190 W", "sleep/active 90/190 W", "sleep/active 9/100 W"),
    "nodes": ("128 nodes", "160 nodes", "256 nodes"),
}
"""The clusters of figure 17 (section 5.5) by family; the first of each family is the study's."""
