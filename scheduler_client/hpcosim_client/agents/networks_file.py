"""Networks on disk: safetensors, with one line of JSON that says what is in the file."""

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

Said = TypeVar("Said", bound=msgspec.Struct)
Net = TypeVar("Net", bound=nn.Module)


def write_network(
    path: Path, weights: Mapping[str, Tensor], form: str, about: msgspec.Struct
) -> None:
    """Write weights by name, the same bytes for the same weights; see `read_network`.

    Raises:
        OSError: the file can't be written.
    """
    tensors = {name: tensor.contiguous() for name, tensor in weights.items()}
    # The one key of the metadata; of several the order on disk would be left to chance.
    said = json.dumps(msgspec.to_builtins(about), sort_keys=True)
    path.write_bytes(save(tensors, {form: said}))


def read_network(
    path: Path, form: str, about: type[Said], what: str
) -> tuple[Said, dict[str, Tensor]]:
    """Return what a file says, and the weights in it.

    Args:
        path: the file.
        form: kind of the file, with its version, as it was written.
        about: type of what the file says of the weights.
        what: name of the kind of file, for errors.

    Raises:
        PolicyError: it is no such file.
    """
    try:
        with safe_open(path, framework="pt") as file:
            said = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        why = "can't be read as a trained network, safetensors as training writes them"
        raise PolicyError(f"{path} {why}: {error}") from None
    if form not in said:
        found = ", ".join(sorted(said)) or "nothing"
        raise PolicyError(f"{path} is no {what}: it should say {form!r}, not {found}")
    try:
        return msgspec.json.decode(said[form], type=about), tensors
    except msgspec.DecodeError as error:
        raise PolicyError(f"{path} does not say what is in it: {error}") from None


def with_weights(path: Path, new: Callable[[], Net], weights: Mapping[str, Tensor]) -> Net:
    """Return a new network with the weights of a file, to be asked, not to learn.

    Raises:
        PolicyError: the weights are not its; it says which.
    """
    with torch.device("meta"):
        network = new()
    expected = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            want, got = expected.get(name, "none"), found.get(name, "none")
            raise PolicyError(f"{path}: weights {name} should be of shape {want}, not {got}")
    for name, tensor in weights.items():
        if tensor.dtype != torch.float32 or not tensor.isfinite().all():
            raise PolicyError(f"{path}: weights {name} should be finite numbers of float32")
    network.load_state_dict(weights, assign=True)
    return network.eval().requires_grad_(requires_grad=False)
