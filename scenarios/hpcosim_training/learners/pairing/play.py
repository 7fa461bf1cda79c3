"""Episodes of an actor that pairs jobs with nodes: greedy, or sampled. Actions are choices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpcosim_client.agents.pairing.networks import Actor, best
from hpcosim_client.job import Floats, Ints
from hpcosim_training.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_training.learners.pairing.agent import PairBatch, batch_of, logits_of
from hpcosim_training.learning.distributions import sample_categorical
from hpcosim_training.learning.rollout import Sample, SideBySide, play


def side_by_side(envs: Sequence[JobNodePairingEnv]) -> SideBySide[JobNodePairingEnv, PairBatch]:
    """Return environments that run side by side; all are reset."""
    return SideBySide(
        envs,
        lambda some: batch_of([env.choices for env in some]),
        lambda env, choice: (env.choose(choice), env.done),
    )


def sampled(actor: Actor, rngs: Sequence[np.random.Generator]) -> Sample[PairBatch]:
    """Return what draws an actor's choices, each run with a generator of its own.

    A run draws as many numbers as there are choices, so it is the same beside any other runs.
    """

    def sample(batch: PairBatch, runs: Ints) -> tuple[Ints, Floats]:
        noise = np.ones(batch.there.shape)
        counts = batch.there.sum(dim=1).tolist()
        for line, run, count in zip(noise, runs.tolist(), counts, strict=True):
            line[:count] = rngs[run].exponential(size=count)
        return sample_categorical(logits_of(actor, batch), noise)

    return sample


def play_greedy(actor: Actor, envs: Sequence[JobNodePairingEnv]) -> None:
    """Run each environment to its end, always with the most probable choice."""

    def act(batch: PairBatch, _: Ints) -> Ints:
        return np.array([best(logits) for logits in logits_of(actor, batch)])

    play(side_by_side(envs), act)


def play_sampled(
    actor: Actor, envs: Sequence[JobNodePairingEnv], rngs: Sequence[np.random.Generator]
) -> None:
    """Run each environment to its end, each choice drawn by its probability.

    Args:
        actor: the actor.
        envs: the environments; all are reset.
        rngs: what draws, one for each environment.
    """
    sample = sampled(actor, rngs)
    play(side_by_side(envs), lambda batch, runs: sample(batch, runs)[0])
