"""A lower bound of energy and EDP for jobs on heterogeneous nodes."""

from __future__ import annotations

from typing import Literal

from hpcosim_benchmark.suite import InstanceFile, Suite
from hpcosim_scenarios.planning.optimum.search import find_optimum
from hpcosim_scenarios.running.library import LoadedScenario

MAX_STATES = 2000
"""States after which the search ends: a few seconds on the larger instances."""


def least_energy_or_edp(suite: Suite, instance: InstanceFile, loaded: LoadedScenario) -> float:
    """Return a lower bound of `energy_j` or `edp_js` over all schedules.

    It is the bound of a branch and bound search (`hpcosim_scenarios.planning.optimum`) that ends
    after 2,000 states. On the smallest instances the search is complete, and the bound is the
    optimum over schedules that decide at submissions and completions.
    """
    objective: Literal["energy", "edp"] = "edp" if "edp_js" in suite.file.score else "energy"
    return find_optimum(loaded.scenario, loaded.jobs, objective, "any", MAX_STATES).bound
