"""Probabilities of actions. A decision has one part or several, each an independent choice."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hpcosim_client.job import Floats, Ints


class Evaluation(NamedTuple):
    """What an actor says of decisions that were made.

    Attributes:
        log_probabilities: float32[decisions, parts], of the actions, nats.
        entropies: float32[decisions, parts], of the distributions, nats.
        counted: bool[decisions, parts], True where there was a choice.
    """

    log_probabilities: Tensor
    entropies: Tensor
    counted: Tensor


def mean_where(values: Tensor, counted: Tensor) -> Tensor:
    """Return the mean of the counted values; 0 where none is counted."""
    return (values * counted).sum() / counted.sum().clamp(min=1)


# One of several actions: decisions of one part.


def categorical(logits: Tensor, actions: Tensor) -> Evaluation:
    """Evaluate actions of categorical distributions.

    Args:
        logits: float32[decisions, actions], minus infinity for what is not allowed.
        actions: int64[decisions].
    """
    logs = torch.log_softmax(logits, dim=1)
    finite = logs.masked_fill(logs == -torch.inf, 0.0)
    entropies = -(finite.exp() * finite * (logs > -torch.inf)).sum(dim=1, keepdim=True)
    chosen = logs.gather(1, actions[:, None])
    return Evaluation(chosen, entropies, torch.ones_like(chosen, dtype=torch.bool))


def sample_categorical(logits: NDArray[np.float32], noise: Floats) -> tuple[Ints, Floats]:
    """Draw actions of categorical distributions: the largest of the logits with Gumbel noise.

    Args:
        logits: float32[decisions, actions], minus infinity for what is not allowed.
        noise: float64[decisions, actions], drawn from the standard exponential distribution.

    Returns:
        int64[decisions], and the log-probabilities, float64[decisions].
    """
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    actions: Ints = (logs - np.log(noise)).argmax(axis=1)
    return actions, np.take_along_axis(logs, actions[:, None], axis=1)[:, 0]


# On or off, for each of several parts. The logits are float32[decisions, parts, 2], off and on.


def switches(logits: Tensor, actions: Tensor, counted: Tensor) -> Evaluation:
    """Evaluate actions that are on or off, each part by itself.

    Args:
        logits: see above.
        actions: int64[decisions, parts], 0: off, 1: on.
        counted: bool[decisions, parts], True where both are allowed.
    """
    margin = _margin(logits)
    on = torch.sigmoid(margin)
    return Evaluation(
        nn.functional.logsigmoid(margin * (2 * actions - 1)),
        nn.functional.softplus(margin) - on * margin,
        counted,
    )


def sample_switches(
    logits: Tensor, allowed: NDArray[np.bool_], rng: np.random.Generator
) -> tuple[Ints, NDArray[np.float32]]:
    """Draw actions that are on or off.

    Args:
        logits: see above.
        allowed: bool[decisions, parts, 2]; where one is allowed, that is taken.
        rng: what draws.

    Returns:
        int64[decisions, parts], and the log-probabilities, float32[decisions, parts].
    """
    on = torch.sigmoid(_margin(logits)).numpy()
    drawn = rng.random(on.shape, dtype=np.float32) < on
    actions = np.where(allowed.all(axis=-1), drawn, allowed[..., 1]).astype(np.int64)
    signed = _margin(logits) * torch.from_numpy(2 * actions - 1)
    return actions, nn.functional.logsigmoid(signed).numpy()


def _margin(logits: Tensor) -> Tensor:
    """Return the logits of on minus those of off; the sigmoid is the probability of on."""
    return logits[..., 1] - logits[..., 0]
