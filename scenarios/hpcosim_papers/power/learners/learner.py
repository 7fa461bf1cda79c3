"""The learner of power managers: a curriculum of workloads, and additional metrics."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from hpcosim_gym.learning.rollout import collect
from hpcosim_gym.learning.session import IterationOutcome, Learner
from hpcosim_gym.learning.settings import checksum, description, flat_settings
from hpcosim_gym.learning.update import learn, mean_losses
from hpcosim_papers.power.agent.network import NodePowerMetadata, Shape
from hpcosim_papers.power.environments.node_power import NodePowerEnv
from hpcosim_papers.power.environments.power_task import PowerTask
from hpcosim_papers.power.learners.agent import join, make_sampler, new_agent, side_by_side
from hpcosim_papers.power.learners.curriculum import CurriculumWorkload, split_by_time
from hpcosim_papers.power.learners.settings import PowerTraining


class PowerLearner(Learner):
    """Learner of a power manager.

    Args:
        task: the task.
        curriculum: the workloads, in training order.
        training: settings of the training.
        shape: sizes of the networks; the task sets the number of features.

    Attributes:
        shape: sizes of the networks.
    """

    settings: PowerTraining
    measures = ("mean_reward", "wasted_j", "mean_wait_s")

    def __init__(
        self,
        task: PowerTask,
        curriculum: Sequence[CurriculumWorkload],
        training: PowerTraining,
        shape: Shape | None = None,
    ) -> None:
        self.settings = training
        self.iterations = len(curriculum) * training.iterations
        self._task, self._curriculum = task, curriculum
        self.shape = (shape or Shape())._replace(features=task.columns)
        self.agent = new_agent(training, self.shape)
        jobs = [len(workload.jobs) for workload in curriculum]
        inputs = checksum(task.platform, [workload.jobs for workload in curriculum])
        self.description = description(training, shape=self.shape, jobs=jobs, inputs=inputs)

    def iterate(self, done: int, remaining: float) -> IterationOutcome:
        """Train on a workload once, from its beginning to its end."""
        settings = self.settings
        workload = self._curriculum[done // settings.iterations]
        calendar = None if self._task.origin_s is None else workload.origin_s
        task = dataclasses.replace(self._task, origin_s=calendar)
        parts = split_by_time(workload.jobs, settings.runs)
        envs = [NodePowerEnv(task=task, jobs=part) for part in parts]
        runs, rng = side_by_side(envs), np.random.default_rng([settings.seed, done])
        losses, decisions, rewards = [], 0, 0.0
        while runs.active.any():
            rollout = collect(runs, make_sampler(self.agent.actor, rng), join, settings.steps)
            losses.append(learn(self.agent, rollout, settings, rng, remaining))
            decisions, rewards = decisions + len(rollout), rewards + float(rollout.rewards.sum())
        return IterationOutcome(
            workload.name,
            decisions,
            rewards / len(envs),
            mean_losses(losses),
            {"mean_reward": rewards / decisions, **_totals(envs)},
        )

    def about(self) -> NodePowerMetadata:
        """Return the metadata of the actor's file."""
        training = flat_settings(self.settings, {"interval_s", "calendar"})
        return NodePowerMetadata(
            shape=self.shape,
            interval_s=self._task.interval_s,
            origin_s=self._task.origin_s,
            training=training,
        )


def _totals(envs: Sequence[NodePowerEnv]) -> dict[str, float]:
    """Return the energy not spent computing, J, and the mean wait of all jobs, s."""
    accounts = [env.account for env in envs]
    waited_s = sum(account.waited_s for account in accounts)
    return {
        "wasted_j": float(sum(account.wasted_j.sum() for account in accounts)),
        "mean_wait_s": waited_s / max(sum(account.submissions.count for account in accounts), 1),
    }
