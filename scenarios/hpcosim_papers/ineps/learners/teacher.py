"""Teachers: rules on predicted costs that provide the demonstrations for behaviour cloning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from hpcosim_gym.learning.rollout import Rollout
from hpcosim_papers.ineps.agent.rule import RULES, Rule
from hpcosim_papers.ineps.agent.settings import Pairing
from hpcosim_papers.ineps.agent.site import Kind, kind_of
from hpcosim_papers.ineps.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_papers.ineps.environments.pairing_task import PairingTask
from hpcosim_papers.ineps.learners.agent import PairBatch, batch_of
from hpcosim_workloads.table import JobTable


def run_teacher(teacher: Rule, env: JobNodePairingEnv) -> float:
    """Run an environment with a teacher's choices, and return the objective."""
    env.reset()
    while not env.done:
        env.choose(teacher.choose(env.choices))
    return env.objective


class TeacherAssignment(NamedTuple):
    """The teachers of several environments.

    Attributes:
        best: the teacher with the lowest mean ratio of its objective to the best one.
        by_environment: the better of two teachers for each environment: `best`, and the teacher
            that improves most on it. More than two teachers would contradict each other.
    """

    best: Rule
    by_environment: list[Rule]


def assign_teachers(envs: Sequence[JobNodePairingEnv]) -> TeacherAssignment:
    """Run all teachers in all environments, and return the best ones."""
    found = np.array([[run_teacher(teacher, env) for teacher in RULES] for env in envs])
    ratios = found / found.min(axis=1, keepdims=True)
    best = int(ratios.mean(axis=0).argmin())
    second = int(np.minimum(ratios, ratios[:, [best]]).mean(axis=0).argmin())
    is_second = ratios[:, second] < ratios[:, best]
    return TeacherAssignment(RULES[best], [RULES[second if it else best] for it in is_second])


RANDOM_CHOICE_PROBABILITY = 0.1  # random choices let demonstrations cover more states


def demonstrate(
    runs: Sequence[tuple[JobNodePairingEnv, Rule]], rng: np.random.Generator
) -> Rollout[PairBatch]:
    """Return demonstrations: the teachers' choices in the visited states, and the rewards.

    Args:
        runs: pairs of environment and teacher; each environment is run once.
        rng: generator of the random choices.
    """
    seen, chosen, rewards, episode = [], [], [], []
    for number, (env, teacher) in enumerate(runs):
        env.reset()
        while not env.done:
            choice = teacher.choose(env.choices)
            seen.append(env.choices)
            chosen.append(choice)
            episode.append(number)
            if rng.random() < RANDOM_CHOICE_PROBABILITY:
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


def scaled_environment(task: PairingTask, jobs: JobTable, teacher: Rule) -> JobNodePairingEnv:
    """Return the environment of a workload, with rewards relative to a teacher's.

    Rewards are divided by the teacher's objective. Under the reward `foreseen`, the teacher's mean
    cost of a job of the same kind is the baseline of each placement.

    Raises:
        PolicyError: a job needs more than one node.
    """
    settings = Pairing(
        objective=task.settings.objective,
        wait_s=None,
        time_s=task.settings.time_s,
        energy_j=task.settings.energy_j,
    )
    reference = JobNodePairingEnv(
        task=replace(task, settings=settings, reward="foreseen"), jobs=jobs
    )
    spent: dict[Kind, list[float]] = {}
    reference.reset()
    while not reference.done:
        choice = teacher.choose(reference.choices)
        pair, reward = reference.choices.pair(choice), reference.choose(choice)
        if pair is not None:
            spent.setdefault(kind_of(pair[0]), []).append(-reward)
    baseline = {kind: float(np.mean(costs)) for kind, costs in spent.items()}
    return JobNodePairingEnv(
        task=task,
        jobs=jobs,
        reward_scale=max(reference.objective, 1e-9),
        baseline_costs=baseline if task.reward == "foreseen" else None,
    )
