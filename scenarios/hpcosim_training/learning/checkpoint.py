"""Checkpoints of trainings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from hpcosim_training.errors import CheckpointError

CHECKPOINT = "checkpoint.pt"


@dataclass(slots=True, kw_only=True)
class Progress:
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
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    since_best: int = 0


def write_checkpoint(out: Path, state: Mapping[str, Any], progress: Progress) -> None:
    """Write a checkpoint into a folder, whole or not at all.

    Args:
        out: the folder.
        state: the state that learning resumes from.
        progress: the progress.

    Raises:
        OSError: it can't be written.
    """
    scratch = out / f"{CHECKPOINT}.part"
    with scratch.open("wb") as file:
        torch.save({"state": state, "progress": asdict(progress)}, file)
    scratch.replace(out / CHECKPOINT)


def read_checkpoint(
    out: Path, restore: Callable[[Mapping[str, Any]], None], training: str
) -> Progress:
    """Restore the state of the checkpoint in a folder, and return its progress.

    Args:
        out: the folder.
        restore: restores the state; raises an error for that of another agent.
        training: the training as text.

    Raises:
        CheckpointError: there is no checkpoint, or it is of another training.
    """
    path = out / CHECKPOINT
    try:
        found = torch.load(path, weights_only=True)
        progress = Progress(**found["progress"])
    except (OSError, UnpicklingError, RuntimeError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} can't be read as a checkpoint: {error}") from None
    if progress.training != training:
        raise CheckpointError(
            f"{path} is of another training: {progress.training}, not {training}; resume with the "
            "same settings, or train into another folder"
        )
    restore(found["state"])
    return progress
