"""Weights of PyTorch modules as arrays, which files have, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Net = TypeVar("Net", bound=nn.Module)


def arrays_of(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Return tensors as arrays."""
    return {name: tensor.detach().contiguous().numpy() for name, tensor in tensors.items()}


def tensors_of(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """Return arrays as tensors."""
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def with_weights(network: Net, weights: Mapping[str, NDArray[Any]]) -> Net:
    """Return a network with given weights, in evaluation mode without gradients."""
    network.load_state_dict(tensors_of(weights))
    return network.eval().requires_grad_(requires_grad=False)
