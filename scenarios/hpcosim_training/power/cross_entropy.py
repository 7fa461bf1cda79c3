"""Learning of adaptive timeouts by the cross-entropy method (Rubinstein, Kroese 2004)."""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import get_context
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
from hpcosim_workloads.table import JobTable

RULE = "rule.safetensors"
CURVE = "curve.csv"
FIRST = np.log([900.0, 600.0, 9000.0])
"""The rule that training begins with: timeouts of 900 and 600 s, and 9 kW."""

FIRST_SD = 0.5
REST_SD = 0.3  # of how much a feature moves the logarithm of a control
LEAST_SD = 0.02
KEPT = 0.3  # of what was thought before a generation


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How timeouts are learned.

    Attributes:
        wait_w: what a second of a job's wait counts for, J/s; the cost of a run is the energy it
            wastes and this times all its jobs' waits.
        origin_s: the second of the week, from Monday midnight, at which the workload's time is 0.
        generations: how often candidates are drawn.
        candidates: how many in a generation, the mean of what they are drawn from among them.
        elite: the best of them, from which the next are drawn.
        seed: of what is drawn.
        workers: processes that try candidates.
    """

    wait_w: float = 350.0
    origin_s: float = 0.0
    generations: int = 20
    candidates: int = 12
    elite: int = 4
    seed: int = 0
    workers: int = 1


class Generation(NamedTuple):
    """What came of a generation.

    Attributes:
        number: counted from 1.
        mean_j: cost of the mean it was drawn from.
        best_j: of its best.
        median_j: of its middle.
        seconds: how long it took, on a clock on the wall.
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
    search: Search,
    overrides: Mapping[str, Scalar] | None = None,
    told: Told = lambda _: None,
) -> Path:
    """Learn adaptive timeouts for a scenario on its workload.

    Each candidate is tried on the whole workload in process. Weights are drawn from normal
    distributions, each independent of the others, that move to the elite of a generation. Into
    the folder go `curve.csv`, a line for each generation, and the mean after the last,
    `rule.safetensors`. The same arguments give the same bytes, whatever the workers.

    Args:
        path: the scenario's file; its own power manager is of no account.
        out: the folder.
        search: how.
        overrides: values of the scenario to change, by dotted path.
        told: told of each generation when it is over.

    Returns:
        The rule's file, to be named in a scenario's `scheduler.power`.

    Raises:
        ScenarioError, WorkloadError, PolicyError: bad input.
        OSError: the folder can't be written to.
    """
    library = Library([path], overrides)
    out.mkdir(parents=True, exist_ok=True)
    trial = Trial(library.first, library.first_jobs, search)
    with ExitStack() as stack:
        lines = csv.writer(stack.enter_context((out / CURVE).open("w", newline="")))
        lines.writerow(Generation._fields)
        costs = trial.costs_j
        if search.workers > 1:
            pool = ProcessPoolExecutor(search.workers, get_context("spawn"))
            costs = Pooled(trial, stack.enter_context(pool))
        mean, sd = _first()
        rng = np.random.default_rng(search.seed)
        for number in range(1, search.generations + 1):
            began_s = time.monotonic()
            mean, sd, costs_j = improved(mean, sd, search, rng, costs)
            figures = (float(costs_j[0]), float(costs_j.min()), float(np.median(costs_j)))
            done = Generation(number, *figures, time.monotonic() - began_s)
            lines.writerow(done)
            told(done)
    save_rule(out / RULE, Rule(mean, search.origin_s))
    return out / RULE


Costs = Callable[[Floats], Floats]
"""Takes float64[candidates, 3, 9], returns float64[candidates], J."""


def improved(
    mean: Floats, sd: Floats, search: Search, rng: np.random.Generator, costs: Costs
) -> tuple[Floats, Floats, Floats]:
    """Draw a generation, and return what the next is drawn from, and this one's costs.

    Args:
        mean: of what it is drawn from, float64[3, 9].
        sd: likewise, the standard deviations.
        search: how.
        rng: chance.
        costs: tries candidates.
    """
    drawn = rng.normal(mean, sd, (search.candidates, *mean.shape))
    drawn[0] = mean
    costs_j = costs(drawn)
    elite = drawn[costs_j.argsort(kind="stable")[: search.elite]]
    mean = KEPT * mean + (1 - KEPT) * elite.mean(axis=0)
    sd = KEPT * sd + (1 - KEPT) * (elite.std(axis=0) + LEAST_SD)
    return mean, sd, costs_j


@dataclass(frozen=True, slots=True)
class Trial:
    """Tries rules on a workload.

    Attributes:
        scenario: its platform, job scheduler and rules are used.
        jobs: the workload.
        search: what a run costs.
    """

    scenario: Scenario
    jobs: JobTable
    search: Search

    def cost_j(self, weights: Floats) -> float:
        """Return the cost of a run under a rule, weights float64[3, 9], J."""
        scheduler = self.scenario.scheduler
        rule = Rule(weights, self.search.origin_s)
        policy = managed(make_policy(scheduler.name, awareness_of(scheduler)), adaptive(rule))
        metrics = run_in_process(open_scenario(self.scenario, self.jobs, "adaptive"), policy)
        waited_s = metrics["mean_wait_s"] * len(self.jobs)
        return float(metrics["wasted_energy_j"] + self.search.wait_w * waited_s)

    def costs_j(self, candidates: Floats) -> Floats:
        """Return the costs of several; see `Costs`."""
        return _costs(map(self.cost_j, candidates))


class Pooled:
    """Tries several rules at a time, in processes of a pool."""

    def __init__(self, trial: Trial, pool: ProcessPoolExecutor) -> None:
        self._trial = trial
        self._pool = pool

    def __call__(self, candidates: Floats) -> Floats:
        """Return the costs; see `Costs`."""
        return _costs(self._pool.map(self._trial.cost_j, list(candidates)))


def _costs(costs_j: Iterable[float]) -> Floats:
    found = np.array(list(costs_j))
    return np.where(np.isnan(found), math.inf, found)


def _first() -> tuple[Floats, Floats]:
    mean, sd = np.zeros((len(FIRST), FEATURES)), np.full((len(FIRST), FEATURES), REST_SD)
    mean[:, 0], sd[:, 0] = FIRST, FIRST_SD
    return mean, sd
