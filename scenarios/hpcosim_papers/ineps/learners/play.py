"""Episodes of a pairing agent with greedy or sampled actions. Actions are indices of choices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpcosim_client.job import Floats, Ints
from hpcosim_gym.learning.distributions import sample_categorical
from hpcosim_gym.learning.rollout import Sample, SideBySide, play
from hpcosim_papers.ineps.agent.model import best
from hpcosim_papers.ineps.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_papers.ineps.learners.agent import PairBatch, batch_of, logits_of
from hpcosim_papers.ineps.learners.networks import PairingActor


def side_by_side(envs: Sequence[JobNodePairingEnv]) -> SideBySide[JobNodePairingEnv, PairBatch]:
    """Return environments that run side by side; all are reset."""
    return SideBySide(
        envs,
        lambda some: batch_of([env.choices for env in some]),
        lambda env, choice: (env.choose(choice), env.done),
    )


def make_sampler(actor: PairingActor, rngs: Sequence[np.random.Generator]) -> Sample[PairBatch]:
    """Return a function that samples an actor's choices, with one generator for each run.

    A run consumes one random number for each choice, so its actions are independent of the runs
    beside it.
    """

    def sample(batch: PairBatch, runs: Ints) -> tuple[Ints, Floats]:
        noise = np.ones(batch.valid.shape)
        counts = batch.valid.sum(dim=1).tolist()
        for line, run, count in zip(noise, runs.tolist(), counts, strict=True):
            line[:count] = rngs[run].exponential(size=count)
        return sample_categorical(logits_of(actor, batch), noise)

    return sample


def play_greedy(actor: PairingActor, envs: Sequence[JobNodePairingEnv]) -> None:
    """Run each environment to its end with the most probable choices."""

    def act(batch: PairBatch, _: Ints) -> Ints:
        return np.array([best(logits) for logits in logits_of(actor, batch)])

    play(side_by_side(envs), act)


def play_sampled(
    actor: PairingActor, envs: Sequence[JobNodePairingEnv], rngs: Sequence[np.random.Generator]
) -> None:
    """Run each environment to its end with sampled choices.

    Args:
        actor: the actor.
        envs: the environments; all are reset.
        rngs: random number generators, one for each environment.
    """
    sample = make_sampler(actor, rngs)
    play(side_by_side(envs), lambda batch, runs: sample(batch, runs)[0])
