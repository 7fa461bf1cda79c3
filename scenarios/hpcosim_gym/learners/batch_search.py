"""Search for a rule that chooses the next job, by the cross-entropy method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from msgspec import Meta

from hpcosim_client import PolicyError
from hpcosim_client.job import Floats, Ints
from hpcosim_compiled.state import BEGIN, LEAVE
from hpcosim_experiments.executors import (
    IN_THIS_PROCESS,
    ExecutorSettings,
    ParallelMap,
    parallel_map,
)
from hpcosim_gym.environments.batch_scheduling import BatchSchedulingEnv
from hpcosim_gym.environments.batch_task import MAX_DRAWS, BatchTask, Objective, check_task, task_of
from hpcosim_gym.environments.batch_vector import compiled_episodes
from hpcosim_gym.learning.cross_entropy import Costs, Distribution, search
from hpcosim_gym.learning.settings import (
    NotNegative,
    NotNegativeNumber,
    Positive,
    PositiveNumber,
    checksum,
    description,
)
from hpcosim_gym.learning.trainers import Report
from hpcosim_scenarios.model.scenario import Scalar
from hpcosim_scenarios.running.library import Library
from hpcosim_schedulers.agents.batch.policy import (
    DECIMALS,
    SHAPE,
    BatchRule,
    best,
    save_batch,
    scores,
)
from hpcosim_schedulers.agents.batch.scene import (
    CLUSTER_COLUMNS,
    JOB_COLUMNS,
    SLOT_COLUMNS,
    QueueScene,
)
from hpcosim_schedulers.heuristics.easy import WINDOW_JOBS
from hpcosim_sim.record.metrics import jobs_that_ran, waits
from hpcosim_workloads.shaping import scale_load, window_by_number
from hpcosim_workloads.table import COLUMNS, JobTable

if TYPE_CHECKING:
    from hpcosim_gym.environments.batch_compiled import CompiledEpisodes

RULE = "agent.safetensors"

INITIAL: Mapping[str, float] = {"requested_area": -1.0}
"""Weights of the columns at the start: the smallest area first (`easy-saf`). The others are 0."""

SPREADS: Mapping[str, float] = {
    "requested_area": 0.04,
    "requested_time": 0.02,
    "wait": 0.02,
    "long_wait": 0.06,
}
"""Standard deviations of weights in the first generation; `SPREAD` for the other columns."""

SPREAD = 0.012

STATE_SPREAD = 0.5
"""Factor of the standard deviations of how much a weight depends on the state of the cluster."""

TOGETHER = 4
"""Rules that a worker plays together."""

Workload = tuple[BatchTask, JobTable]
"""A cluster and jobs for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSearch:
    """Settings of the search.

    Attributes:
        objective: the cost that the agent reduces.
        window_jobs: number of visible jobs.
        generations: number of generations.
        candidates: rules in a generation; one of them is the mean of the distribution.
        elite: number of best candidates that update the distribution.
        episodes: number of windows on which all rules of a generation run; the workloads take
            turns.
        episode_jobs: number of consecutive jobs of a window, from a random position.
        least_load, most_load: bounds of the factor on the arrival rate of a window, which is
            log-uniform.
        longest_wait_weight: weight of the logarithm of the longest wait in the score of a rule,
            beside that of the cost; >= 0.
        seed: seed of the windows and of the candidates.
        executor: where the candidates are evaluated; default: in this process.
    """

    objective: Objective = "bounded_slowdown"
    window_jobs: Positive = WINDOW_JOBS
    generations: NotNegative = 10
    candidates: Annotated[int, Meta(ge=2)] = 16
    elite: Positive = 4
    episodes: Positive = 16
    episode_jobs: Positive = 800
    least_load: PositiveNumber = 0.8
    most_load: PositiveNumber = 1.6
    longest_wait_weight: NotNegativeNumber = 0.3
    seed: int = 0
    executor: ExecutorSettings = IN_THIS_PROCESS


