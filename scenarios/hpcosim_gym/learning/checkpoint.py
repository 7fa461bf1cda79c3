"""Training checkpoints in the safetensors format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import torch
from torch import Tensor

from hpcosim_client.errors import PolicyError
from hpcosim_gym.errors import CheckpointError
from hpcosim_gym.learning.networks import arrays_of, tensors_of
from hpcosim_schedulers.agents.networks import (
    CHECKPOINT,
    CHECKPOINT_FORM,
    read_network,
    write_network,
)

BEST = "best"
INPUTS = "inputs"
"""Name of the checksum of platform and workloads in the description of a training."""

OPTIONS = MappingProxyType(
    {
        "synthetic_days": "--days",
        "settings_sees": "--form",
        "pairing_placements_per_event": "--placements",
        "windows_jobs": "--jobs",
        "windows_kinds": "--kinds",
        **{
            f"pairing_{name}": f"--{name.replace('_', '-')}"
            for name in ("sees", "objective", "wait", "wait_s", "most_wait_s")
        },
        **{
            name: f"--{name.replace('_', '-')}"
            for name in (
                *("iterations", "seed", "learning_rate", "validate_every", "patience", "episodes"),
                *("validation_windows", "pool", "sequences", "trajectories", "curriculum"),
                *("interval_s", "calendar", "algorithm"),
            )
        },
    }
)
"""Options of `hpcosim train` by the setting's name in the description of a training."""

DEFAULTS_DEPEND_ON = ("pairing_sees", "settings_sees", "algorithm")


class TrainingProgress(msgspec.Struct, kw_only=True):
    """The progress of a training.

    Attributes:
        training: text description of the training; a resumed training must have the same.
        iterations: number of completed iterations.
        best: best (lowest) validation score so far; None before the first validation.
        best_at: iteration after which it was reached.
        best_weights: weights of that actor; empty before the first validation.
        since_best: number of validations since then.
    """

    training: str
    iterations: int = 0
    best: float | None = None
    best_at: int = 0
    best_weights: dict[str, Any] = {}
    since_best: int = 0


def write_checkpoint(out: Path, state: Mapping[str, Tensor], progress: TrainingProgress) -> None:
    """Write a checkpoint into a folder atomically.

    Args:
        out: the folder.
        state: the state that training resumes from, by dotted names.

    Raises:
        OSError: the file cannot be written.
    """
    best = {f"{BEST}.{name}": tensor for name, tensor in progress.best_weights.items()}
    scratch = out / f"{CHECKPOINT}.part"
    about = msgspec.structs.replace(progress, best_weights={})
    write_network(scratch, arrays_of({**state, **best}), CHECKPOINT_FORM, about)
    scratch.replace(out / CHECKPOINT)


def read_checkpoint(
    out: Path, restore: Callable[[Mapping[str, Tensor]], None], training: str
) -> TrainingProgress:
    """Restore the state of a checkpoint and return its progress.

    Args:
        out: the folder of the checkpoint.
        restore: restores the state; raises KeyError, RuntimeError or ValueError for the state of a
            different agent.
        training: text description of the training.

    Raises:
        CheckpointError: the checkpoint is missing or belongs to a different training.
    """
    path = out / CHECKPOINT
    if not path.exists():
        raise CheckpointError(
            f"{path}: there is no checkpoint to resume from; start the training without resume"
        )
    try:
        progress, arrays = read_network(
            path, CHECKPOINT_FORM, TrainingProgress, "checkpoint of a training"
        )
    except PolicyError as error:
        raise CheckpointError(str(error)) from None
    if differences := _differences(progress.training, training):
        raise CheckpointError(
            f"{path}: the checkpoint belongs to a different training: "
            f"{differences}; resume with the settings of the "
            "checkpoint, or choose another folder"
        )
    tensors = tensors_of(arrays)
    try:
        restore(tensors)
    except (KeyError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"{path}: the checkpoint does not fit the agent: {error}") from None
    progress.best_weights = with_prefix(tensors, BEST)
    return progress


def _differences(stored: str, expected: str) -> str:
    """Return how two trainings differ, such as `the checkpoint has --seed 1, the command 2`."""
    got, want = _with_form(json.loads(stored)), _with_form(json.loads(expected))
    names = [name for name in {**want, **got} if got.get(name) != want.get(name)]
    # Settings depend on options, some options on the observation, and the inputs on the scenario.
    for main in (DEFAULTS_DEPEND_ON, OPTIONS, ("scenario",)):
        names = [name for name in names if name in main] or names
    if INPUTS in names:
        return "the platform, the jobs or the validation jobs have changed"
    pairs = [(OPTIONS.get(name, name), got.get(name), want.get(name)) for name in names]
    texts = [f"{name} {had}, the command {has}" for name, had, has in pairs]
    return "the checkpoint has " + "; ".join(texts) if texts else ""


def _with_form(values: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a training with the form of Deep-EAS as its observation."""
    if "settings_sees" not in values:
        return values
    form = values["settings_sees"] if values.get("settings_masked") else "paper"
    return {**values, "settings_sees": form, "algorithm": None}


def flatten_state(name: str, part: torch.nn.Module | torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of a network or an optimiser as tensors, with `name.` as prefix."""
    if isinstance(part, torch.nn.Module):
        return {f"{name}.{key}": value.clone() for key, value in part.state_dict().items()}
    return {
        f"{name}.{number}.{key}": torch.as_tensor(value)
        for number, values in part.state_dict()["state"].items()
        for key, value in values.items()
    }


def restore_state(
    name: str, part: torch.nn.Module | torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Restore a network or an optimiser from tensors that include those of `flatten_state`.

    Raises:
        KeyError, RuntimeError, ValueError: the tensors belong to a different network or optimiser.
    """
    own = with_prefix(tensors, name)
    if isinstance(part, torch.nn.Module):
        part.load_state_dict(own)
        return
    by_parameter: dict[int, dict[str, Tensor]] = {}
    for key, value in own.items():
        number, _, what = key.partition(".")
        by_parameter.setdefault(int(number), {})[what] = value
    part.load_state_dict(part.state_dict() | {"state": by_parameter})


def with_prefix(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """Return the tensors whose names start with `name.`, without that prefix."""
    start = f"{name}."
    return {key[len(start) :]: value for key, value in tensors.items() if key.startswith(start)}
