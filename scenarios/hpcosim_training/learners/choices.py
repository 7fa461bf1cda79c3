"""Episodes of agents that choose among rows: sampled, greedy, or of a teacher.

Actions are indices of choices, see `learning.row_batches.Rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import torch

from hpcosim_client.agents.row_networks import RowActor, best
from hpcosim_client.job import Ints
from hpcosim_training.environments.batch_scheduling import BatchSchedulingEnv
from hpcosim_training.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_training.learning.rollout import Rollout, SideBySide, play
from hpcosim_training.learning.row_batches import RowBatch, batch_of, logits_of, make_sampler

E = TypeVar("E", JobNodePairingEnv, BatchSchedulingEnv)

RANDOM_CHOICE_PROBABILITY = 0.1  # random choices let demonstrations cover more states


def side_by_side(envs: Sequence[E]) -> SideBySide[E, RowBatch]:
    """Return environments that run side by side; all are reset."""
    return SideBySide(
        envs,
        lambda some: batch_of([env.choices for env in some]),
        lambda env, choice: (env.choose(choice), env.done),
    )


def play_greedy(actor: RowActor, envs: Sequence[E]) -> None:
    """Run each environment to its end with the most probable choices."""

    def act(batch: RowBatch, _: Ints) -> Ints:
        return np.array([best(logits) for logits in logits_of(actor, batch)])

    play(side_by_side(envs), act)


def play_sampled(actor: RowActor, envs: Sequence[E], rngs: Sequence[np.random.Generator]) -> None:
    """Run each environment to its end with sampled choices.

    Args:
        actor: the actor.
        envs: the environments; all are reset.
        rngs: random number generators, one for each environment.
    """
    sample = make_sampler(actor, rngs)
    play(side_by_side(envs), lambda batch, runs: sample(batch, runs)[0])


def demonstrate(
    runs: Sequence[tuple[E, Callable[[E], int]]], rng: np.random.Generator
) -> Rollout[RowBatch]:
    """Return demonstrations: the teachers' choices in the visited states, and the rewards.

    Args:
        runs: pairs of an environment and its teacher, which returns its choice; each environment is
            run once.
        rng: generator of the random choices.
    """
    seen, chosen, rewards, episode = [], [], [], []
    for number, (env, teacher) in enumerate(runs):
        env.reset()
        while not env.done:
            choice = teacher(env)
            seen.append(env.choices)
            chosen.append(choice)
            episode.append(number)
            if rng.random() < RANDOM_CHOICE_PROBABILITY:
                choice = int(rng.integers(len(env.choices.actions)))
            rewards.append(env.choose(choice))
    return Rollout(
        batch_of(seen),
        torch.tensor(chosen),
        torch.zeros((len(chosen), 1)),
        np.array(rewards),
        np.array(episode),
        None,
        np.zeros(len(runs), dtype=np.bool_),
    )
