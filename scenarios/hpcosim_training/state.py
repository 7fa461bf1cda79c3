"""All that further learning depends on, as tensors by name, to be written and read."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

Part = nn.Module | torch.optim.Optimizer


def state_of(parts: Mapping[str, Part]) -> dict[str, Tensor]:
    """Return the state of networks and optimisers, each name led by that of the part."""
    state: dict[str, Tensor] = {}
    for part, one in parts.items():
        if isinstance(one, nn.Module):
            state |= {f"{part}.{name}": value.clone() for name, value in one.state_dict().items()}
            continue
        for number, values in one.state_dict()["state"].items():
            state |= {f"{part}.{number}.{name}": value for name, value in values.items()}
    return state


def restore(parts: Mapping[str, Part], state: Mapping[str, Tensor]) -> None:
    """Go back to a state.

    Raises:
        KeyError, RuntimeError: it is of other parts.
    """
    for part, one in parts.items():
        own = under(state, part)
        if isinstance(one, nn.Module):
            one.load_state_dict(own)
            continue
        of_parameter: dict[int, dict[str, Tensor]] = {}
        for name, value in own.items():
            number, _, what = name.partition(".")
            of_parameter.setdefault(int(number), {})[what] = value
        one.load_state_dict(one.state_dict() | {"state": of_parameter})


def under(state: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """Return what is of one part, by its names there."""
    start = f"{part}."
    return {name[len(start) :]: value for name, value in state.items() if name.startswith(start)}
