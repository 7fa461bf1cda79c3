"""A run of the study's scenarios under a power manager."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from hpcosim_client.catalogue.power import Oracle, Power, title, with_power
from hpcosim_scenarios.errors import RunError
from hpcosim_scenarios.model.scenario import Scalar
from hpcosim_scenarios.running.chosen import Chosen, awareness_of
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_scenarios.running.run import run_chosen
from hpcosim_studies.power.settings import AS_IT_IS, Setting, changed

KEPT = (
    "mean_wait_s",
    "max_wait_s",
    "wasted_energy_j",
    "energy_j",
    "node_shutdowns",
    "job_filling_rate",
    "mean_response_s",
    "mean_slowdown",
)
"""The metrics that the paper looks at."""

Metrics = Mapping[str, float]


def run_test(
    path: Path,
    power: Mapping[str, Any],
    awareness: str = "aware",
    overrides: Mapping[str, Scalar] | None = None,
    setting: Setting = AS_IT_IS,
) -> Metrics:
    """Run a scenario in process under a power manager, and return its metrics.

    Args:
        path: the scenario's file.
        power: the manager, as a scenario has it; a path in it is from the current folder.
        awareness: the job scheduler's, of power states.
        overrides: values of the scenario to change.
        setting: the cluster to run it on.

    Raises:
        ScenarioError, WorkloadError, PolicyError: bad input.
        OracleError: the oracle can't plan for it, or SciPy is missing.
        RunError: the run failed, or some job did not run to its end.
    """
    library = Library([path], {**(overrides or {}), "scheduler.power_awareness": awareness})
    scenario, jobs = library.first, library.first_jobs
    if setting != AS_IT_IS:
        scenario = replace(scenario, platform=changed(scenario.platform, setting))
    scheduler, manager = scenario.scheduler, msgspec.convert(power, Power)
    if manager == Oracle():
        oracle = Chosen(scheduler.name, Oracle(), "unaware", scheduler.name)
        return _complete(run_chosen(oracle, scenario, jobs, None), len(jobs))
    policy = with_power(scheduler.name, manager, awareness_of(scheduler))
    called = title(scheduler.name, manager, awareness_of(scheduler))
    opened = open_scenario(scenario, jobs, called)
    return _complete(run_in_process(opened, policy), len(jobs))


def _complete(metrics: Metrics, jobs: int) -> Metrics:
    if metrics["jobs_completed"] != jobs:
        raise RunError(f"only {metrics['jobs_completed']} of {jobs} jobs were completed")
    return metrics
