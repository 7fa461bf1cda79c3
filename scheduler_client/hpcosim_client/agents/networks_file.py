"""Files of networks: safetensors with metadata in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from hpcosim_client.errors import PolicyError

Metadata = TypeVar("Metadata", bound=msgspec.Struct)
Net = TypeVar("Net", bound=nn.Module)


def write_network(
    path: Path, weights: Mapping[str, Tensor], form: str, metadata: msgspec.Struct
) -> None:
    """Write weights by name, the same bytes for the same weights.

    Args:
        path: the file.
        weights: the weights by name.
        form: kind and version of the file.
        metadata: description of the network, written as JSON.

    Raises:
        OSError: the file cannot be written.
    """
    tensors = {name: tensor.contiguous() for name, tensor in weights.items()}
    # A single key, because the library writes several in random order.
    text = json.dumps(msgspec.to_builtins(metadata), sort_keys=True)
    path.write_bytes(save(tensors, {form: text}))


def read_network(
    path: Path, form: str, metadata: type[Metadata], what: str
) -> tuple[Metadata, dict[str, Tensor]]:
    """Return the metadata and the weights of a file.

    Args:
        path: the file.
        form: expected kind and version of the file.
        metadata: type of the metadata.
        what: name of the kind of file, for errors.

    Raises:
        PolicyError: the file cannot be read or is of another kind.
    """
    try:
        with safe_open(path, framework="pt") as file:
            found = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        why = "cannot be read as a trained network in safetensors format"
        raise PolicyError(f"{path}: {why}: {error}") from None
    if form not in found:
        forms = ", ".join(sorted(found)) or "none"
        raise PolicyError(f"{path}: expected a {what} with metadata {form!r}, got {forms}")
    try:
        return msgspec.json.decode(found[form], type=metadata), tensors
    except msgspec.DecodeError as error:
        raise PolicyError(f"{path}: invalid metadata {form!r}: {error}") from None


def with_weights(path: Path, new: Callable[[], Net], weights: Mapping[str, Tensor]) -> Net:
    """Return a new network with given weights, in evaluation mode without gradients.

    Args:
        path: file of the weights, for errors.
        new: makes the network.
        weights: the weights by name.

    Raises:
        PolicyError: a weight is missing, unknown, or of another shape or type.
    """
    with torch.device("meta"):
        network = new()
    expected = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            want, got = expected.get(name, "none"), found.get(name, "none")
            raise PolicyError(f"{path}: weights {name}: expected shape {want}, got {got}")
    for name, tensor in weights.items():
        if tensor.dtype != torch.float32 or not tensor.isfinite().all():
            raise PolicyError(f"{path}: weights {name}: expected finite numbers of type float32")
    network.load_state_dict(weights, assign=True)
    return network.eval().requires_grad_(requires_grad=False)
