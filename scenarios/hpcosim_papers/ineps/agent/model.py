"""Files of trained pairing agents: an actor and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from hpcosim_client.errors import PolicyError
from hpcosim_papers.ineps.agent.network import actor_shapes
from hpcosim_papers.ineps.agent.rounds import features_of
from hpcosim_papers.ineps.agent.settings import Pairing
from hpcosim_schedulers.agents.layers import Weights
from hpcosim_schedulers.agents.networks_file import check_weights, read_network, write_network

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
