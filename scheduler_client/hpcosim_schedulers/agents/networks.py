"""Layers of trained networks, evaluated with NumPy in float32, and their files.

Training has the layers in PyTorch. Weights have the names and the shapes that PyTorch gives them:
`NAME.weight`, [outputs, inputs], and `NAME.bias`, [outputs]. Layers of a sequence have numbers:
`NAME.0`, `NAME.2`; activations, which have no weights, take the numbers between them. A file is
safetensors with metadata in JSON.
A file that cannot be read or has other weights is a `PolicyError`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from hpcosim_client.errors import PolicyError
from hpcosim_client.safetensors_file import Arrays, read_safetensors

Rows = NDArray[np.float32]
Weights = Mapping[str, Rows]
Shapes = dict[str, tuple[int, ...]]
Activation = Callable[[Rows], Rows]

SELU_SCALE, SELU_ALPHA = np.float32(1.0507009873554805), np.float32(1.6732632423543772)
"""Constants of Klambauer et al. 2017."""

LEAST_VARIANCE = np.float32(1e-5)
"""Added to a variance before its root is taken."""


Metadata = TypeVar("Metadata", bound=msgspec.Struct)
MOST_BYTES = 2**30
CHECKPOINT = "checkpoint.safetensors"
CHECKPOINT_FORM = "hpcosim training checkpoint 2"
"""Kind and version of the checkpoint of a training."""


def linear_shapes(name: str, inputs: int, outputs: int, *, bias: bool = True) -> Shapes:
    """Return the shapes of the weights of a linear layer."""
    shapes: Shapes = {f"{name}.weight": (outputs, inputs)}
    return shapes | {f"{name}.bias": (outputs,)} if bias else shapes


def dense_shapes(name: str, *widths: int) -> Shapes:
    """Return the shapes of the weights of linear layers with activations between them.

    Args:
        *widths: number of inputs, then the width of each layer.
    """
    shapes: Shapes = {}
    for layer, (inputs, outputs) in enumerate(pairwise(widths)):
        shapes |= linear_shapes(f"{name}.{2 * layer}", inputs, outputs)
    return shapes


def linear(weights: Weights, name: str, inputs: Rows) -> Rows:
    """Return the outputs of a linear layer, float32[..., outputs]."""
    outputs: Rows = inputs @ weights[f"{name}.weight"].T
    bias = weights.get(f"{name}.bias")
    return outputs if bias is None else outputs + bias


def dense(weights: Weights, name: str, inputs: Rows, activation: Activation) -> Rows:
    """Return the outputs of linear layers with activations between them."""
    outputs, layer = linear(weights, f"{name}.0", inputs), 2
    while f"{name}.{layer}.weight" in weights:
        outputs, layer = linear(weights, f"{name}.{layer}", activation(outputs)), layer + 2
    return outputs


def relu(values: Rows) -> Rows:
    """Return max(x, 0)."""
    return np.maximum(values, np.float32(0.0))


def silu(values: Rows) -> Rows:
    """Return x / (1 + exp(-x)), computed without overflow."""
    half = np.float32(0.5)
    result: Rows = values * (half + half * np.tanh(half * values))
    return result


def selu(values: Rows) -> Rows:
    """Return SELU_SCALE x for x > 0, else SELU_SCALE SELU_ALPHA (exp(x) - 1)."""
    below: Rows = SELU_ALPHA * np.expm1(np.minimum(values, np.float32(0.0)))
    result: Rows = SELU_SCALE * np.where(values > 0, values, below)
    return result


def softmax(values: Rows) -> Rows:
    """Return exp(x), divided by its sum over the last axis."""
    powers: Rows = np.exp(values - values.max(axis=-1, keepdims=True))
    shares: Rows = powers / powers.sum(axis=-1, keepdims=True)
    return shares


def normalised(weights: Weights, name: str, values: Rows) -> Rows:
    """Return values with mean 0 and variance 1 over the last axis, scaled and shifted."""
    less = values - values.mean(axis=-1, keepdims=True)
    variance = (less * less).mean(axis=-1, keepdims=True)
    scale, shift = weights[f"{name}.weight"], weights[f"{name}.bias"]
    scaled: Rows = less / np.sqrt(variance + LEAST_VARIANCE) * scale + shift
    return scaled


def write_network(
    path: Path, weights: Mapping[str, NDArray[Any]], form: str, metadata: msgspec.Struct
) -> None:
    """Write weights by name, the same bytes for the same weights. It needs the extra `rl`."""
    from safetensors.numpy import save

    # A single key, because the library writes several in random order.
    text = json.dumps(msgspec.to_builtins(metadata), sort_keys=True)
    path.write_bytes(save(dict(weights), {form: text}))


def read_network(
    path: Path, form: str, metadata: type[Metadata], what: str
) -> tuple[Metadata, Arrays]:
    """Return the metadata and the weights of a file."""
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
    """Return the weights of a file if they are those of a network."""
    found = {name: array.shape for name, array in weights.items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            want, got = expected.get(name, "none"), found.get(name, "none")
            raise PolicyError(f"{path}: weights {name}: expected shape {want}, got {got}")
    for name, array in weights.items():
        if array.dtype != np.float32 or not np.isfinite(array).all():
            raise PolicyError(f"{path}: weights {name}: expected finite numbers of type float32")
    return weights
