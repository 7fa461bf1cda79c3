"""Layers that the networks of several agents use."""

from __future__ import annotations

from itertools import pairwise

from torch import nn


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
