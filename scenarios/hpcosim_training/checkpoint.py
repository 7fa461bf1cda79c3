"""A training half done, on disk, to go on from: safetensors, as everything learned is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from torch import Tensor

from hpcosim_client.agents.networks_file import read_network, write_network
from hpcosim_client.errors import PolicyError
from hpcosim_training.state import under

CHECKPOINT = "checkpoint.safetensors"
FORMAT = "hpcosim training checkpoint 1"


class Progress(msgspec.Struct, kw_only=True):
    """How far a training has got.

    Attributes:
        training: what it is, as text; one of another can't go on from here.
        iterations: how many are over.
        best: the least objective in validation so far, and after which iteration.
        since_best: how often validation was no better since.
    """

    training: str
    iterations: int = 0
    best: float | None = None
    best_at: int = 0
    since_best: int = 0


def write_checkpoint(
    out: Path, state: Mapping[str, Tensor], best: Mapping[str, Tensor], progress: Progress
) -> None:
    """Write it, whole or not at all.

    Args:
        out: the folder.
        state: what learning goes on from.
        best: the weights of the best network so far; empty: there is none.
        progress: how far it has got.

    Raises:
        OSError: it can't be written.
    """
    tensors = {**state} | {f"best.{name}": tensor for name, tensor in best.items()}
    scratch = out / f"{CHECKPOINT}.part"
    write_network(scratch, tensors, FORMAT, progress)
    scratch.replace(out / CHECKPOINT)


def read_checkpoint(
    out: Path, restore: Callable[[Mapping[str, Tensor]], None], training: str
) -> tuple[Progress, dict[str, Tensor]]:
    """Set what learns to where it was; return how far that is, and the best weights so far.

    Args:
        out: the folder.
        restore: sets it, and raises KeyError or RuntimeError for a state of another.
        training: what it is, as text.

    Raises:
        PolicyError: there is no checkpoint, or it is of another training.
    """
    path = out / CHECKPOINT
    progress, state = read_network(path, FORMAT, Progress, "checkpoint of a training")
    if progress.training != training:
        raise PolicyError(f"{path} is of another training: {progress.training}, not {training}")
    try:
        restore(state)
    except (KeyError, RuntimeError) as error:
        raise PolicyError(f"{path} does not fit the agent: {error}") from None
    return progress, under(state, "best")
