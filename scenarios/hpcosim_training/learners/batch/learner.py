"""The learner of batch agents: episodes, behaviour cloning and validation."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from safetensors.torch import load, save

from hpcosim_client import PolicyError
from hpcosim_client.agents.batch.model import BatchMetadata, actor_of
from hpcosim_client.agents.batch.scene import FEATURES
from hpcosim_client.agents.row_networks import PooledActor, PooledCritic, RowActor, initialise
from hpcosim_client.agents.threads import use_one_thread
from hpcosim_client.job import Floats, Ints
from hpcosim_executors import ParallelMap
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_training.environments.batch_scheduling import BatchSchedulingEnv
from hpcosim_training.environments.batch_task import task_of
from hpcosim_training.learners.batch.episodes import EpisodeSource, ratio
from hpcosim_training.learners.batch.settings import BatchTraining
from hpcosim_training.learners.choices import demonstrate, play_greedy, side_by_side
from hpcosim_training.learning.agent import Agent, weights_of
from hpcosim_training.learning.rollout import Rollout, collect, joined, parts_of
from hpcosim_training.learning.row_batches import (
    RowBatch,
    evaluate_rows,
    join,
    make_sampler,
    value_rows,
)
from hpcosim_training.learning.session import IterationOutcome, Learner
from hpcosim_training.learning.settings import checksum, description
from hpcosim_training.learning.update import behaviour_cloning, learn
from hpcosim_workloads.table import JobTable

UPDATE, CLONING = 1_000_001, 1_000_002  # random number streams

EPISODES_TOGETHER = 10  # in a task of a worker
DEMONSTRATIONS = 40


class BatchLearner(Learner):
    """Learner of a batch agent.

    Args:
        scenario: provides platform and rules.
        jobs: the training workload.
        validation_jobs: the validation workload, on the same platform.
        training: settings of the training.
        parallel: map that collects rollouts.

    Raises:
        PolicyError: the workloads have no decisions.
        ValueError: a workload has too few jobs for an episode.
    """

    settings: BatchTraining
    measures = ("cost_ratio",)

    def __init__(
        self,
        scenario: Scenario,
        jobs: JobTable,
        validation_jobs: JobTable,
        training: BatchTraining,
        parallel: ParallelMap,
    ) -> None:
        self.settings, self.iterations = training, training.iterations
        self._map = parallel
        changes = {"window_jobs": training.window_jobs, "reward": training.objective}
        self._source = EpisodeSource(task_of(changes, scenario), jobs, training)
        for table in (jobs, validation_jobs):
            if len(table) < training.episode_jobs:
                raise ValueError(
                    f"an episode has {training.episode_jobs} jobs, the workload {len(table)}"
                )
        self.agent = new_agent(training)
        self._validation = _validation(self._source._replace(jobs=validation_jobs))
        inputs = checksum(scenario.platform, (jobs, validation_jobs))
        self.description = description(training, scenario=scenario.name, inputs=inputs)

    def clone(self) -> IterationOutcome:
        """Train by behaviour cloning on demonstrations of the teacher."""
        source, rng = self._source, self._source.rng(0, CLONING)
        envs = [source.draw(rng) for _ in range(DEMONSTRATIONS)]
        shown = demonstrate([(env, source.teach) for env in envs], rng)
        losses = behaviour_cloning(self.agent, shown, self.settings, rng)
        return IterationOutcome("cloning", len(shown), losses=losses)

    def iterate(self, done: int, remaining: float) -> IterationOutcome:
        """Collect new episodes with the current actor and update the agent."""
        settings, source = self.settings, self._source
        weights = save(weights_of(self.agent.actor))
        parts = parts_of(settings.episodes, EPISODES_TOGETHER)
        found = self._map(partial(_episodes, source, weights, done), parts)
        rollout = joined([part for part, _ in found], join)
        ratios = np.concatenate([each for _, each in found])
        losses = learn(self.agent, rollout, settings, source.rng(done, UPDATE), remaining)
        mean_return = float(rollout.rewards.sum() / settings.episodes)
        measures = {"cost_ratio": float(ratios.mean())}
        return IterationOutcome("", len(rollout), mean_return, losses, measures)

    def validate(self, actor: RowActor) -> float:
        """Return the mean cost of greedy choices, divided by the teacher's."""
        play_greedy(actor, self._validation)
        return float(np.mean([ratio(env) for env in self._validation]))


def new_agent(training: BatchTraining) -> Agent[PooledActor, RowBatch]:
    """Return an agent with initial weights."""
    generator = torch.Generator().manual_seed(training.seed)
    actor = actor_of(BatchMetadata(width=training.width))
    critic = PooledCritic(FEATURES, training.width)
    initialise(actor, generator)
    initialise(critic, generator)
    return Agent(actor, critic, evaluate_rows, value_rows, training)


def _episodes(
    source: EpisodeSource, weights: bytes, iteration: int, numbers: Ints
) -> tuple[Rollout[RowBatch], Floats]:
    """Sample some episodes of an iteration; return also their costs over the teacher's."""
    use_one_thread()
    actor = actor_of(BatchMetadata(width=source.training.width))
    actor.load_state_dict(load(weights))
    rngs = [source.rng(iteration, number) for number in numbers.tolist()]
    envs = [source.draw(rng) for rng in rngs]
    rollout = collect(side_by_side(envs), make_sampler(actor, rngs), join)
    return rollout, np.array([ratio(env) for env in envs])


def _validation(source: EpisodeSource) -> list[BatchSchedulingEnv]:
    """Return the validation environments, the same for all seeds."""
    training = source.training
    most = len(source.jobs) - training.episode_jobs
    firsts = np.linspace(0, most, training.validation_windows).astype(np.int64)
    found = [source.window(first) for first in np.unique(firsts).tolist()]
    envs = [env for env in found if env is not None]
    if training.validate_every and not envs:
        raise PolicyError(
            "the validation workload has no decision to take; expected one with a higher load"
        )
    return envs
