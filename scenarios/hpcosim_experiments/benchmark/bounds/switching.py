"""The clairvoyant switching of nodes, as an oracle of energy and wait."""

from __future__ import annotations

from hpcosim_experiments.benchmark.instances import policy_of
from hpcosim_experiments.benchmark.suite import InstanceFile, Suite
from hpcosim_scenarios.running.library import LoadedScenario
from hpcosim_scenarios.running.run import run_chosen


def clairvoyant_score(suite: Suite, instance: InstanceFile, loaded: LoadedScenario) -> float:
    """Return the score of the power manager `oracle` with the scheduler of the reference.

    It knows all jobs, keeps the schedule of the run in which all nodes are always on, and switches
    nodes for the least wasted energy that delays no job. It is no lower bound: a scheduler with
    another order of jobs, or one that delays jobs, can have a smaller score.
    """
    scheduler, oracle = suite.file.reference.scheduler, {"name": "oracle"}
    chosen = policy_of(suite, instance, loaded, scheduler, oracle, "unaware")
    return suite.file.score_of(run_chosen(chosen, loaded, None))
