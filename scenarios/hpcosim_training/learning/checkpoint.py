"""Checkpoints of trainings: safetensors, as every learned file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from hpcosim_client.agents.networks_file import read_network, write_network
from hpcosim_client.errors import PolicyError
from hpcosim_training.errors import CheckpointError

CHECKPOINT = "checkpoint.safetensors"
FORMAT = "hpcosim training checkpoint 2"
BEST = "best"


class Progress(msgspec.Struct, kw_only=True):
    """The progress of a training.

    Attributes:
        training: the training as text; only the same training can resume from here.
        iterations: how many are over.
        best: the best validation score so far, the lowest; None: there is none.
        best_at: the iteration after which it was reached.
        best_weights: the weights of that actor; empty: there is none.
        since_best: validations since then.
    """

    training: str
    iterations: int = 0
    best: float | None = None
    best_at: int = 0
    best_weights: dict[str, Any] = {}
    since_best: int = 0


def write_checkpoint(out: Path, state: Mapping[str, Tensor], progress: Progress) -> None:
    """Write a checkpoint into a folder, whole or not at all.

    Args:
        out: the folder.
        state: the state that learning resumes from, by dotted names.
        progress: the progress.

    Raises:
        OSError: it can't be written.
    """
    best = {f"{BEST}.{name}": tensor for name, tensor in progress.best_weights.items()}
    scratch = out / f"{CHECKPOINT}.part"
    about = msgspec.structs.replace(progress, best_weights={})
    write_network(scratch, {**state, **best}, FORMAT, about)
    scratch.replace(out / CHECKPOINT)


def read_checkpoint(
    out: Path, restore: Callable[[Mapping[str, Tensor]], None], training: str
) -> Progress:
    """Restore the state of the checkpoint in a folder, and return its progress.

    Args:
        out: the folder.
        restore: restores the state; raises KeyError, RuntimeError or ValueError for that of another
            agent.
        training: the training as text.

    Raises:
        CheckpointError: there is no checkpoint, or it is of another training.
    """
    path = out / CHECKPOINT
    try:
        progress, tensors = read_network(path, FORMAT, Progress, "checkpoint of a training")
    except PolicyError as error:
        raise CheckpointError(str(error)) from None
    if progress.training != training:
        raise CheckpointError(
            f"{path} is of another training: {progress.training}, not {training}; resume with the "
            "same settings, or train into another folder"
        )
    try:
        restore(tensors)
    except (KeyError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"{path} does not fit the agent: {error}") from None
    progress.best_weights = below(tensors, BEST)
    return progress


def flat(name: str, part: torch.nn.Module | torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of a network or an optimiser as tensors, each name led by `name`."""
    if isinstance(part, torch.nn.Module):
        return {f"{name}.{key}": value.clone() for key, value in part.state_dict().items()}
    return {
        f"{name}.{number}.{key}": torch.as_tensor(value)
        for number, values in part.state_dict()["state"].items()
        for key, value in values.items()
    }


def restore_flat(
    name: str, part: torch.nn.Module | torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Restore a network or an optimiser from what `flat` returned for it, among others.

    Raises:
        KeyError, RuntimeError, ValueError: the tensors are of a different network or optimiser.
    """
    own = below(tensors, name)
    if isinstance(part, torch.nn.Module):
        part.load_state_dict(own)
        return
    by_parameter: dict[int, dict[str, Tensor]] = {}
    for key, value in own.items():
        number, _, what = key.partition(".")
        by_parameter.setdefault(int(number), {})[what] = value
    part.load_state_dict(part.state_dict() | {"state": by_parameter})


def below(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """Return the tensors whose names are led by `name`, by the rest of their names."""
    start = f"{name}."
    return {key[len(start) :]: value for key, value in tensors.items() if key.startswith(start)}
