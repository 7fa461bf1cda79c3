"""Choices by chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def drawn(logits: NDArray[np.floating], rng: np.random.Generator) -> int:
    """Return a choice drawn by its probability: the largest of the logits with Gumbel noise."""
    return int((logits - np.log(rng.exponential(size=len(logits)))).argmax())
