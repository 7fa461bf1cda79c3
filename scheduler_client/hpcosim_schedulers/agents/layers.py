"""Layers of trained networks, evaluated with NumPy in float32. Training has them in PyTorch.

Weights have the names and the shapes that PyTorch gives them: `NAME.weight`, [outputs, inputs], and
`NAME.bias`, [outputs]. Layers of a sequence have numbers: `NAME.0`, `NAME.2`; activations, which
have no weights, take the numbers between them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]
Weights = Mapping[str, Rows]
Shapes = dict[str, tuple[int, ...]]
Activation = Callable[[Rows], Rows]

SELU_SCALE, SELU_ALPHA = np.float32(1.0507009873554805), np.float32(1.6732632423543772)
"""Constants of Klambauer et al. 2017."""

LEAST_VARIANCE = np.float32(1e-5)
"""Added to a variance before its root is taken."""


def linear_shapes(name: str, inputs: int, outputs: int, *, bias: bool = True) -> Shapes:
    """Return the shapes of the weights of a linear layer."""
    shapes: Shapes = {f"{name}.weight": (outputs, inputs)}
    return shapes | {f"{name}.bias": (outputs,)} if bias else shapes


def dense_shapes(name: str, *widths: int) -> Shapes:
    """Return the shapes of the weights of linear layers with activations between them.

    Args:
        name: name of the sequence.
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