def train_batch(
    path: Path,
    out: Path,
    settings: BatchSearch,
    *,
    also: Sequence[Path] = (),
    overrides: Mapping[str, Scalar] | None = None,
    resume: bool = False,
    report: Report = lambda _: None,
) -> Path:
    """Search for the rule with the least cost on windows of the workloads of scenarios.

    The search starts at the rule `easy-saf`. The rules of a generation run on the same windows;
    each generation has other windows. The score of a rule is its mean over the windows of
    log(1 + cost) + longest_wait_weight x log(1 + longest wait in s), so that windows with long
    queues do not outweigh the others. The cost in `curve.csv` is the score of a rule divided by
    that of the initial rule (geometric means over the windows). The folder gets
    `agent.safetensors`, and the files of `cross_entropy.search`. The same arguments give the same
    bytes for any number of workers.

    Args:
        path: the scenario file; its scheduler is ignored.
        out: the output folder.
        settings: settings of the search.
        also: files of more scenarios.
        overrides: values that replace those of the scenarios, by dotted path.
        resume: go on from the checkpoint in the folder.
        report: called after each generation.

    Returns:
        Path of the rule, for the scheduler `batch`.

    Raises:
        ScenarioError, WorkloadError: a scenario is invalid.
        PolicyError: a workload has no decisions.
        ValueError: a setting is out of range, such as an episode longer than a workload.
        CheckpointError: the checkpoint to resume from is missing or of a different training.
        OSError: the folder cannot be written.
    """
    workloads = [_workload(each, settings, overrides) for each in (path, *also)]
    rng = np.random.default_rng(settings.seed)
    inputs = [checksum(task.platform, [jobs]) for task, jobs in workloads]
    with parallel_map(settings.executor) as parallel:
        mean = search(
            out,
            Distribution(np.zeros(SHAPE), np.ones(SHAPE)),
            settings,
            rng,
            partial(_new_costs, workloads, settings, rng, parallel),
            training=description(settings, inputs=inputs),
            resume=resume,
            report=report,
        )
    save_batch(out / RULE, BatchRule(weights_of(mean), settings.window_jobs))
    return out / RULE


def _workload(
    path: Path, settings: BatchSearch, overrides: Mapping[str, Scalar] | None
) -> Workload:
    """Return the task and the jobs of a scenario."""
    library = Library([path], overrides)
    changes = {"window_jobs": settings.window_jobs, "reward": settings.objective}
    task, jobs = task_of(changes, library.first), library.first_jobs
    check_task(replace(task, episode_jobs=settings.episode_jobs), jobs)
    return task, jobs


def _new_costs(
    workloads: Sequence[Workload],
    settings: BatchSearch,
    rng: np.random.Generator,
    parallel: ParallelMap,
) -> Costs:
    """Return what evaluates candidates on new windows; the initial rule has cost 1."""
    windows = draw_windows(workloads, settings, rng)
    score = partial(rule_scores, windows, settings.longest_wait_weight)
    initial = score(initial_weights()[None])

    def costs(drawn: Floats) -> Floats:
        rules = weights_of(drawn)
        parts = [rules[first : first + TOGETHER] for first in range(0, len(rules), TOGETHER)]
        found: Floats = np.exp(np.concatenate(parallel(score, parts)) - initial)
        return found

    return costs


def initial_weights() -> Floats:
    """Return the weights from which the search starts."""
    weights = np.zeros(SHAPE)
    weights[0] = [INITIAL.get(name, 0.0) for name in JOB_COLUMNS]
    return weights


def weights_of(drawn: Floats) -> Floats:
    """Return the weights of candidates.

    Args:
        drawn: float64[..., SHAPE], distances from the initial weights, in their standard deviations
            in the first generation.
    """
    columns = np.array([SPREADS.get(name, SPREAD) for name in JOB_COLUMNS])
    spread = np.vstack([columns, *[STATE_SPREAD * columns] * (SHAPE[0] - 1)])
    found: Floats = initial_weights() + spread * drawn
    return found


def draw_windows(
    workloads: Sequence[Workload],
    settings: BatchSearch,
    rng: np.random.Generator,
) -> list[Workload]:
    """Return random windows of workloads at random loads, each with a decision to take.

    Raises:
        PolicyError: a workload has too few.
    """
    return [
        (task, draw_window(task, jobs, settings, rng))
        for task, jobs in islice(cycle(workloads), settings.episodes)
    ]


