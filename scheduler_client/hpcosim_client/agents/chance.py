"""Choices by chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Ints


def drawn(logits: NDArray[np.floating], rng: np.random.Generator) -> int:
    """Return a choice drawn by its probability: the largest of the logits with Gumbel noise."""
    return int(drawn_each(logits[None], rng)[0])


def drawn_each(logits: NDArray[np.floating], rng: np.random.Generator) -> Ints:
    """Return a choice for each line of float[lines, choices], drawn likewise, int64[lines]."""
    choices: Ints = (logits - np.log(rng.exponential(size=logits.shape))).argmax(axis=1)
    return choices
