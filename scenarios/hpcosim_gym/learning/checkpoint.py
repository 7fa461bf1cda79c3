"""Training checkpoints in the safetensors format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from numpy.typing import NDArray

from hpcosim_client.errors import PolicyError
from hpcosim_client.safetensors_file import Arrays
from hpcosim_gym.errors import CheckpointError
from hpcosim_schedulers.agents.networks import (
    CHECKPOINT,
    CHECKPOINT_FORM,
    read_network,
    write_network,
)

INPUTS = "inputs"
"""Name of the checksum of platform and workloads in the description of a training."""

PREFIXES = ("pairing_", "windows_", "settings_")
"""What the names of settings in a description have before those in a recipe."""

DEFAULTS_DEPEND_ON = ("pairing_sees", "settings_sees", "algorithm")
"""Settings that come with others; only they are told where they differ."""


class Checkpoint(msgspec.Struct, kw_only=True):
    """What each checkpoint has beside its state.

    Attributes:
        training: text description of the training; a resumed training must have the same.
    """

    training: str


Progress = TypeVar("Progress", bound=Checkpoint)


def write_checkpoint(out: Path, state: Mapping[str, NDArray[Any]], progress: Checkpoint) -> None:
    """Write a checkpoint into a folder atomically.

    Args:
        out: the folder.
        state: the state that training resumes from, by dotted names.
        progress: everything else.

    Raises:
        OSError: the file cannot be written.
    """
    scratch = out / f"{CHECKPOINT}.part"
    write_network(scratch, state, CHECKPOINT_FORM, progress)
    scratch.replace(out / CHECKPOINT)


def read_checkpoint(out: Path, kind: type[Progress], training: str) -> tuple[Progress, Arrays]:
    """Return the progress and the state of a checkpoint.

    Args:
        out: the folder of the checkpoint.
        kind: type of the progress.
        training: text description of the training to resume.

    Raises:
        CheckpointError: the checkpoint is missing or belongs to a different training.
    """
    path = out / CHECKPOINT
    if not path.exists():
        raise CheckpointError(
            f"{path}: there is no checkpoint to resume from; start the training without resume"
        )
    try:
        progress, arrays = read_network(path, CHECKPOINT_FORM, kind, "checkpoint of a training")
    except PolicyError as error:
        raise CheckpointError(str(error)) from None
    if differences := _differences(progress.training, training):
        raise CheckpointError(
            f"{path}: the checkpoint belongs to a different training: {differences}; resume with "
            "the settings of the checkpoint, or choose another folder"
        )
    return progress, arrays


def _differences(stored: str, expected: str) -> str:
    """Return how two trainings differ, such as `the checkpoint has seed 1, the recipe 2`."""
    got, want = json.loads(stored), json.loads(expected)
    names = [name for name in {**want, **got} if got.get(name) != want.get(name)]
    # The defaults of settings depend on some settings, and the inputs on the scenario.
    for main in (DEFAULTS_DEPEND_ON, ("scenario",)):
        names = [name for name in names if name in main] or names
    if names == [INPUTS]:
        return "the platform, the jobs or the validation jobs have changed"
    texts = [
        f"{_in_recipe(name)} {got.get(name)}, the recipe {want.get(name)}"
        for name in names
        if name != INPUTS
    ]
    return "the checkpoint has " + "; ".join(texts) if texts else ""


def _in_recipe(name: str) -> str:
    return next((name[len(each) :] for each in PREFIXES if name.startswith(each)), name)
