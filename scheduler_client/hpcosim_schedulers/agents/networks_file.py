"""Files of networks: safetensors with metadata in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from hpcosim_client.errors import PolicyError
from hpcosim_client.safetensors_file import Arrays, read_safetensors
from hpcosim_schedulers.agents.layers import Shapes, Weights

Metadata = TypeVar("Metadata", bound=msgspec.Struct)
MOST_BYTES = 2**30
CHECKPOINT = "checkpoint.safetensors"
CHECKPOINT_FORM = "hpcosim training checkpoint 2"
"""Kind and version of the checkpoint of a training."""


def write_network(
    path: Path, weights: Mapping[str, NDArray[Any]], form: str, metadata: msgspec.Struct
) -> None:
    """Write weights by name, the same bytes for the same weights. It needs the extra `rl`.

    Args:
        path: the file.
        weights: the weights by name.
        form: kind and version of the file.
        metadata: description of the network, written as JSON.

    Raises:
        OSError: the file cannot be written.
    """
    from safetensors.numpy import save

    # A single key, because the library writes several in random order.
    text = json.dumps(msgspec.to_builtins(metadata), sort_keys=True)
    path.write_bytes(save(dict(weights), {form: text}))


def read_network(
    path: Path, form: str, metadata: type[Metadata], what: str
) -> tuple[Metadata, Arrays]:
    """Return the metadata and the weights of a file.

    Args:
        path: the file.
        form: expected kind and version of the file.
        metadata: type of the metadata.
        what: name of the kind of file, for errors.

    Raises:
        PolicyError: the file is missing, cannot be read or is of another kind.
    """
    if not path.is_file():
        raise PolicyError(_missing(path))
    try:
        if path.stat().st_size > MOST_BYTES:
            raise PolicyError(f"{path}: expected a {what} of at most {MOST_BYTES} bytes")
        found, weights = read_safetensors(path)
    except (OSError, ValueError) as error:
        raise PolicyError(
            f"{path}: cannot be read as a {what} in safetensors format: {error}"
        ) from None
    if CHECKPOINT_FORM in found and form != CHECKPOINT_FORM:
        raise PolicyError(
            f"{path}: the file is the checkpoint of a training; expected a {what}{_nearest(path)}"
        )
    if form not in found:
        forms = ", ".join(sorted(found)) or "none"
        raise PolicyError(f"{path}: expected a {what} with metadata {form!r}, got {forms}")
    try:
        return msgspec.json.decode(found[form], type=metadata), weights
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise PolicyError(f"{path}: invalid metadata {form!r}: {error}") from None


def _missing(path: Path) -> str:
    """Return the error message for a path that is not a file."""
    if path.is_dir():
        return f"{path} is a folder; expected a file{_nearest(path / CHECKPOINT)}"
    if (path.parent / CHECKPOINT).exists():
        return (
            f"{path}: no such file; its folder holds the checkpoint of an unfinished training, "
            "which `hpcosim train ... --resume` continues"
        )
    return f"{path}: no such file"


def _nearest(checkpoint: Path) -> str:
    """Return a suggestion of the network in the folder of a checkpoint; empty if there is none."""
    networks = sorted(checkpoint.parent.glob("*.safetensors"))
    found = [path for path in networks if not path.name.startswith(("checkpoint", "iteration-"))]
    return f"; did you mean {found[0]}?" if found else ""


def check_weights(path: Path, weights: Arrays, expected: Shapes) -> Weights:
    """Return the weights of a file if they are those of a network.

    Args:
        path: file of the weights, for errors.
        weights: the weights by name.
        expected: shape of each of them.

    Raises:
        PolicyError: a weight is missing, unknown, or of another shape or type.
    """
    found = {name: array.shape for name, array in weights.items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            want, got = expected.get(name, "none"), found.get(name, "none")
            raise PolicyError(f"{path}: weights {name}: expected shape {want}, got {got}")
    for name, array in weights.items():
        if array.dtype != np.float32 or not np.isfinite(array).all():
            raise PolicyError(f"{path}: weights {name}: expected finite numbers of type float32")
    return weights
