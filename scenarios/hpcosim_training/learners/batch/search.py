"""Search for a rule that chooses the next job, by the cross-entropy method."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcosim_client import PolicyError
from hpcosim_client.agents.batch.model import SHAPE, BatchRule, best, save_batch
from hpcosim_client.agents.batch.scene import JOB_COLUMNS
from hpcosim_client.heuristics.chosen_head import WINDOW_JOBS
from hpcosim_client.job import Floats
from hpcosim_executors import IN_THIS_PROCESS, ExecutorSettings, parallel_map
from hpcosim_scenarios.model.scenario import Scalar
from hpcosim_scenarios.running.library import Library
from hpcosim_training.environments.batch_costs import Objective
from hpcosim_training.environments.batch_scheduling import BatchSchedulingEnv
from hpcosim_training.environments.batch_task import MAX_DRAWS, BatchTask, check_task, task_of
from hpcosim_training.learning.cross_entropy import Costs, Generations, generations
from hpcosim_training.learning.curve import CURVE
from hpcosim_workloads.shaping import scale_load, window_by_number
from hpcosim_workloads.table import JobTable

RULE = "agent.safetensors"

INITIAL: Mapping[str, float] = {"requested_time": -1.0, "log_cores": -0.4}
"""Weights of the columns at the start: about the smallest area first. The others are 0."""

INITIAL_SD = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSearch:
    """Settings of the search.

    Attributes:
        objective: the cost that the agent reduces.
        window_jobs: number of visible jobs.
        generations: number of generations.
        candidates: rules in a generation; one of them is the mean of the distribution.
        elite: number of best candidates that update the distribution.
        episodes: number of windows of the workload on which all rules of a generation run.
        episode_jobs: number of consecutive jobs of a window, from a random position.
        least_load, most_load: bounds of the factor on the arrival rate of a window, which is
            log-uniform.
        seed: seed of the windows and of the candidates.
        executor: where the candidates are evaluated; default: in this process.
    """

    objective: Objective = "bounded_slowdown"
    window_jobs: int = WINDOW_JOBS
    generations: int = 10
    candidates: int = 24
    elite: int = 6
    episodes: int = 10
    episode_jobs: int = 300
    least_load: float = 0.8
    most_load: float = 1.6
    seed: int = 0
    executor: ExecutorSettings = IN_THIS_PROCESS


class BatchGeneration(NamedTuple):
    """The costs of a generation, divided by those of EASY on the same windows (geometric means).

    Attributes:
        number: number of the generation, from 1.
        mean: cost of the mean of its distribution.
        best: cost of its best candidate.
        median: median cost of its candidates.
        seconds: wall-clock time, s.
    """

    number: int
    mean: float
    best: float
    median: float
    seconds: float


def train_batch(
    path: Path,
    out: Path,
    search: BatchSearch,
    *,
    overrides: Mapping[str, Scalar] | None = None,
    on_generation: Callable[[BatchGeneration], None] = lambda _: None,
) -> Path:
    """Search for the rule with the least cost on windows of the workload of a scenario.

    The rules of a generation run on the same windows; each generation has other windows. The score
    of a rule is its mean over the windows of log(1 + cost), so that windows with long queues do not
    outweigh the others. After each generation the folder has a row more in `curve.csv`, and the new
    mean as `agent.safetensors`. The rule takes any cluster. The same arguments give the same bytes
    for any number of workers.

    Args:
        path: the scenario file; its scheduler is ignored.
        out: the output folder.
        search: settings of the search.
        overrides: values that replace those of the scenario, by dotted path.
        on_generation: called after each generation.

    Returns:
        Path of the rule, for the scheduler `batch`.

    Raises:
        ScenarioError, WorkloadError: the scenario is invalid.
        PolicyError: the workload has no decisions.
        ValueError: a setting is out of range, such as an episode longer than the workload.
        OSError: the folder cannot be written.
    """
    library = Library([path], overrides)
    changes = {"window_jobs": search.window_jobs, "reward": search.objective}
    task, jobs = task_of(changes, library.first), library.first_jobs
    check_task(replace(task, episode_jobs=search.episode_jobs), jobs)
    sizes, rng = Generations(search.candidates, search.elite), np.random.default_rng(search.seed)
    out.mkdir(parents=True, exist_ok=True)
    with parallel_map(search.executor) as parallel, (out / CURVE).open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(BatchGeneration._fields)

        def new_costs() -> Costs:
            windows = draw_windows(task, jobs, search, rng)
            score, easy = partial(rule_score, task, windows), rule_score(task, windows, None)
            return lambda drawn: np.exp(np.array(parallel(score, drawn)) - easy)

        first = initial_weights(), np.full(SHAPE, INITIAL_SD)
        for each in islice(generations(*first, sizes, rng, new_costs), search.generations):
            done = BatchGeneration(each.number, *each.figures, each.seconds)
            lines.writerow(done)
            file.flush()
            save_batch(out / RULE, BatchRule(each.mean, search.window_jobs))
            on_generation(done)
    return out / RULE


def initial_weights() -> Floats:
    """Return the mean of the first generation."""
    weights = np.zeros(SHAPE)
    for name, weight in INITIAL.items():
        weights[0, JOB_COLUMNS.index(name)] = weight
    return weights


def draw_windows(
    task: BatchTask, jobs: JobTable, search: BatchSearch, rng: np.random.Generator
) -> list[JobTable]:
    """Return random windows of a workload at random loads, each with a decision to take.

    Raises:
        PolicyError: there are too few.
    """
    found: list[JobTable] = []
    for _ in range(MAX_DRAWS * search.episodes):
        first = int(rng.integers(len(jobs) - search.episode_jobs + 1))
        load = float(np.exp(rng.uniform(np.log(search.least_load), np.log(search.most_load))))
        window = scale_load(window_by_number(jobs, first, first + search.episode_jobs), load)
        if has_decision(task, window):
            found.append(window)
        if len(found) == search.episodes:
            return found
    raise PolicyError(
        f"nearly all windows of {search.episode_jobs} jobs have no decision to take; expected a "
        "workload with a higher load"
    )


def has_decision(task: BatchTask, jobs: JobTable) -> bool:
    """Return whether a workload has a decision to take."""
    try:
        BatchSchedulingEnv(task=task, jobs=jobs).reset()
    except PolicyError:
        return False
    return True


def rule_score(task: BatchTask, windows: list[JobTable], weights: Floats | None) -> float:
    """Return the mean over windows of log(1 + cost) of a rule; None: of EASY."""
    costs = [rule_cost(BatchSchedulingEnv(task=task, jobs=jobs), weights) for jobs in windows]
    return float(np.log1p(costs).mean())


def rule_cost(env: BatchSchedulingEnv, weights: Floats | None) -> float:
    """Return the cost of an episode of a rule; None: of EASY."""
    env.reset()
    while not env.done:
        env.choose(0 if weights is None else best(weights, env.choices.scene))
    return env.cost
