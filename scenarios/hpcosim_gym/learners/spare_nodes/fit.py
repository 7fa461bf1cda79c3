"""Supervised learning of the network: what samples said of spare nodes, and what came."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from hpcosim_gym.learners.spare_nodes.recording import Examples
from hpcosim_schedulers.agents.spare_nodes.features import COLUMNS, LEAST_SAVED
from hpcosim_schedulers.agents.spare_nodes.model import MOST_LOG, NeedNetwork, neutral
from hpcosim_schedulers.predictive.energy import HOLDS

BATCH = 2048
WEIGHT_DECAY = 1e-4
SAVED_WEIGHT = 3.0
"""Weight of the loss of waits saved, beside that of the probability of a need."""


class Epoch(NamedTuple):
    """A pass over the examples.

    Attributes:
        number: from 1; 0: the untrained network, which corrects nothing.
        training: mean loss over the pass; NaN: not measured.
        validation: loss on the examples of validation.
        network: the network after it.
    """

    number: int
    training: float
    validation: float
    network: NeedNetwork


class _Tensors(NamedTuple):
    seen: Tensor
    log_odds: Tensor
    log_saved: Tensor
    true_used: Tensor
    true_saved: Tensor


def epochs(
    training: Examples,
    validation: Examples,
    *,
    count: int,
    hidden: int,
    learning_rate: float,
    seed: int,
) -> Iterator[Epoch]:
    """Yield the epochs of a training, and before them the untrained network.

    The loss is the cross-entropy of the need in each time to hold a node, and the Poisson deviance
    of the waits saved, whose minimum is the conditional mean.

    Args:
        training: the examples to learn from.
        validation: other examples.
        count: number of epochs, >= 1.
        hidden: width of the hidden layer, >= 1.
        learning_rate: largest learning rate of AdamW (one cycle).
        seed: seed of the initial weights and of the order of examples.
    """
    rng = np.random.default_rng(seed)
    weights = [
        torch.tensor(each, dtype=torch.float32, requires_grad=True) for each in neutral(hidden, rng)
    ]
    batch = min(BATCH, len(training.seen))
    steps = len(training.seen) // batch
    optimizer = torch.optim.AdamW(weights, learning_rate, weight_decay=WEIGHT_DECAY)
    rates = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, learning_rate, total_steps=count * steps + 1
    )
    learn, check = _tensors(training), _tensors(validation)
    yield Epoch(0, float("nan"), _value(weights, check), _network(weights))
    for number in range(1, count + 1):
        order = torch.from_numpy(rng.permutation(len(training.seen)))
        total = 0.0
        for part in order[: steps * batch].reshape(steps, batch):
            value = _loss(weights, _Tensors(*(each[part] for each in learn)))
            optimizer.zero_grad()
            value.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            rates.step()
            total += float(value.detach()) / steps
        yield Epoch(number, total, _value(weights, check), _network(weights))


def _tensors(examples: Examples) -> _Tensors:
    seen, used, saved, true_used, true_saved = (torch.from_numpy(each) for each in examples)
    log_saved = torch.log(saved + LEAST_SAVED)
    return _Tensors(seen, torch.logit(used), log_saved, true_used, true_saved)


def _loss(weights: list[Tensor], examples: _Tensors) -> Tensor:
    inner, outer = weights
    hidden = torch.tanh(examples.seen @ inner[:-1] + inner[-1])
    out = hidden @ outer[:-1] + outer[-1]
    log_odds = examples.log_odds + out[:, :HOLDS]
    log_saved = examples.log_saved + out[:, HOLDS:].clamp(-MOST_LOG, MOST_LOG)
    used = functional.binary_cross_entropy_with_logits(log_odds, examples.true_used)
    deviance = log_saved.exp() - (examples.true_saved + LEAST_SAVED) * log_saved
    return used + SAVED_WEIGHT * deviance.mean()


def _value(weights: list[Tensor], examples: _Tensors) -> float:
    with torch.no_grad():
        return float(_loss(weights, examples))


def _network(weights: list[Tensor]) -> NeedNetwork:
    inner, outer = (each.detach().numpy().astype(np.float64) for each in weights)
    assert len(inner) == COLUMNS + 1
    return NeedNetwork(inner, outer)
