"""What all agents do when they are asked."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Ints


def use_one_thread() -> None:
    """Hold torch to one thread, for all of this process.

    With several threads, these wait for each other longer than networks of the sizes here take.
    """
    import torch

    torch.set_num_threads(1)


def drawn(logits: NDArray[np.floating], rng: np.random.Generator) -> int:
    """Return a choice drawn by its probability: the largest of the logits with Gumbel noise."""
    return int(drawn_each(logits[None], rng)[0])


def drawn_each(logits: NDArray[np.floating], rng: np.random.Generator) -> Ints:
    """Return a choice for each line of float[lines, choices], drawn as `drawn`, int64[lines]."""
    choices: Ints = (logits - np.log(rng.exponential(size=logits.shape))).argmax(axis=1)
    return choices
