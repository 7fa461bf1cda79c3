"""Search for adaptive timeouts by the cross-entropy method (Rubinstein, Kroese 2004)."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcosim_client.job import Floats
from hpcosim_experiments.executors import IN_THIS_PROCESS, ExecutorSettings, parallel_map
from hpcosim_gym.learning.cross_entropy import Generations, generations
from hpcosim_gym.learning.curve import CURVE
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

    wait_w: float = 350.0
    origin_s: float = 0.0
    generations: int = 12
    candidates: int = 12
    elite: int = 4
    seed: int = 0
    executor: ExecutorSettings = IN_THIS_PROCESS


class Generation(NamedTuple):
    """The costs of a generation, J.

    Attributes:
        number: number of the generation, from 1.
        seconds: wall-clock time, s.
    """

    number: int
    mean_j: float
    best_j: float
    median_j: float
    seconds: float


OnGeneration = Callable[[Generation], None]


def train_adaptive(
    path: Path,
    out: Path,
    search: AdaptiveSearch,
    *,
    overrides: Mapping[str, Scalar] | None = None,
    on_generation: OnGeneration = lambda _: None,
) -> Path:
    """Search for adaptive timeouts for a scenario on its workload.

    Each candidate runs the whole workload. Candidates are sampled from
    independent normal distributions, which move towards the elite of each generation. The folder
    gets `curve.csv`, one row for each generation, and `rule.safetensors`, the final mean. The same
    arguments give the same bytes for any number of workers.

    Args:
        path: the scenario file; its power manager is ignored.
        overrides: values that replace those of the scenario, by dotted path.

    Returns:
        Path of the rule, for a scenario's `scheduler.power`.

    Raises:
        ScenarioError, WorkloadError, PolicyError: the scenario is invalid.
        OSError: the folder cannot be written.
    """
    library = Library([path], overrides)
    out.mkdir(parents=True, exist_ok=True)
    cost_j = partial(_run_cost_j, library.first, library.first_jobs, search)
    mean, sd = _initial_distribution()
    rng = np.random.default_rng(search.seed)
    with parallel_map(search.executor) as parallel, (out / CURVE).open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(Generation._fields)
        sizes = Generations(search.candidates, search.elite)
        searched = generations(
            mean, sd, sizes, rng, lambda: lambda drawn: np.array(parallel(cost_j, drawn))
        )
        for each in islice(searched, search.generations):
            mean = each.mean
            done = Generation(each.number, *each.figures, each.seconds)
            lines.writerow(done)
            on_generation(done)
    save_rule(out / RULE, TimeoutRule(mean, search.origin_s))
    return out / RULE


def _run_cost_j(
    scenario: Scenario, jobs: JobTable, search: AdaptiveSearch, weights: Floats
) -> float:
    """Return the cost of a run under a rule with these weights, float64[3, 9], J."""
    scheduler = scenario.scheduler
    rule = TimeoutRule(weights, search.origin_s)
    policy = managed(make_policy(scheduler.name, awareness_of(scheduler)), adaptive(rule))
    metrics = run_in_process(open_scenario(scenario, jobs, "adaptive"), policy)
    waited_s = metrics["mean_wait_s"] * len(jobs)
    cost_j = float(metrics["wasted_energy_j"] + search.wait_w * waited_s)
    return math.inf if math.isnan(cost_j) else cost_j


def _initial_distribution() -> tuple[Floats, Floats]:
    mean, sd = (
        np.zeros((len(INITIAL_MEAN), FEATURES)),
        np.full((len(INITIAL_MEAN), FEATURES), FEATURE_SD),
    )
    mean[:, 0], sd[:, 0] = INITIAL_MEAN, INITIAL_SD
    return mean, sd
