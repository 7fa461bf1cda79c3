"""The files of trained pairing agents: an actor and all it must agree with, safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from hpcosim_client.agents.networks_file import read_network, with_weights, write_network
from hpcosim_client.agents.pairing.networks import Actor, ForeseenActor, PapersActor
from hpcosim_client.agents.pairing.rounds import features_of
from hpcosim_client.agents.pairing.settings import Pairing
from hpcosim_client.errors import PolicyError

FORMAT = "hpcosim pairing 1"
ROWS = 1
"""The version of the rows' columns. An actor trained on others would be misled."""


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says of the actor in it.

    Attributes:
        pairing: what it decides, and what it is shown.
        rows: the version of the columns, `ROWS`.
        features: how many columns a row has.
        training: how it was trained, for whoever wants to know.
    """

    pairing: Pairing
    rows: int = ROWS
    features: int = 0
    training: Mapping[str, str | int | float | bool] = {}


def actor_of(pairing: Pairing) -> Actor:
    """Return an actor of the form that sees such rows, its weights to be set."""
    features = features_of(pairing)
    return ForeseenActor(features) if pairing.sees == "foreseen" else PapersActor(features)


def save_pairing(path: Path, actor: Actor, about: About) -> None:
    """Write an actor, the same bytes for the same actor.

    Raises:
        OSError: the file can't be written.
    """
    about = msgspec.structs.replace(about, features=features_of(about.pairing))
    write_network(path, actor.state_dict(), FORMAT, about)


def load_pairing(path: Path) -> tuple[Actor, About]:
    """Return the actor in a file, and what the file says of it.

    Raises:
        PolicyError: there is none; it says which file, and what would be right.
    """
    about, tensors = read_network(path, FORMAT, About, "pairing agent")
    if about.rows != ROWS:
        what = f"was trained on rows of version {about.rows}; these are of {ROWS}"
        raise PolicyError(f"{path} {what}: train it anew")
    if about.features != (features := features_of(about.pairing)):
        sees = about.pairing.sees
        raise PolicyError(
            f"{path} takes {about.features} features of a pair; {sees!r} has {features}"
        )
    return with_weights(path, lambda: actor_of(about.pairing), tensors), about
