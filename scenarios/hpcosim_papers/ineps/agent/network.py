"""The actors of a pairing agent. They score rows, so they take any number of jobs and nodes."""

from __future__ import annotations

import numpy as np

from hpcosim_papers.ineps.agent.rounds import features_of
from hpcosim_papers.ineps.agent.settings import Pairing
from hpcosim_schedulers.agents.layers import (
    Rows,
    Shapes,
    Weights,
    dense,
    dense_shapes,
    linear,
    linear_shapes,
    selu,
    silu,
)

PAPER_WIDTHS = (16, 16, 8, 8, 4, 4, 1)
"""Widths of the layers of Lopez, Stafford, Bosque 2025, section 3.4.1, SELU between them."""

WIDTH = 64
"""Width of the hidden layers of the actor of `foreseen`."""

DECIMALS = 4


def actor_shapes(pairing: Pairing) -> Shapes:
    """Return the shapes of the weights of the actor for the observations of `pairing`."""
    features = features_of(pairing)
    if pairing.sees != "foreseen":
        return dense_shapes("score", features, *PAPER_WIDTHS)
    return {
        **dense_shapes("of_row", features, WIDTH, WIDTH),
        **linear_shapes("alone", WIDTH, WIDTH),
        **linear_shapes("among", 2 * WIDTH, WIDTH, bias=False),
        **linear_shapes("score", WIDTH, 1),
    }


def logits_of(pairing: Pairing, weights: Weights, rows: Rows) -> Rows:
    """Return the logit of each choice, float32[choices].

    Args:
        pairing: settings of the observations.
        weights: weights of the actor.
        rows: float32[choices, features], see `Choices`.
    """
    if pairing.sees != "foreseen":
        return dense(weights, "score", rows, selu)[:, 0]
    # Each row is scored together with mean and maximum over all rows.
    known = silu(dense(weights, "of_row", rows, silu))
    pooled = np.concatenate([known.mean(axis=0), known.max(axis=0)])
    hidden = silu(linear(weights, "alone", known) + linear(weights, "among", pooled))
    return linear(weights, "score", hidden)[:, 0]


def best(logits: Rows) -> int:
    """Return the greedy choice: the first of the largest logits, rounded to `DECIMALS`."""
    return int(logits.round(DECIMALS).argmax())
