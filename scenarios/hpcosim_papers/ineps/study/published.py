"""Published results of the papers' agent.

They are those of tables 4.6, 4.11, 4.14, 4.15 and 4.18 of the thesis; for Experiment 4, of table 7
of the paper.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from hpcosim_papers.ineps.agent.settings import Objective

Base = Literal[
    "best as run",
    "low-mem-ops-high-mem-bw",
    "none-none",
    "first-high-gflops",
    "first-high-cores",
    "first-high-mem-bw",
]


class Published(NamedTuple):
    """Reductions relative to a heuristic over 100 runs.

    Attributes:
        experiment: name of the scenario.
        variant: a key of `VARIANTS`.
        objective: objective of the agent.
        base: the heuristic; `best as run`: the best of the 36 as the papers' program runs them.
            In Experiment 1 the thesis names another heuristic as the best.
        energy: maximum, mean and minimum reduction of energy, in %.
        edp: maximum, mean and minimum reduction of the energy-delay product, in %; None: not
            published.
    """

    experiment: str
    variant: str
    objective: Objective
    base: Base
    energy: tuple[float, float, float]
    edp: tuple[float, float, float] | None = None


_RUN: Base = "best as run"
_BW: Base = "low-mem-ops-high-mem-bw"
_NO_ENERGY = "papers, no energy features"
_GFLOPS: Base = "first-high-gflops"
_CORES: Base = "first-high-cores"
_MEM_BW: Base = "first-high-mem-bw"

PUBLISHED = (
    Published("exp1", "papers", "energy", _BW, (20.20, 11.84, 0.28), (35.04, 22.54, 5.26)),
    Published("exp1", "papers", "edp", _BW, (20.20, 11.84, 0.28), (35.04, 22.54, 5.26)),
    Published("exp1", "papers, wait", "energy", _BW, (20.58, 14.05, 0.03), (55.58, 29.13, 2.20)),
    Published("exp1", "papers, wait", "edp", _BW, (20.58, 8.80, -0.09), (55.58, 20.01, 1.77)),
    Published("exp2", "papers", "energy", _RUN, (26.02, 26.01, 26.00), (48.60, 48.59, 48.57)),
    Published("exp2", "papers", "edp", _RUN, (28.46, 28.25, 24.71), (55.62, 55.24, 49.22)),
    Published("exp2", _NO_ENERGY, "energy", _RUN, (28.45, 28.10, 23.22), (55.61, 54.96, 42.28)),
    Published("exp3", "papers", "energy", _RUN, (3.37, -19.52, -61.58), (3.21, -90.49, -286.22)),
    Published("exp3", "papers", "edp", _RUN, (3.46, -16.87, -59.99), (3.33, -79.63, -285.67)),
    Published(
        "exp3", "papers", "energy", "none-none", (40.18, 26.01, -0.03), (71.52, 43.96, -13.62)
    ),
    Published("exp3", "papers", "edp", "none-none", (40.23, 27.65, 0.96), (71.56, 47.16, -13.46)),
    Published("exp4_mem", "papers", "energy", _GFLOPS, (12.66, -1.31, -12.87)),
    Published("exp4_mem", "papers", "energy", _CORES, (15.32, 1.77, -9.43)),
    Published("exp4_mem", "papers", "energy", _MEM_BW, (21.98, 9.50, -0.83)),
    Published("exp4_comp", "papers", "energy", _GFLOPS, (23.36, 4.02, -0.35)),
    Published("exp4_comp", "papers", "energy", _CORES, (2.28, -22.37, -27.95)),
    Published("exp4_comp", "papers", "energy", _MEM_BW, (23.36, 4.02, -0.35)),
)
