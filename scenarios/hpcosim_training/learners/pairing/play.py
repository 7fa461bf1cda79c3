"""Episodes of a pairing agent with greedy or sampled actions. Actions are indices of choices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpcosim_client.agents.row_networks import RowActor, best
from hpcosim_client.job import Ints
from hpcosim_training.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_training.learning.rollout import SideBySide, play
from hpcosim_training.learning.row_batches import RowBatch, batch_of, logits_of, make_sampler


def side_by_side(envs: Sequence[JobNodePairingEnv]) -> SideBySide[JobNodePairingEnv, RowBatch]:
    """Return environments that run side by side; all are reset."""
    return SideBySide(
        envs,
        lambda some: batch_of([env.choices for env in some]),
        lambda env, choice: (env.choose(choice), env.done),
    )


def play_greedy(actor: RowActor, envs: Sequence[JobNodePairingEnv]) -> None:
    """Run each environment to its end with the most probable choices."""

    def act(batch: RowBatch, _: Ints) -> Ints:
        return np.array([best(logits) for logits in logits_of(actor, batch)])

    play(side_by_side(envs), act)


def play_sampled(
    actor: RowActor, envs: Sequence[JobNodePairingEnv], rngs: Sequence[np.random.Generator]
) -> None:
    """Run each environment to its end with sampled choices.

    Args:
        actor: the actor.
        envs: the environments; all are reset.
        rngs: random number generators, one for each environment.
    """
    sample = make_sampler(actor, rngs)
    play(side_by_side(envs), lambda batch, runs: sample(batch, runs)[0])
