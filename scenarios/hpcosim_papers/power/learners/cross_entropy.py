"""Search for adaptive timeouts by the cross-entropy method (Rubinstein, Kroese 2004)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta

from hpcosim_client.job import Floats
from hpcosim_experiments.executors import IN_THIS_PROCESS, ExecutorSettings, parallel_map
from hpcosim_gym.learning.cross_entropy import Distribution, search
from hpcosim_gym.learning.settings import NotNegative, NotNegativeNumber, checksum, description
from hpcosim_gym.learning.trainers import Report
from hpcosim_scenarios.model.scenario import Scalar, Scenario
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_scenarios.running.policies import awareness_of
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.power.adaptive import FEATURES, TimeoutRule, adaptive, save_rule
from hpcosim_schedulers.power.manager import managed
from hpcosim_workloads.table import JobTable

RULE = "rule.safetensors"
INITIAL_MEAN = np.log([900.0, 600.0, 9000.0])
"""Logarithms of the initial controls: timeouts of 900 s and 600 s, and 9 kW."""

INITIAL_SD = 0.5  # of the logarithm of each control
FEATURE_SD = 0.3  # of the coefficient of each feature


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveSearch:
    """Settings of the search.

    Attributes:
        wait_w: weight of waiting time, J/s; the cost of a run is its wasted energy plus this times
            the sum of all waiting times.
        origin_s: second of the week, from Monday 00:00, at the workload's time 0.
        generations: number of generations.
        candidates: rules in a generation; one of them is the mean of the distribution.
        elite: number of best candidates that update the distribution.
        executor: where the candidates are evaluated; default: in this process.
    """

    wait_w: NotNegativeNumber = 350.0
    origin_s: NotNegativeNumber = 0.0
    generations: NotNegative = 12
    candidates: Annotated[int, Meta(ge=5)] = 12
    elite: Annotated[int, Meta(ge=1)] = 4
    seed: int = 0
    executor: ExecutorSettings = IN_THIS_PROCESS


def train_adaptive(
    path: Path,
    out: Path,
    settings: AdaptiveSearch,
    *,
    overrides: Mapping[str, Scalar] | None = None,
    resume: bool = False,
    report: Report = lambda _: None,
) -> Path:
    """Search for adaptive timeouts for a scenario on its workload.

    Each candidate runs the whole workload. Candidates are sampled from
    independent normal distributions, which move towards the elite of each generation. The folder
    gets `rule.safetensors`, the final mean, and the files of `cross_entropy.search`; costs are in
    J. The same arguments give the same bytes for any number of workers.

    Args:
        path: the scenario file; its power manager is ignored.
        out: the output folder.
        settings: settings of the search.
        overrides: values that replace those of the scenario, by dotted path.
        resume: go on from the checkpoint in the folder.
        report: called after each generation.

    Returns:
        Path of the rule, for a scenario's `scheduler.power`.

    Raises:
        ScenarioError, WorkloadError, PolicyError: the scenario is invalid.
        CheckpointError: the checkpoint to resume from is missing or of a different training.
        OSError: the folder cannot be written.
    """
    library = Library([path], overrides)
    scenario, jobs = library.first, library.first_jobs
    cost_j = partial(_run_cost_j, scenario, jobs, settings)
    training = description(settings, inputs=checksum(scenario.platform, [jobs]))
    with parallel_map(settings.executor) as parallel:
        mean = search(
            out,
            _initial_distribution(),
            settings,
            np.random.default_rng(settings.seed),
            lambda: lambda drawn: np.array(parallel(cost_j, drawn)),
            training=training,
            resume=resume,
            report=report,
        )
    save_rule(out / RULE, TimeoutRule(mean, settings.origin_s))
    return out / RULE


def _run_cost_j(
    scenario: Scenario, jobs: JobTable, settings: AdaptiveSearch, weights: Floats
) -> float:
    """Return the cost of a run under a rule with these weights, float64[3, 9], J."""
    scheduler = scenario.scheduler
    rule = TimeoutRule(weights, settings.origin_s)
    policy = managed(make_policy(scheduler.name, awareness_of(scheduler)), adaptive(rule))
    metrics = run_in_process(open_scenario(scenario, jobs, "adaptive"), policy)
    waited_s = metrics["mean_wait_s"] * len(jobs)
    cost_j = float(metrics["wasted_energy_j"] + settings.wait_w * waited_s)
    return math.inf if math.isnan(cost_j) else cost_j


def _initial_distribution() -> Distribution:
    mean, sd = (
        np.zeros((len(INITIAL_MEAN), FEATURES)),
        np.full((len(INITIAL_MEAN), FEATURES), FEATURE_SD),
    )
    mean[:, 0], sd[:, 0] = INITIAL_MEAN, INITIAL_SD
    return Distribution(mean, sd)
