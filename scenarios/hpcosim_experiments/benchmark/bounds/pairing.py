"""A lower bound of energy and EDP for jobs on heterogeneous nodes."""

from __future__ import annotations

from typing import Literal

from hpcosim_experiments.benchmark.suite import InstanceFile, Suite
from hpcosim_scenarios.planning.optimum.bound import lower_bound
from hpcosim_scenarios.planning.optimum.instance import Instance
from hpcosim_scenarios.planning.optimum.search import find_optimum
from hpcosim_scenarios.running.library import LoadedScenario

MOST_SEARCHED = 20
"""Number of jobs up to which the optimum is searched: 0.3 s; it grows exponentially."""


def least_energy_or_edp(suite: Suite, instance: InstanceFile, loaded: LoadedScenario) -> float:
    """Return a lower bound of `energy_j` or `edp_js`.

    For each makespan that the nodes allow, jobs go where they cost the least energy above idle
    power, with no more jobs on a node than can end there by then; the nodes draw their idle power
    over the makespan. The bound is the minimum over all makespans, and holds for all schedules
    (`hpcosim_scenarios.planning.optimum.bound` has the proof). Up to 20 jobs it is the optimum over
    the schedules that decide at submissions and completions, by branch and bound with that bound.
    """
    objective: Literal["energy", "edp"] = "edp" if "edp_js" in suite.file.score else "energy"
    if len(loaded.jobs) <= MOST_SEARCHED:
        return find_optimum(loaded.scenario, loaded.jobs, objective, "any").bound
    return lower_bound(Instance(loaded.scenario, loaded.jobs), objective)
