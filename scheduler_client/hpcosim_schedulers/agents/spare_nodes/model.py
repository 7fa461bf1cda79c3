"""The network that corrects forecasts, and its file. Writing a file needs the extra `rl`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcosim_client.arrays import Floats
from hpcosim_client.arrays_file import ArraysFile, load_arrays, save_arrays
from hpcosim_client.errors import PolicyError
from hpcosim_schedulers.agents.spare_nodes.features import COLUMNS, LEAST_SAVED, NodeForecast
from hpcosim_schedulers.predictive.energy import HOLDS

FORMAT = "hpcosim spare nodes 1"
OUTPUTS = 2 * HOLDS
MOST_LOG_ODDS = 30.0
MOST_LOG = 4.0
"""Bounds of the outputs: of the logarithms of the factors on odds and on waits saved."""

_FILE = ArraysFile(
    "a network",
    FORMAT,
    "hpcosim train spare-nodes",
    {"inner": (COLUMNS + 1, None), "outer": (None, OUTPUTS)},
)

Facts = Mapping[str, str | int | float]


class NeedNetwork(NamedTuple):
    """A network with one hidden layer (tanh), the same for every spare node.

    Attributes:
        inner: float64[COLUMNS + 1, hidden], weights of the hidden layer; the last row is its bias.
        outer: float64[hidden + 1, OUTPUTS], weights of the outputs; the last row is their bias.

    A node has an output for each time to hold it that is added to the log-odds of a need in that
    time, and then one for each that is added to the logarithm of the waits that it saves.
    """

    inner: Floats
    outer: Floats


def neutral(hidden: int, generator: np.random.Generator) -> NeedNetwork:
    """Return an untrained network, all outputs of which are 0: it corrects nothing."""
    inner = generator.normal(0.0, COLUMNS**-0.5, (COLUMNS + 1, hidden))
    inner[-1] = 0.0
    return NeedNetwork(inner, np.zeros((hidden + 1, OUTPUTS)))


def changes(network: NeedNetwork, seen: Floats, forecast: NodeForecast) -> NodeForecast:
    """Return what the network adds to a forecast; 0 where its outputs are 0.

    Args:
        network: the network.
        seen: float64[k, COLUMNS], as of `features.features`.
        forecast: the sampled forecast.
    """
    hidden = np.tanh(seen @ network.inner[:-1] + network.inner[-1])
    out = (hidden @ network.outer[:-1] + network.outer[-1]).T
    odds = forecast.used / (1.0 - forecast.used)
    more = odds * np.exp(np.clip(out[:HOLDS], -MOST_LOG_ODDS, MOST_LOG_ODDS))
    factor = np.exp(np.clip(out[HOLDS:], -MOST_LOG, MOST_LOG))
    used = more / (1.0 + more) - odds / (1.0 + odds)
    return NodeForecast(used, (forecast.saved + LEAST_SAVED) * (factor - 1.0))


def save_network(path: Path, network: NeedNetwork, facts: Facts) -> None:
    """Write a network as a safetensors file, the same bytes for the same arguments.

    Args:
        path: the file.
        network: the network.
        facts: settings and results of its training, for information.

    Raises:
        OSError: the file cannot be written.
    """
    save_arrays(_FILE, path, network._asdict(), json.dumps(dict(facts), sort_keys=True))


def load_network(path: Path) -> NeedNetwork:
    """Return the network in a file.

    Raises:
        PolicyError: the file has no network, or one of other sizes.
    """
    arrays, _ = load_arrays(_FILE, path)
    network = NeedNetwork(**arrays)
    hidden = network.inner.shape[1]
    if len(network.outer) != hidden + 1:
        raise PolicyError(
            f"{path}: expected a row of outer weights for each of {hidden} hidden units, and one "
            f"of biases; got {len(network.outer)} rows"
        )
    return network
