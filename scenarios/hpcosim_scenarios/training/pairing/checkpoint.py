"""A training half done, on disk, to go on from: safetensors, as everything learned is."""

from __future__ import annotations

from pathlib import Path

import msgspec
from torch import Tensor

from hpcosim_client.agents.networks_file import read_network, write_network
from hpcosim_client.errors import PolicyError
from hpcosim_scenarios.training.pairing.agent import Agent

CHECKPOINT = "checkpoint.safetensors"
FORMAT = "hpcosim pairing checkpoint 1"


class Progress(msgspec.Struct, kw_only=True):
    """How far a training has got.

    Attributes:
        training: what it is, as text; one of another can't go on from here.
        simulations: how many are over.
        best: the least objective in validation so far, and after which simulation.
        since_best: how often validation was no better since.
    """

    training: str
    simulations: int = 0
    best: float | None = None
    best_at: int = 0
    since_best: int = 0


def write_checkpoint(out: Path, agent: Agent, best: dict[str, Tensor], progress: Progress) -> None:
    """Write it, whole or not at all.

    Args:
        out: the folder.
        agent: as it is now.
        best: the weights of the best actor so far; empty: there is none.
        progress: how far it has got.

    Raises:
        OSError: it can't be written.
    """
    state = agent.state() | {f"best.{name}": tensor for name, tensor in best.items()}
    scratch = out / f"{CHECKPOINT}.part"
    write_network(scratch, state, FORMAT, progress)
    scratch.replace(out / CHECKPOINT)


def read_checkpoint(out: Path, agent: Agent, training: str) -> tuple[Progress, dict[str, Tensor]]:
    """Set an agent to where it was, and return how far that is, and the best actor's weights.

    Raises:
        PolicyError: there is no checkpoint, or it is of another training.
    """
    path = out / CHECKPOINT
    progress, state = read_network(path, FORMAT, Progress, "checkpoint of a training")
    if progress.training != training:
        raise PolicyError(f"{path} is of another training: {progress.training}, not {training}")
    try:
        agent.restore(state)
    except (KeyError, RuntimeError) as error:
        raise PolicyError(f"{path} does not fit the agent: {error}") from None
    best = {
        name.removeprefix("best."): tensor
        for name, tensor in state.items()
        if name.startswith("best.")
    }
    return progress, best
