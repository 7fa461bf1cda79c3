"""Sampling of actions from logits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Ints


def sampled(logits: NDArray[np.floating], rng: np.random.Generator) -> int:
    """Return an action sampled from logits, float[actions], by the Gumbel-max trick."""
    return int(sampled_each(logits[None], rng)[0])


def sampled_each(logits: NDArray[np.floating], rng: np.random.Generator) -> Ints:
    """Return a sampled action for each line of float[lines, actions], int64[lines]."""
    actions: Ints = (logits - np.log(rng.exponential(size=logits.shape))).argmax(axis=1)
    return actions
