"""Files of trained pairing agents: an actor and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np

from hpcosim_client.errors import PolicyError
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
from hpcosim_schedulers.agents.networks_file import check_weights, read_network, write_network

# The actors of a pairing agent. They score rows, so they take any number of jobs and nodes.

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


FORMAT = "hpcosim pairing 1"
ROWS = 1
"""Version of the columns of rows. Files record it; a file of another version is rejected."""


class PairingMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of an actor's file.

    Attributes:
        pairing: settings of actions and observations.
        rows: version of the columns, `ROWS`.
        features: number of columns of a row.
        training: settings and results of the training, for information.
    """

    pairing: Pairing
    rows: int = ROWS
    features: int = 0
    training: Mapping[str, str | int | float | bool] = {}


def save_pairing(path: Path, weights: Weights, about: PairingMetadata) -> None:
    """Write an actor, the same bytes for the same weights. It needs the extra `rl`.

    Raises:
        OSError: the file cannot be written.
    """
    about = msgspec.structs.replace(about, features=features_of(about.pairing))
    write_network(path, weights, FORMAT, about)


def load_pairing(path: Path) -> tuple[Weights, PairingMetadata]:
    """Return the weights of an actor and its metadata.

    Raises:
        PolicyError: the file is invalid, or the actor does not fit the present features.
    """
    about, weights = read_network(path, FORMAT, PairingMetadata, "pairing agent")
    if about.rows != ROWS:
        what = f"expected features of version {ROWS}, got {about.rows}"
        raise PolicyError(f"{path}: {what}; train it again")
    if about.features != (features := features_of(about.pairing)):
        sees = about.pairing.sees
        raise PolicyError(
            f"{path}: expected {features} features of a pair for {sees!r}, got {about.features}"
        )
    return check_weights(path, weights, actor_shapes(about.pairing)), about
