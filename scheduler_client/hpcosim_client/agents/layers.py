"""Parts that the networks of several agents are made of."""

from __future__ import annotations

from itertools import pairwise

from torch import nn


def dense(activation: type[nn.Module], *widths: int) -> nn.Sequential:
    """Return dense layers of these widths, the inputs first, with activations between them."""
    parts: list[nn.Module] = []
    for before, after in pairwise(widths):
        parts += [nn.Linear(before, after), activation()]
    return nn.Sequential(*parts[:-1])
