"""A step down a loss."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def descend(
    network: nn.Module, steps: torch.optim.Optimizer, loss: Tensor, most_norm: float
) -> None:
    """Take a step down a loss, along its gradient, shortened to `most_norm` if it is longer."""
    steps.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(network.parameters(), most_norm)
    steps.step()
