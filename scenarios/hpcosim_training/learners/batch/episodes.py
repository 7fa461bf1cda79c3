"""The training episodes of batch agents: windows of a workload beside a teacher."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hpcosim_client import PolicyError
from hpcosim_client.heuristics.chosen_head import RULES
from hpcosim_client.job import Floats
from hpcosim_server.engine.simulation import Simulation
from hpcosim_training.environments.batch_costs import BatchEpisode, Cost, Objective, new_cost
from hpcosim_training.environments.batch_scheduling import BatchSchedulingEnv
from hpcosim_training.environments.batch_task import MAX_DRAWS, BatchTask
from hpcosim_training.learners.batch.settings import BatchTraining
from hpcosim_workloads.shaping import scale_load, window_by_number
from hpcosim_workloads.table import JobTable


class CostBeyond:
    """The cost of an episode so far minus that of the teacher by the same time.

    The teacher's cost is a baseline that depends on the submissions, which cause most of the
    variance of the returns (Mao et al. 2019, "Variance reduction for reinforcement learning in
    input-driven environments").

    Args:
        objective: the cost.
        times_s: float64[n], simulated seconds, ascending.
        costs: float64[n], the teacher's costs by then, between which the cost is linear.
    """

    def __init__(self, objective: Objective, times_s: Floats, costs: Floats) -> None:
        self._objective, self._times_s, self._costs = objective, times_s, costs
        self._simulation: Simulation | None = None
        self._cost: Cost = new_cost(objective)

    def __call__(self, episode: BatchEpisode) -> float:
        """Return the difference."""
        if episode.simulation is not self._simulation:  # a new episode
            self._simulation, self._cost = episode.simulation, new_cost(self._objective)
        teacher = np.interp(episode.simulation.now_s, self._times_s, self._costs)
        return self._cost(episode) - float(teacher)


class EpisodeSource(NamedTuple):
    """The distribution of training episodes.

    Attributes:
        task: the task.
        jobs: the workload.
        training: settings of the training.
    """

    task: BatchTask
    jobs: JobTable
    training: BatchTraining

    def rng(self, *stream: int) -> np.random.Generator:
        """Return the generator of a stream; the same numbers give the same generator."""
        return np.random.default_rng([self.training.seed, *stream])

    def draw(self, rng: np.random.Generator) -> BatchSchedulingEnv:
        """Return the environment of a random window of the workload at a random load.

        Raises:
            PolicyError: no window with a decision was found.
        """
        training = self.training
        for _ in range(MAX_DRAWS):
            first = int(rng.integers(len(self.jobs) - training.episode_jobs + 1))
            factor = np.exp(rng.uniform(np.log(training.least_load), np.log(training.most_load)))
            env = self.window(first, float(factor))
            if env is not None:
                return env
        raise PolicyError(
            f"{MAX_DRAWS} windows of {training.episode_jobs} jobs have no decision to take; "
            "expected a workload with a higher load"
        )

    def window(self, first: int, load: float = 1.0) -> BatchSchedulingEnv | None:
        """Return the environment of a window, with rewards relative to the teacher's cost.

        Args:
            first: number of its first job.
            load: factor on the arrival rate.

        Returns:
            The environment; None: there is no decision to take.
        """
        last = first + self.training.episode_jobs
        jobs = scale_load(window_by_number(self.jobs, first, last), load)
        env = BatchSchedulingEnv(task=self.task, jobs=jobs)
        try:
            env.reset()
        except PolicyError:
            return None
        times_s, costs = [env.simulation.start_s], [0.0]
        while not env.done:
            env.choose(self.teach(env))
            times_s.append(env.simulation.now_s)
            costs.append(env.cost)
        reward = CostBeyond(self.training.objective, np.array(times_s), np.array(costs))
        task = replace(self.task, reward=reward, reward_scale=max(env.cost, 1e-9))
        return BatchSchedulingEnv(task=task, jobs=jobs)

    def teach(self, env: BatchSchedulingEnv) -> int:
        """Return the choice of the teacher in an environment."""
        return RULES[self.training.teacher](env.visible, env.view.now_s)


def ratio(env: BatchSchedulingEnv) -> float:
    """Return the cost of a finished episode of a window, divided by the teacher's."""
    return 1.0 + env.cost / env.task.reward_scale
