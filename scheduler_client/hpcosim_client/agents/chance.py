"""Choices sampled by their probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Ints


def drawn(logits: NDArray[np.floating], rng: np.random.Generator) -> int:
    """Return a choice sampled by its probability: the largest logit after Gumbel noise."""
    return int(drawn_each(logits[None], rng)[0])


def drawn_each(logits: NDArray[np.floating], rng: np.random.Generator) -> Ints:
    """Return a sampled choice for each line of float[lines, choices], int64[lines]; see `drawn`."""
    choices: Ints = (logits - np.log(rng.exponential(size=logits.shape))).argmax(axis=1)
    return choices
