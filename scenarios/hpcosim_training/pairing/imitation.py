"""Learning what a teacher chooses, before PPO goes on from there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from hpcosim_training.pairing.agent import Agent
from hpcosim_training.pairing.environment import PairingEnvironment
from hpcosim_training.pairing.rollout import Batch, batch_of
from hpcosim_training.pairing.teacher import Teacher

ASTRAY = 0.1  # how often it is led astray, to learn what the teacher does from there
MINIBATCH = 64


class Lessons(NamedTuple):
    """What teachers would choose, and what came of it.

    Attributes:
        batch: the decisions.
        right: int64[decisions], what the teacher would choose.
        worth: float32[decisions], the sum of the rewards that followed.
    """

    batch: Batch
    right: Tensor
    worth: Tensor


def lessons(
    runs: Iterable[tuple[PairingEnvironment, Teacher]], rng: np.random.Generator
) -> Lessons:
    """Return what teachers would choose wherever the runs come.

    Args:
        runs: what is run, each once, and whose choices count there.
        rng: leads astray.
    """
    rows, actions, right, worth = [], [], [], []
    for environment, teacher in runs:
        environment.reset()
        rewards = []
        while not environment.done:
            choices = environment.choices
            choice = teacher.choose(choices)
            rows.append(choices.rows)
            actions.append(choices.actions)
            right.append(choice)
            if rng.random() < ASTRAY:
                choice = int(rng.integers(len(choices.rows)))
            rewards.append(environment.step(choice))
        worth += np.cumsum(rewards[::-1])[::-1].tolist()
    return Lessons(
        batch_of(rows, actions), torch.tensor(right), torch.tensor(worth, dtype=torch.float32)
    )


def imitate(agent: Agent, lessons: Lessons, epochs: int, rng: np.random.Generator) -> float:
    """Learn what the teacher chooses, and what that is worth.

    Args:
        agent: who learns.
        lessons: from what.
        epochs: how often it goes through all decisions.
        rng: orders minibatches.

    Returns:
        The mean loss of the last epoch, nats.
    """
    batch, right, worth = lessons
    loss = 0.0
    for _ in range(epochs):
        losses = []
        for some in torch.split(torch.from_numpy(rng.permutation(len(right))), MINIBATCH):
            part = Batch(*(tensor[some] for tensor in batch))
            actor_loss = nn.functional.cross_entropy(
                agent.actor(part.rows, part.there), right[some]
            )
            agent.descend(actor_loss, nn.functional.mse_loss(agent.critic(*part), worth[some]))
            losses.append(actor_loss.item())
        loss = float(np.mean(losses))
    return loss
