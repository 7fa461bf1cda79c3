"""Runs of Deep-EAS with greedy, sampled or searched actions, and of ESJF."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from hpcosim_client.job import Floats, Ints
from hpcosim_gym.learning.distributions import sample_categorical
from hpcosim_gym.learning.rollout import Sample, play
from hpcosim_papers.deep_eas.agent.look_ahead import LookAhead, improved_actions, known_part
from hpcosim_papers.deep_eas.agent.step_runs import Moment, esjf_actions
from hpcosim_papers.deep_eas.environments.step_binding import StepBindingVectorEnv
from hpcosim_papers.deep_eas.learners.networks import (
    Network,
    SceneBatch,
    critic_features,
    logits_of,
)


class BindingRuns:
    """A vector environment as `rollout.Runs`. The constructor resets it.

    Args:
        env: the environment.
        for_critic: include the critic's observation.
    """

    def __init__(self, env: StepBindingVectorEnv, *, for_critic: bool = True) -> None:
        env.reset()
        self._env, self._for_critic = env, for_critic
        self.active: NDArray[np.bool_] = ~env.runs.done

    def observe(self) -> SceneBatch:
        """Implement `Runs.observe`."""
        runs, active = self._env.runs, np.flatnonzero(self.active)
        features = np.zeros((len(active), 0), np.float32)
        if self._for_critic:
            features = critic_features(runs, active)
        steps = torch.from_numpy(runs.now[active])
        return SceneBatch(runs.scene.some(active), torch.from_numpy(features), steps)

    def step(self, actions: Ints) -> Floats:
        """Implement `Runs.step`."""
        active, all_actions = self.active, np.zeros(len(self.active), dtype=np.int64)
        all_actions[active] = actions
        _, rewards, terminated, _, _ = self._env.step(all_actions)
        self.active = ~terminated
        return rewards[active]


def make_sampler(
    network: Network, rngs: Sequence[np.random.Generator], trajectories: int
) -> Sample[SceneBatch]:
    """Return a function that samples a network's actions.

    Args:
        network: the network.
        rngs: random number generators, one for each sequence.
        trajectories: number of runs of each sequence; these are consecutive.
    """

    def sample(batch: SceneBatch, runs: Ints) -> tuple[Ints, Floats]:
        logits = logits_of(network, batch.scene)
        counts = np.bincount(runs // trajectories, minlength=len(rngs)).tolist()
        drawn = zip(rngs, counts, strict=True)
        noise = [rng.exponential(size=(count, logits.shape[1])) for rng, count in drawn if count]
        return sample_categorical(logits, np.concatenate(noise))

    return sample


def play_greedy(network: Network, env: StepBindingVectorEnv) -> None:
    """Run all episodes to their ends with the most probable actions."""
    play(
        BindingRuns(env, for_critic=False),
        lambda batch, _: logits_of(network, batch.scene).argmax(axis=1),
    )


def play_esjf(env: StepBindingVectorEnv) -> None:
    """Run all episodes to their ends with energy-aware shortest job first."""
    play(BindingRuns(env, for_critic=False), lambda batch, _: esjf_actions(batch.scene))


def play_sampled(network: Network, env: StepBindingVectorEnv, seed: int = 0) -> None:
    """Run all episodes to their ends with sampled actions."""
    sample = make_sampler(network, [np.random.default_rng(seed)], env.num_envs)
    play(BindingRuns(env, for_critic=False), lambda batch, runs: sample(batch, runs)[0])


class Foresight(NamedTuple):
    """What a look-ahead knows of the future; a scheduler knows nothing of it.

    Attributes:
        run_times: the true run times of submitted jobs.
        arrivals: the future jobs and their requested times.
    """

    run_times: bool = False
    arrivals: bool = False


NO_FORESIGHT = Foresight()


def play_search(
    network: Network,
    env: StepBindingVectorEnv,
    foresight: Foresight = NO_FORESIGHT,
    seed: int = 0,
) -> None:
    """Run all episodes to their ends with the look-ahead.

    With known arrivals there is only one future, and the four likeliest actions are always
    simulated. Without, more than the usual actions improve nothing, because the costs of futures
    vary.
    """
    rng, every = np.random.default_rng(seed), np.arange(env.num_envs)
    runs = BindingRuns(env, for_critic=False)
    settings, logits = LookAhead(), partial(logits_of, network)
    if foresight.arrivals:
        settings = LookAhead(actions=4, futures=1, steps=0, sure=1.0)

    def act(batch: SceneBatch, _: Ints) -> Ints:
        known = _known_to(foresight, env.runs.moment(every[runs.active]))
        return improved_actions(logits, env.machines, known, batch.scene, settings, rng)

    play(runs, act)


def _known_to(foresight: Foresight, moment: Moment) -> Moment:
    """Return what a look-ahead knows."""
    known, true = known_part(moment), moment.jobs
    jobs = known.jobs
    future = true.valid & (true.submit > moment.now[:, None])
    if foresight.arrivals:
        submit = np.where(future, true.submit, jobs.submit)
        jobs = jobs._replace(valid=jobs.valid | future, submit=submit)
    if foresight.run_times:
        jobs = jobs._replace(actual=true.actual)
    return known._replace(jobs=jobs)
