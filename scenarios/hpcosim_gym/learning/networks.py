"""Networks of agents: layers, action distributions, and weights as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hpcosim_client.job import Floats, Ints

Net = TypeVar("Net", bound=nn.Module)


def use_one_thread() -> None:
    """Limit torch to one thread, in the whole process.

    For networks of these sizes, synchronising several threads costs more time than it saves.
    """
    torch.set_num_threads(1)


def dense(activation: type[nn.Module], *widths: int) -> nn.Sequential:
    """Return dense layers with activations between them.

    Args:
        activation: class of the activation.
        *widths: number of inputs, then the width of each layer.
    """
    parts: list[nn.Module] = []
    for before, after in pairwise(widths):
        parts += [nn.Linear(before, after), activation()]
    return nn.Sequential(*parts[:-1])


def arrays_of(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Return tensors as arrays."""
    return {name: tensor.detach().contiguous().numpy() for name, tensor in tensors.items()}


def tensors_of(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """Return arrays as tensors."""
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def with_weights(network: Net, weights: Mapping[str, NDArray[Any]]) -> Net:
    """Return a network with given weights, in evaluation mode without gradients."""
    network.load_state_dict(tensors_of(weights))
    return network.eval().requires_grad_(requires_grad=False)


class Evaluation(NamedTuple):
    """An actor's evaluation of decisions.

    Attributes:
        log_probabilities: float32[decisions, parts], of the actions, nats.
        entropies: float32[decisions, parts], of the distributions, nats.
        counted: bool[decisions, parts]; False where only one action is allowed. Or their weights,
            float32.
    """

    log_probabilities: Tensor
    entropies: Tensor
    counted: Tensor


def mean_where(values: Tensor, counted: Tensor) -> Tensor:
    """Return the mean of the counted values, or with these weights; 0 if there are none."""
    return (values * counted).sum() / counted.sum().clamp(min=1)


# Categorical distributions: decisions with one part.


def categorical(logits: Tensor, actions: Tensor) -> Evaluation:
    """Evaluate actions of categorical distributions.

    Args:
        logits: float32[decisions, actions]; minus infinity for masked actions.
        actions: int64[decisions].
    """
    logs = torch.log_softmax(logits, dim=1)
    finite = logs.masked_fill(logs == -torch.inf, 0.0)
    entropies = -(finite.exp() * finite * (logs > -torch.inf)).sum(dim=1, keepdim=True)
    chosen = logs.gather(1, actions[:, None])
    return Evaluation(chosen, entropies, torch.ones_like(chosen, dtype=torch.bool))


def sample_categorical(logits: NDArray[np.float32], noise: Floats) -> tuple[Ints, Floats]:
    """Sample actions of categorical distributions by the Gumbel-max method.

    Args:
        logits: float32[decisions, actions]; minus infinity for masked actions.
        noise: float64[decisions, actions], samples of the standard exponential distribution.

    Returns:
        Actions, int64[decisions], and their log-probabilities, float64[decisions].
    """
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    actions: Ints = (logs - np.log(noise)).argmax(axis=1)
    return actions, np.take_along_axis(logs, actions[:, None], axis=1)[:, 0]


# Bernoulli distributions: each part is off or on. Logits are float32[decisions, parts, 2].


def switches(logits: Tensor, actions: Tensor, counted: Tensor) -> Evaluation:
    """Evaluate on/off actions, each part independently.

    Args:
        logits: float32[decisions, parts, 2], of off and on.
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
    """Sample on/off actions.

    Args:
        logits: float32[decisions, parts, 2], of off and on.
        allowed: bool[decisions, parts, 2]; if only one is allowed, it is taken.
        rng: random number generator.

    Returns:
        Actions, int64[decisions, parts], and their log-probabilities, float32[decisions, parts].
    """
    on = torch.sigmoid(_margin(logits)).numpy()
    drawn = rng.random(on.shape, dtype=np.float32) < on
    actions = np.where(allowed.all(axis=-1), drawn, allowed[..., 1]).astype(np.int64)
    signed = _margin(logits) * torch.from_numpy(2 * actions - 1)
    return actions, nn.functional.logsigmoid(signed).numpy()


def _margin(logits: Tensor) -> Tensor:
    """Return the logit of on minus the logit of off; its sigmoid is the probability of on."""
    return logits[..., 1] - logits[..., 0]
