"""Runs of Deep-EAS: greedy, sampled, or of energy-aware shortest job first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from hpcosim_client.agents.deep_eas.network import Network, logits_of
from hpcosim_client.job import Floats, Ints
from hpcosim_training.environments.esjf import esjf_actions
from hpcosim_training.environments.step_binding import StepBindingVectorEnv
from hpcosim_training.learners.deep_eas.agent import SceneBatch
from hpcosim_training.learners.deep_eas.critic import watch
from hpcosim_training.learning.distributions import sample_categorical
from hpcosim_training.learning.rollout import Sample, play


class BindingRuns:
    """The runs of a vector environment as `rollout.Runs`; it is reset.

    Args:
        env: the environment.
        watched: observe for a critic, too.
    """

    def __init__(self, env: StepBindingVectorEnv, *, watched: bool = True) -> None:
        env.reset()
        self._env, self._watched = env, watched
        self.active: NDArray[np.bool_] = ~env.runs.done

    def observe(self) -> SceneBatch:
        """See `Runs`."""
        runs, some = self._env.runs, np.flatnonzero(self.active)
        watched = watch(runs, some) if self._watched else np.zeros((len(some), 0), np.float32)
        steps = torch.from_numpy(runs.now[some])
        return SceneBatch(runs.scene.some(some), torch.from_numpy(watched), steps)

    def step(self, actions: Ints) -> Floats:
        """See `Runs`."""
        some, all_actions = self.active, np.zeros(len(self.active), dtype=np.int64)
        all_actions[some] = actions
        _, rewards, terminated, _, _ = self._env.step(all_actions)
        self.active = ~terminated
        return rewards[some]


def sampled(
    network: Network, rngs: Sequence[np.random.Generator], trajectories: int
) -> Sample[SceneBatch]:
    """Return what draws a network's actions.

    Args:
        network: the network.
        rngs: what draws, one for each sequence.
        trajectories: runs of each sequence; these lie one behind the other.
    """

    def sample(batch: SceneBatch, runs: Ints) -> tuple[Ints, Floats]:
        logits = logits_of(network, batch.scene)
        counts = np.bincount(runs // trajectories, minlength=len(rngs)).tolist()
        drawn = zip(rngs, counts, strict=True)
        noise = [rng.exponential(size=(count, logits.shape[1])) for rng, count in drawn if count]
        return sample_categorical(logits, np.concatenate(noise))

    return sample


def play_greedy(network: Network, env: StepBindingVectorEnv) -> None:
    """Run all to their end, always with the most probable action."""
    play(
        BindingRuns(env, watched=False),
        lambda batch, _: logits_of(network, batch.scene).argmax(axis=1),
    )


def play_esjf(env: StepBindingVectorEnv) -> None:
    """Run all to their end as energy-aware shortest job first does."""
    play(BindingRuns(env, watched=False), lambda batch, _: esjf_actions(batch.scene))