def draw_window(
    task: BatchTask, jobs: JobTable, settings: BatchSearch, rng: np.random.Generator
) -> JobTable:
    """Return a random window of a workload at a random load, with a decision to take.

    Raises:
        PolicyError: there are too few.
    """
    for _ in range(MAX_DRAWS):
        first = int(rng.integers(len(jobs) - settings.episode_jobs + 1))
        load = float(np.exp(rng.uniform(np.log(settings.least_load), np.log(settings.most_load))))
        window = scale_load(window_by_number(jobs, first, first + settings.episode_jobs), load)
        if has_decision(task, window):
            return window
    raise PolicyError(
        f"nearly all windows of {settings.episode_jobs} jobs have no decision to take; expected a "
        "workload with a higher load"
    )


def has_decision(task: BatchTask, jobs: JobTable) -> bool:
    """Return whether a workload has a decision to take."""
    try:
        BatchSchedulingEnv(task=task, jobs=jobs).reset()
    except PolicyError:
        return False
    return True


def rule_scores(windows: Sequence[Workload], longest_wait_weight: float, weights: Floats) -> Floats:
    """Return the scores of rules on windows; see `train_batch`.

    The compiled engine plays all rules on all windows of one workload together.

    Args:
        windows: windows of workloads; the first job of each is submitted at 0 s.
        weights: float64[rules, *SHAPE].
    """
    together: dict[tuple[int, int], list[int]] = {}  # by task and number of jobs
    for place, (task, jobs) in enumerate(windows):
        together.setdefault((id(task), len(jobs)), []).append(place)
    found = np.zeros((len(weights), len(windows)))
    for places in together.values():
        outcomes = _outcomes(
            windows[places[0]][0], [windows[place][1] for place in places], weights
        )
        found[:, places] = [
            [
                math.log1p(cost) + longest_wait_weight * math.log1p(longest_s)
                for cost, longest_s in of_rule
            ]
            for of_rule in outcomes
        ]
    means: Floats = found.mean(axis=1)
    return means


class Outcome(NamedTuple):
    """The cost of an episode, and the longest wait, s."""

    cost: float
    longest_wait_s: float


def _outcomes(task: BatchTask, windows: Sequence[JobTable], weights: Floats) -> list[list[Outcome]]:
    """Return the outcomes of each rule on each window; all windows have as many jobs."""
    count, size = len(windows), len(windows[0])
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(one, name) for one in windows]) for name in COLUMNS
    }
    episodes = compiled_episodes(
        replace(task, episode_jobs=size), replace(windows[0], **columns), len(weights) * count
    )
    if episodes is None:
        return [[_outcome(task, window, rule) for window in windows] for rule in weights]
    first = np.tile(np.arange(count) * size, len(weights))
    play_rules(episodes, np.repeat(weights, count, axis=0), first, task.window_jobs)
    outcomes = [
        Outcome(float(cost), episodes.longest_wait_s(place))
        for place, cost in enumerate(episodes.costs)
    ]
    return [outcomes[first : first + count] for first in range(0, len(outcomes), count)]


def _outcome(task: BatchTask, window: JobTable, rule: Floats) -> Outcome:
    env = BatchSchedulingEnv(task=task, jobs=window)
    cost = rule_cost(env, rule)
    return Outcome(cost, waits(jobs_that_ran(env.simulation.record()))["max_wait_s"])


def play_rules(episodes: CompiledEpisodes, weights: Floats, first: Ints, window_jobs: int) -> None:
    """Play an episode to its end by each rule.

    Args:
        weights: float64[episodes, *SHAPE].
        first: int64[episodes], number of the first job of each.
        window_jobs: number of visible jobs.
    """
    for place, number in enumerate(first.tolist()):
        episodes.begin(place, number)
    seen = episodes.play(np.full(len(first), BEGIN))
    while len(going := np.flatnonzero(episodes.choices)):
        choices = episodes.choices[going]
        most, slots = int(choices.max()), seen[going, len(CLUSTER_COLUMNS) :]
        columns = slots.reshape(len(going), len(SLOT_COLUMNS), window_jobs)[:, 1:, :most]
        scene = QueueScene(columns, seen[going, : len(CLUSTER_COLUMNS)])
        found = scores(weights[going], scene).round(DECIMALS)
        found[np.arange(most) >= choices[:, None]] = -np.inf
        actions = np.full(len(first), LEAVE)
        actions[going] = found.argmax(axis=1)
        seen = episodes.play(actions)


def rule_cost(env: BatchSchedulingEnv, weights: Floats) -> float:
    """Return the cost of an episode of a rule."""
    env.reset()
    while not env.done:
        env.choose(best(weights, env.choices.scene))
    return env.cost
