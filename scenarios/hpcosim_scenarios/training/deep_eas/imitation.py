"""Learning what energy-aware shortest job first does, before REINFORCE goes on from there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from hpcosim_client.agents.deep_eas.network import DeepEasNetwork
from hpcosim_scenarios.training.deep_eas.environment import SequenceEnvironment
from hpcosim_scenarios.training.deep_eas.rollout import logits_of, watch_esjf

MINIBATCH = 256


def imitate(
    network: DeepEasNetwork,
    environments: Sequence[SequenceEnvironment],
    epochs: int,
    rate: float,
    rng: np.random.Generator,
) -> float:
    """Learn what ESJF does in some sequences.

    Args:
        network: who learns.
        environments: the sequences.
        epochs: how often it goes through all decisions.
        rate: of Adam.
        rng: orders minibatches.

    Returns:
        The mean loss of the last epoch, nats.
    """
    watched = watch_esjf(environments)
    seen = [picture for one in watched for picture in one.seen]
    masks = [mask for one in watched for mask in one.masks]
    right = np.array([action for one in watched for action in one.actions])
    steps, loss = torch.optim.Adam(network.parameters(), lr=rate, fused=True), 0.0
    for _ in range(epochs):
        losses = []
        order = rng.permutation(len(right))
        for first in range(0, len(order), MINIBATCH):
            some = order[first : first + MINIBATCH]
            logits = logits_of(
                network, [seen[i] for i in some], [masks[i] for i in some] if masks else []
            )
            error = nn.functional.cross_entropy(logits, torch.from_numpy(right[some]))
            steps.zero_grad(set_to_none=True)
            error.backward()  # type: ignore[no-untyped-call]
            steps.step()
            losses.append(error.item())
        loss = float(np.mean(losses))
    return loss
