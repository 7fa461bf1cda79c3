"""Teachers: simple rules on the foreseen costs, which an agent imitates before it improves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from hpcosim_client.agents.pairing import foreseen_rows as columns
from hpcosim_client.agents.pairing.choices import Choices, Rows
from hpcosim_client.agents.pairing.settings import Pairing
from hpcosim_client.agents.pairing.site import Kind, kind_of
from hpcosim_client.job import Floats
from hpcosim_training.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_training.environments.pairing_task import PairingTask
from hpcosim_training.learners.pairing.agent import PairBatch, batch_of
from hpcosim_training.learning.rollout import Rollout
from hpcosim_workloads.table import JobTable

Rule = Callable[[Rows, Rows], Floats]
"""Takes the rows, and their columns under one weight; returns scores, float64[rows]."""

RULES: Mapping[str, Rule] = {
    "cheapest": lambda _, costs: -costs[:, columns.COST].astype(np.float64),
    "dearest": lambda _, costs: costs[:, columns.COST].astype(np.float64),
    "longest": lambda rows, _: (
        rows[:, columns.REQUESTED].astype(np.float64) * rows[:, columns.CORES]
    ),
}
"""Of the pairs that are cheap enough, the one with the highest score goes first."""

SLACKS = (0.0, 0.1, 0.3)


class Teacher(NamedTuple):
    """A rule that chooses a pair, or waits.

    A pair is cheap enough if it costs at most (1 + slack) times the job's cheapest option. If none
    is, the teacher waits; where it may not, it takes the pair that comes closest.

    Attributes:
        rule: a key of `RULES`.
        slack: see above, 0 or more.
        weight: the index in `foreseen_rows.WEIGHTS` of the weight that costs are computed with.
    """

    rule: str
    slack: float
    weight: int

    def choose(self, choices: Choices) -> int:
        """Return the index of the choice it takes."""
        rows = choices.rows
        first = columns.FIRST_WEIGHT + columns.PER_WEIGHT * self.weight
        costs = rows[:, first : first + columns.PER_WEIGHT]
        waits = rows[:, columns.WAITS] > 0.0
        share = np.where(waits, -1.0, costs[:, columns.LEAST])
        cheap = share >= 1.0 / (1.0 + self.slack) - 1e-6
        if not cheap.any():
            return int(waits.argmax() if waits.any() else share.argmax())
        # Of equal ones the cheapest.
        scores = np.where(cheap, RULES[self.rule](rows, costs), -np.inf)
        best = np.flatnonzero(scores >= scores.max() - 1e-9)
        return int(best[costs[best, columns.COST].argmin()])


TEACHERS = [
    Teacher(rule, slack, weight)
    for rule in RULES
    for slack in SLACKS
    for weight in range(len(columns.WEIGHTS))
]


def follow(teacher: Teacher, env: JobNodePairingEnv) -> float:
    """Run an environment with a teacher's choices, and return the objective."""
    env.reset()
    while not env.done:
        env.choose(teacher.choose(env.choices))
    return env.objective


class Teaching(NamedTuple):
    """The teachers of several environments.

    Attributes:
        best: the one that on average comes closest to the best teacher of each environment.
        by_environment: for each environment the better of two: `best`, and the one teacher that
            makes up most for the environments where `best` does badly. More than two would
            contradict each other.
    """

    best: Teacher
    by_environment: list[Teacher]


def best_teaching(envs: Sequence[JobNodePairingEnv]) -> Teaching:
    """Try all teachers in all environments, and return the best of them."""
    found = np.array([[follow(teacher, env) for teacher in TEACHERS] for env in envs])
    regrets = found / found.min(axis=1, keepdims=True)
    best = int(regrets.mean(axis=0).argmin())
    second = int(np.minimum(regrets, regrets[:, [best]]).mean(axis=0).argmin())
    is_second = regrets[:, second] < regrets[:, best]
    return Teaching(TEACHERS[best], [TEACHERS[second if it else best] for it in is_second])


DEVIATE = 0.1  # how often a demonstration leaves the teacher, to show its choices from there


def demonstrate(
    runs: Sequence[tuple[JobNodePairingEnv, Teacher]], rng: np.random.Generator
) -> Rollout[PairBatch]:
    """Return what teachers would choose in the states that runs come to, and the rewards there.

    Args:
        runs: the environments, each run once, and the teacher of each.
        rng: draws the deviations.
    """
    seen, chosen, rewards, episode = [], [], [], []
    for number, (env, teacher) in enumerate(runs):
        env.reset()
        while not env.done:
            choice = teacher.choose(env.choices)
            seen.append(env.choices)
            chosen.append(choice)
            episode.append(number)
            if rng.random() < DEVIATE:
                choice = int(rng.integers(len(env.choices.rows)))
            rewards.append(env.choose(choice))
    return Rollout(
        batch_of(seen),
        torch.tensor(chosen),
        torch.zeros((len(chosen), 1)),
        np.array(rewards),
        np.array(episode),
        None,
        np.zeros(len(runs), dtype=np.bool_),
    )


def scaled(task: PairingTask, jobs: JobTable, teacher: Teacher) -> JobNodePairingEnv:
    """Return the environment of a workload, with rewards relative to a teacher's.

    Rewards are divided by the teacher's objective. Under the reward `foreseen`, what the teacher
    spends on average on a job of the same kind is the baseline of each placement.

    Raises:
        PolicyError: a job needs more than one node.
    """
    settings = Pairing(
        objective=task.settings.objective,
        wait_s=None,
        time_s=task.settings.time_s,
        energy_j=task.settings.energy_j,
    )
    taught = JobNodePairingEnv(task=replace(task, settings=settings, reward="foreseen"), jobs=jobs)
    spent: dict[Kind, list[float]] = {}
    taught.reset()
    while not taught.done:
        choice = teacher.choose(taught.choices)
        pair, reward = taught.choices.pair(choice), taught.choose(choice)
        if pair is not None:
            spent.setdefault(kind_of(pair[0]), []).append(-reward)
    usual = {kind: float(np.mean(costs)) for kind, costs in spent.items()}
    return JobNodePairingEnv(
        task=task,
        jobs=jobs,
        reward_scale=max(taught.objective, 1e-9),
        usual_costs=usual if task.reward == "foreseen" else None,
    )
