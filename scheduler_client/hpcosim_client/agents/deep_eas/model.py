"""The files of trained Deep-EAS agents, safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from hpcosim_client.agents.deep_eas.network import Network, network_of
from hpcosim_client.agents.deep_eas.settings import DeepEas
from hpcosim_client.agents.networks_file import read_network, with_weights, write_network

FORMAT = "hpcosim deep-eas 1"


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says of the network in it.

    Attributes:
        settings: what it decides, and what it is shown.
        training: how it was trained, for whoever wants to know.
    """

    settings: DeepEas
    training: Mapping[str, str | int | float | bool] = {}


def save_deep_eas(path: Path, network: Network, about: About) -> None:
    """Write a network, the same bytes for the same network.

    Raises:
        OSError: the file can't be written.
    """
    write_network(path, network.state_dict(), FORMAT, about)


def load_deep_eas(path: Path) -> tuple[Network, About]:
    """Return the network in a file, and what the file says of it.

    Raises:
        PolicyError: there is none; it says which file, and what would be right.
    """
    about, tensors = read_network(path, FORMAT, About, "Deep-EAS agent")
    return with_weights(path, lambda: network_of(about.settings), tensors), about
