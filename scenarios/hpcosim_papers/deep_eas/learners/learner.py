"""The learner of Deep-EAS: job sequences, baseline and validation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np
from safetensors.torch import load, save

from hpcosim_client.job import Ints
from hpcosim_experiments.executors import ParallelMap
from hpcosim_gym.learning.agent import weights_of
from hpcosim_gym.learning.rollout import Rollout, collect, joined, parts_of
from hpcosim_gym.learning.session import IterationOutcome, Learner
from hpcosim_gym.learning.settings import description
from hpcosim_gym.learning.threads import use_one_thread
from hpcosim_gym.learning.update import learn
from hpcosim_papers.deep_eas.agent.step_costs import mean_edp, normalised_edps
from hpcosim_papers.deep_eas.agent.step_jobs import Machines, StepJobs
from hpcosim_papers.deep_eas.environments.step_binding import StepBindingVectorEnv
from hpcosim_papers.deep_eas.environments.step_jobs import step_jobs
from hpcosim_papers.deep_eas.environments.step_machines import sequence
from hpcosim_papers.deep_eas.learners.agent import SceneBatch, join, new_agent
from hpcosim_papers.deep_eas.learners.baseline import subtract_sequence_baseline
from hpcosim_papers.deep_eas.learners.networks import Network, network_of
from hpcosim_papers.deep_eas.learners.play import BindingRuns, make_sampler, play_esjf, play_greedy
from hpcosim_papers.deep_eas.learners.settings import DeepEasTraining
from hpcosim_scenarios.model.workload import Bernoulli
from hpcosim_workloads.table import JobTable

POOL, VALIDATION, CHOICE, RUNS, ORDER = range(5)  # random number streams


class SampledEpisodes(NamedTuple):
    """The episodes that one worker sampled in an iteration.

    Attributes:
        rollout: the decisions, with rewards relative to the mean of the sequence.
        mean_return: mean return of the runs, by the rewards of the environment.
        edp: sum of the normalised energy-delay products of the jobs.
        jobs: number of jobs.
    """

    rollout: Rollout[SceneBatch]
    mean_return: float
    edp: float
    jobs: int


class DeepEasLearner(Learner):
    """Learner of Deep-EAS.

    Args:
        machines: the machines.
        model: workload model that draws the sequences.
        training: settings of the training.
        parallel: map that collects rollouts.

    Attributes:
        tables: the validation sequences.
        esjf_runs: their runs under energy-aware shortest job first.

    Raises:
        ScenariosError: a time is not a whole number of steps.
        WorkloadError: the model draws sequences without jobs.
    """

    settings: DeepEasTraining
    measures = ("normalised_edp",)

    def __init__(
        self, machines: Machines, model: Bernoulli, training: DeepEasTraining, parallel: ParallelMap
    ) -> None:
        self.settings, self.iterations = training, training.iterations
        self._machines, self._model, self._map = machines, model, parallel
        self.tables = self._sequences(training.validation_sequences, VALIDATION)
        self._validation = self._env(self._in_steps(self.tables))
        play_esjf(self._validation)
        self.esjf_runs = self._validation.runs
        pool = self._sequences(training.pool, POOL, 0)
        self._pool = self._in_steps(pool) if pool else None
        self.agent = new_agent(training, len(machines.watts))
        self.description = description(
            training, model=model, watts=machines.watts.tolist(), scale=machines.scale.tolist()
        )

    def iterate(self, done: int, remaining: float) -> IterationOutcome:
        """Collect new episodes with the current actor and update the agent."""
        training, number = self.settings, done + 1
        jobs = self._drawn(number)
        weights = save(weights_of(self.agent.actor))
        episodes = partial(_episodes, self._machines, jobs, training, weights, number)
        parts = parts_of(len(jobs.valid), training.together)
        found: list[SampledEpisodes] = self._map(episodes, parts)
        rollout = joined([part.rollout for part in found], join)
        losses = learn(self.agent, rollout, training, self._rng(ORDER, number), remaining)
        sizes = [len(part) for part in parts]
        mean_return = float(np.average([part.mean_return for part in found], weights=sizes))
        edp = sum(part.edp for part in found) / sum(part.jobs for part in found)
        return IterationOutcome("", len(rollout), mean_return, losses, {"normalised_edp": edp})

    def validate(self, network: Network) -> float:
        """Return the mean normalised energy-delay product of greedy actions, divided by ESJF's.

        With sequences of several lengths it is the geometric mean of the quotients of sequences.
        """
        play_greedy(network, self._validation)
        if self.settings.lengths is None:
            return mean_edp(self._validation.runs) / mean_edp(self.esjf_runs)
        found, esjf = (
            normalised_edps(runs).sum(axis=1) for runs in (self._validation.runs, self.esjf_runs)
        )
        return float(np.exp(np.log(found / esjf).mean()))

    def _drawn(self, number: int) -> StepJobs:
        """Return the sequences of an iteration."""
        training = self.settings
        if self._pool is None:
            return self._in_steps(self._sequences(training.sequences, POOL, number))
        most = min(training.sequences, training.pool)
        return self._pool.take(self._rng(CHOICE, number).choice(training.pool, most, replace=False))

    def _env(self, jobs: StepJobs) -> StepBindingVectorEnv:
        return StepBindingVectorEnv(machines=self._machines, jobs=jobs)

    def _in_steps(self, tables: Sequence[JobTable]) -> StepJobs:
        return step_jobs(self._machines.settings, self._machines.scale, tables)

    def _rng(self, *stream: int) -> np.random.Generator:
        return np.random.default_rng([self.settings.seed, *stream])

    def _sequences(self, count: int, *stream: int) -> list[JobTable]:
        """Draw sequences from a random number stream each, shorter ones first."""
        rngs = [self._rng(*stream, number) for number in range(count)]
        shares = [number / count for number in range(count)]
        return [
            sequence(self._varied(share, 1.0 / count, rng), rng)
            for share, rng in zip(shares, rngs, strict=True)
        ]

    def _varied(self, share: float, width: float, rng: np.random.Generator) -> Bernoulli:
        """Return the model with a length and a load of the training's ranges.

        The lengths are stratified, so that every iteration has long sequences, and sequences
        that run side by side have similar lengths.

        Args:
            share: smallest quantile of the length.
            width: range of the quantile.
            rng: generator of the sequence.
        """
        model, training = self._model, self.settings
        if training.lengths is not None:
            least, most = training.lengths
            steps = round(least * (most / least) ** (share + width * rng.random()))
            model = msgspec.structs.replace(model, steps=steps, apart_s=max(model.apart_s, steps))
        if training.arrivals is not None:
            rate = float(rng.uniform(*training.arrivals))
            model = msgspec.structs.replace(model, arrival_probability=rate)
        return model


def _episodes(
    machines: Machines,
    jobs: StepJobs,
    training: DeepEasTraining,
    weights: bytes,
    iteration: int,
    numbers: Ints,
) -> SampledEpisodes:
    """Sample the episodes of some sequences of an iteration."""
    use_one_thread()
    network = network_of(training.settings)
    network.load_state_dict(load(weights))
    seeds = [[training.seed, RUNS, iteration, number] for number in numbers.tolist()]
    rngs = [np.random.default_rng(seed) for seed in seeds]
    own = jobs.take(np.repeat(numbers, training.trajectories))
    env = StepBindingVectorEnv(machines=machines, jobs=own)
    rollout = collect(BindingRuns(env), make_sampler(network, rngs, training.trajectories), join)
    return SampledEpisodes(
        subtract_sequence_baseline(rollout, env.runs, training),
        float(rollout.rewards.sum() / len(own.valid)),
        float(normalised_edps(env.runs).sum()),
        int(own.valid.sum()),
    )
