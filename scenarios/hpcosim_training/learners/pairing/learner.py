"""What is particular in learning to pair jobs with nodes: episodes, teachers and validation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np
from safetensors.torch import load, save

from hpcosim_client.agents.pairing.model import actor_of
from hpcosim_client.agents.pairing.networks import Actor
from hpcosim_client.agents.threads import use_one_thread
from hpcosim_client.job import Floats, Ints
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_training.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_training.environments.pairing_task import PairingTask, task_of
from hpcosim_training.learners.pairing.agent import PairBatch, join, new_agent
from hpcosim_training.learners.pairing.play import play_greedy, sampled, side_by_side
from hpcosim_training.learners.pairing.settings import PairingTraining, Windows
from hpcosim_training.learners.pairing.teacher import (
    TEACHERS,
    Teacher,
    Teaching,
    best_teaching,
    demonstrate,
    scaled,
)
from hpcosim_training.learning.agent import weights_of
from hpcosim_training.learning.rollout import Rollout, collect, joined
from hpcosim_training.learning.session import Learner, Outcome
from hpcosim_training.learning.settings import description
from hpcosim_training.learning.update import clone, learn
from hpcosim_training.learning.workers import Map
from hpcosim_workloads.table import JobTable

UPDATE, CLONING, VALIDATION = 1_000_001, 1_000_002, 1_000_003  # streams of random numbers

WHOLE_DEMONSTRATIONS = 16  # runs of the whole workload
PART_DEMONSTRATIONS = 32  # runs of parts of it


class Ground(NamedTuple):
    """What episodes are drawn from.

    Attributes:
        task: the task.
        jobs: the workload.
        windows: the parts of it that are run.
        seed: seed of what is drawn.
        teacher: rewards are relative to its objective.
    """

    task: PairingTask
    jobs: JobTable
    windows: Windows
    seed: int
    teacher: Teacher

    def rng(self, *stream: int) -> np.random.Generator:
        """Return the generator of one stream, the same for the same numbers."""
        return np.random.default_rng([self.seed, *stream])

    def draw(self, rng: np.random.Generator) -> JobNodePairingEnv:
        """Return the environment of a part of the workload."""
        return scaled(self.task, self.windows.draw(rng, self.jobs), self.teacher)


class PairingLearner(Learner):
    """A pairing agent that learns.

    Args:
        scenario: its platform and rules are used.
        jobs: the workload.
        validated_on: the workload of validation.
        training: how it learns.
        parallel: makes rollouts, one or more at a time.
    """

    settings: PairingTraining
    measures = ("objective", "least_objective")

    def __init__(
        self,
        scenario: Scenario,
        jobs: JobTable,
        validated_on: JobTable,
        training: PairingTraining,
        parallel: Map,
    ) -> None:
        self.settings, self.iterations = training, training.iterations
        self._map = parallel
        task = task_of(training.pairing, training.reward, scenario)
        self._parts = _demonstrated_parts(jobs, training.windows)
        self._teaching = _teaching(task, self._parts, training)
        self._ground = Ground(task, jobs, training.windows, training.seed, self._teaching.best)
        self.agent = new_agent(training, scenario.platform.node_count)
        self._validation = _validation(self._ground, validated_on, training)
        self.description = description(training, scenario=scenario.name)

    def clone(self) -> Outcome:
        """Learn what the teachers choose."""
        ground, rng = self._ground, self._ground.rng(0, CLONING)
        envs = [scaled(ground.task, part, ground.teacher) for part in self._parts]
        shown = demonstrate(list(zip(envs, self._teaching.by_environment, strict=True)), rng)
        losses = clone(self.agent, shown, self.settings, rng)
        return Outcome("cloning", len(shown), losses=losses)

    def iterate(self, done: int, remaining: float) -> Outcome:
        """Learn from new episodes of the agent as it is."""
        settings, ground = self.settings, self._ground
        weights = save(weights_of(self.agent.actor))
        parts = np.array_split(np.arange(settings.episodes), settings.workers)
        found = self._map(
            partial(_episodes, ground, weights, done), [part for part in parts if len(part)]
        )
        rollout = joined([part for part, _ in found], join)
        objectives = np.concatenate([each for _, each in found])
        losses = learn(self.agent, rollout, settings, ground.rng(done, UPDATE), remaining)
        measures = {"objective": float(objectives.mean()), "least_objective": objectives.min()}
        mean_return = float(rollout.rewards.sum() / settings.episodes)
        return Outcome("", len(rollout), mean_return, losses, measures)

    def validate(self, actor: Actor) -> float:
        """Return the mean objective of greedy actions, over that of the teacher."""
        play_greedy(actor, self._validation)
        return float(_objectives(self._validation).mean())


def _episodes(
    ground: Ground, weights: bytes, iteration: int, numbers: Ints
) -> tuple[Rollout[PairBatch], Floats]:
    """Return some episodes of an iteration, and their objectives over those of the teacher."""
    use_one_thread()
    actor = actor_of(ground.task.settings)
    actor.load_state_dict(load(weights))
    rngs = [ground.rng(iteration, number) for number in numbers.tolist()]
    envs = [ground.draw(rng) for rng in rngs]
    return collect(side_by_side(envs), sampled(actor, rngs), join), _objectives(envs)


def _objectives(envs: Sequence[JobNodePairingEnv]) -> Floats:
    return np.array([env.objective / env.reward_scale for env in envs])


def _demonstrated_parts(jobs: JobTable, windows: Windows) -> list[JobTable]:
    """Return the workloads of demonstrations, the same for all seeds."""
    if windows == Windows():
        return [jobs] * WHOLE_DEMONSTRATIONS
    rng = np.random.default_rng(CLONING)
    return [windows.draw(rng, jobs) for _ in range(PART_DEMONSTRATIONS)]


def _teaching(task: PairingTask, parts: Sequence[JobTable], training: PairingTraining) -> Teaching:
    """Return the teacher of each part; rewards are compared with the best.

    Trying all teachers on many parts takes a minute, which only behaviour cloning is worth.
    """
    if training.windows != Windows() and not training.cloning_epochs:
        return Teaching(TEACHERS[0], [TEACHERS[0]] * len(parts))
    pairing = msgspec.structs.replace(training.pairing, sees="foreseen", wait=True, wait_s=None)
    foreseeing = dataclasses.replace(task, settings=pairing, reward="foreseen")
    tried = parts[:1] if training.windows == Windows() else parts
    best, by_part = best_teaching([JobNodePairingEnv(task=foreseeing, jobs=part) for part in tried])
    return Teaching(best, by_part if len(tried) == len(parts) else [best] * len(parts))


def _validation(
    ground: Ground, jobs: JobTable, training: PairingTraining
) -> list[JobNodePairingEnv]:
    """Return the environments of validation, the same for all seeds."""
    if not training.validation_windows:
        return [scaled(ground.task, jobs, ground.teacher)]
    rng = np.random.default_rng(VALIDATION)
    return [ground.draw(rng) for _ in range(training.validation_windows)]
