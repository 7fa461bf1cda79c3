"""Search for adaptive timeouts by the cross-entropy method (Rubinstein, Kroese 2004)."""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcosim_client import make_policy
from hpcosim_client.job import Floats
from hpcosim_client.power.adaptive import FEATURES, Rule, adaptive, save_rule
from hpcosim_client.power.manager import managed
from hpcosim_scenarios.model.scenario import Scalar, Scenario
from hpcosim_scenarios.running.chosen import awareness_of
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_training.learning.curve import CURVE
from hpcosim_training.learning.workers import parallel_map
from hpcosim_workloads.table import JobTable

RULE = "rule.safetensors"
FIRST = np.log([900.0, 600.0, 9000.0])
"""The rule that training begins with: timeouts of 900 and 600 s, and 9 kW."""

FIRST_SD = 0.5
REST_SD = 0.3  # of how much a feature moves the logarithm of a control
LEAST_SD = 0.02
KEPT = 0.3  # of the mean and deviation before a generation


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveSearch:
    """How timeouts are searched for.

    Attributes:
        wait_w: the weight of a second of a job's wait, J/s; the cost of a run is the energy it
            wastes plus this times the waits of all its jobs.
        origin_s: the second of the week, from Monday midnight, at which the workload's time is 0.
        generations: how often candidates are drawn.
        candidates: rules in a generation; the mean of their distribution is one of them.
        elite: how many of the best determine the distribution of the next.
        seed: seed of what is drawn.
        workers: processes that evaluate candidates.
    """

    wait_w: float = 350.0
    origin_s: float = 0.0
    generations: int = 12
    candidates: int = 12
    elite: int = 4
    seed: int = 0
    workers: int = 1


class Generation(NamedTuple):
    """The costs of a generation, J.

    Attributes:
        number: counted from 1.
        mean_j: of the mean it was drawn from.
        best_j: of its best candidate.
        median_j: the median.
        seconds: wall time.
    """

    number: int
    mean_j: float
    best_j: float
    median_j: float
    seconds: float


Told = Callable[[Generation], None]


def train_adaptive(
    path: Path,
    out: Path,
    search: AdaptiveSearch,
    *,
    overrides: Mapping[str, Scalar] | None = None,
    told: Told = lambda _: None,
) -> Path:
    """Search for adaptive timeouts for a scenario on its workload.

    Each candidate runs the whole workload in process. Weights are drawn from independent normal
    distributions that move to the elite of each generation. The folder gets `curve.csv`, a line
    for each generation, and the mean after the last, `rule.safetensors`. The same arguments give
    the same bytes, whatever the workers.

    Args:
        path: the scenario's file; its own power manager is ignored.
        out: the folder.
        search: how.
        overrides: values of the scenario to change, by dotted path.
        told: is called with each generation when it is over.

    Returns:
        The rule's file, for a scenario's `scheduler.power`.

    Raises:
        ScenarioError, WorkloadError, PolicyError: the scenario is invalid.
        OSError: the folder can't be written to.
    """
    library = Library([path], overrides)
    out.mkdir(parents=True, exist_ok=True)
    cost_j = partial(_cost_j, library.first, library.first_jobs, search)
    mean, sd = _first()
    rng = np.random.default_rng(search.seed)
    with parallel_map(search.workers) as parallel, (out / CURVE).open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(Generation._fields)
        for number in range(1, search.generations + 1):
            began_s = time.monotonic()
            mean, sd, costs_j = improved(
                mean, sd, search, rng, lambda drawn: np.array(parallel(cost_j, drawn))
            )
            figures = (float(costs_j[0]), float(costs_j.min()), float(np.median(costs_j)))
            done = Generation(number, *figures, time.monotonic() - began_s)
            lines.writerow(done)
            told(done)
    save_rule(out / RULE, Rule(mean, search.origin_s))
    return out / RULE


Costs = Callable[[Floats], Floats]
"""Takes float64[candidates, 3, 9], returns float64[candidates], J."""


def improved(
    mean: Floats, sd: Floats, search: AdaptiveSearch, rng: np.random.Generator, costs: Costs
) -> tuple[Floats, Floats, Floats]:
    """Draw a generation; return mean and deviation of the next, and this one's costs.

    Args:
        mean: the mean of its distribution, float64[3, 9].
        sd: the standard deviations, float64[3, 9].
        search: how.
        rng: draws.
        costs: evaluates candidates.
    """
    drawn = rng.normal(mean, sd, (search.candidates, *mean.shape))
    drawn[0] = mean
    costs_j = costs(drawn)
    elite = drawn[costs_j.argsort(kind="stable")[: search.elite]]
    mean = KEPT * mean + (1 - KEPT) * elite.mean(axis=0)
    sd = KEPT * sd + (1 - KEPT) * (elite.std(axis=0) + LEAST_SD)
    return mean, sd, costs_j


def _cost_j(scenario: Scenario, jobs: JobTable, search: AdaptiveSearch, weights: Floats) -> float:
    """Return the cost of a run of a workload under a rule, weights float64[3, 9], J."""
    scheduler = scenario.scheduler
    rule = Rule(weights, search.origin_s)
    policy = managed(make_policy(scheduler.name, awareness_of(scheduler)), adaptive(rule))
    metrics = run_in_process(open_scenario(scenario, jobs, "adaptive"), policy)
    waited_s = metrics["mean_wait_s"] * len(jobs)
    cost_j = float(metrics["wasted_energy_j"] + search.wait_w * waited_s)
    return math.inf if math.isnan(cost_j) else cost_j


def _first() -> tuple[Floats, Floats]:
    mean, sd = np.zeros((len(FIRST), FEATURES)), np.full((len(FIRST), FEATURES), REST_SD)
    mean[:, 0], sd[:, 0] = FIRST, FIRST_SD
    return mean, sd
