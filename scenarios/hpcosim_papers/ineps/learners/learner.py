"""The learner of pairing agents: episodes, behaviour cloning and validation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np
from safetensors.torch import load, save

from hpcosim_client.job import Floats, Ints
from hpcosim_experiments.executors import ParallelMap
from hpcosim_gym.learning.agent import weights_of
from hpcosim_gym.learning.rollout import Rollout, collect, joined, parts_of
from hpcosim_gym.learning.session import IterationOutcome, Learner
from hpcosim_gym.learning.settings import checksum, description
from hpcosim_gym.learning.threads import use_one_thread
from hpcosim_gym.learning.update import behaviour_cloning, learn
from hpcosim_papers.ineps.agent.rule import RULES, Rule
from hpcosim_papers.ineps.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_papers.ineps.environments.pairing_task import PairingTask, task_of
from hpcosim_papers.ineps.learners.agent import PairBatch, join, new_agent
from hpcosim_papers.ineps.learners.networks import PairingActor, actor_of
from hpcosim_papers.ineps.learners.play import make_sampler, play_greedy, side_by_side
from hpcosim_papers.ineps.learners.settings import PairingTraining, Windows
from hpcosim_papers.ineps.learners.teacher import (
    TeacherAssignment,
    assign_teachers,
    demonstrate,
    scaled_environment,
)
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_workloads.table import JobTable

UPDATE, CLONING, VALIDATION = 1_000_001, 1_000_002, 1_000_003  # random number streams

EPISODES_TOGETHER = 4  # in a task of a worker
WHOLE_DEMONSTRATIONS = 16  # demonstrations if episodes are the whole workload
PART_DEMONSTRATIONS = 32  # demonstrations if episodes are windows of it


class EpisodeSource(NamedTuple):
    """The distribution of training episodes.

    Attributes:
        task: the task.
        jobs: the workload.
        windows: the distribution of windows.
        seed: seed of the random number streams.
        teacher: rewards are relative to this teacher's objective.
    """

    task: PairingTask
    jobs: JobTable
    windows: Windows
    seed: int
    teacher: Rule

    def rng(self, *stream: int) -> np.random.Generator:
        """Return the generator of a stream; the same numbers give the same generator."""
        return np.random.default_rng([self.seed, *stream])

    def draw(self, rng: np.random.Generator) -> JobNodePairingEnv:
        """Return the environment of a random window of the workload."""
        return scaled_environment(self.task, self.windows.draw(rng, self.jobs), self.teacher)


class PairingLearner(Learner):
    """Learner of a pairing agent.

    Args:
        scenario: provides platform and rules.
        jobs: the training workload.
        validation_jobs: the validation workload.
        training: settings of the training.
        parallel: map that collects rollouts.
    """

    settings: PairingTraining
    measures = ("objective", "least_objective")

    def __init__(
        self,
        scenario: Scenario,
        jobs: JobTable,
        validation_jobs: JobTable,
        training: PairingTraining,
        parallel: ParallelMap,
    ) -> None:
        self.settings, self.iterations = training, training.iterations
        self._map = parallel
        task = task_of(training.pairing, training.reward, scenario)
        self._parts = _demonstrated_parts(jobs, training.windows)
        self._teachers = _choose_teachers(task, self._parts, training)
        self._source = EpisodeSource(
            task, jobs, training.windows, training.seed, self._teachers.best
        )
        self.agent = new_agent(training, scenario.platform.node_count)
        self._validation = _validation(self._source, validation_jobs, training)
        self.description = description(
            training,
            scenario=scenario.name,
            inputs=checksum(scenario.platform, (jobs, validation_jobs)),
        )

    def clone(self) -> IterationOutcome:
        """Train by behaviour cloning on demonstrations of the teachers."""
        source, rng = self._source, self._source.rng(0, CLONING)
        envs = [scaled_environment(source.task, part, source.teacher) for part in self._parts]
        shown = demonstrate(list(zip(envs, self._teachers.by_environment, strict=True)), rng)
        losses = behaviour_cloning(self.agent, shown, self.settings, rng)
        return IterationOutcome("cloning", len(shown), losses=losses)

    def iterate(self, done: int, remaining: float) -> IterationOutcome:
        """Collect new episodes with the current actor and update the agent."""
        settings, source = self.settings, self._source
        weights = save(weights_of(self.agent.actor))
        parts = parts_of(settings.episodes, EPISODES_TOGETHER)
        found = self._map(partial(_episodes, source, weights, done), parts)
        rollout = joined([part for part, _ in found], join)
        objectives = np.concatenate([each for _, each in found])
        losses = learn(self.agent, rollout, settings, source.rng(done, UPDATE), remaining)
        measures = {"objective": float(objectives.mean()), "least_objective": objectives.min()}
        mean_return = float(rollout.rewards.sum() / settings.episodes)
        return IterationOutcome("", len(rollout), mean_return, losses, measures)

    def validate(self, actor: PairingActor) -> float:
        """Return the mean objective of greedy actions, divided by the teacher's."""
        play_greedy(actor, self._validation)
        return float(_objectives(self._validation).mean())


def _episodes(
    source: EpisodeSource, weights: bytes, iteration: int, numbers: Ints
) -> tuple[Rollout[PairBatch], Floats]:
    """Sample some episodes of an iteration; return also their objectives over the teacher's."""
    use_one_thread()
    actor = actor_of(source.task.settings)
    actor.load_state_dict(load(weights))
    rngs = [source.rng(iteration, number) for number in numbers.tolist()]
    envs = [source.draw(rng) for rng in rngs]
    return collect(side_by_side(envs), make_sampler(actor, rngs), join), _objectives(envs)


def _objectives(envs: Sequence[JobNodePairingEnv]) -> Floats:
    return np.array([env.objective / env.reward_scale for env in envs])


def _demonstrated_parts(jobs: JobTable, windows: Windows) -> list[JobTable]:
    """Return the workloads of the demonstrations, the same for all seeds."""
    if windows == Windows():
        return [jobs] * WHOLE_DEMONSTRATIONS
    rng = np.random.default_rng(CLONING)
    return [windows.draw(rng, jobs) for _ in range(PART_DEMONSTRATIONS)]


def _choose_teachers(
    task: PairingTask, parts: Sequence[JobTable], training: PairingTraining
) -> TeacherAssignment:
    """Return the teacher of each demonstration.

    Evaluating all teachers on many windows takes a minute, so this is done only for behaviour
    cloning.
    """
    if training.windows != Windows() and not training.cloning_epochs:
        return TeacherAssignment(RULES[0], [RULES[0]] * len(parts))
    pairing = msgspec.structs.replace(training.pairing, sees="foreseen", wait=True, wait_s=None)
    foreseeing = dataclasses.replace(task, settings=pairing, reward="foreseen")
    tried = parts[:1] if training.windows == Windows() else parts
    best, by_part = assign_teachers(
        [JobNodePairingEnv(task=foreseeing, jobs=part) for part in tried]
    )
    return TeacherAssignment(best, by_part if len(tried) == len(parts) else [best] * len(parts))


def _validation(
    source: EpisodeSource, jobs: JobTable, training: PairingTraining
) -> list[JobNodePairingEnv]:
    """Return the validation environments, the same for all seeds."""
    if not training.validation_windows:
        return [scaled_environment(source.task, jobs, source.teacher)]
    rng = np.random.default_rng(VALIDATION)
    return [source.draw(rng) for _ in range(training.validation_windows)]
