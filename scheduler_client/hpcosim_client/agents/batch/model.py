"""Files of trained batch agents: an actor and its settings. It needs torch, the extra `rl`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from hpcosim_client.agents.batch.scene import CLUSTER_COLUMNS, FEATURES, JOB_COLUMNS
from hpcosim_client.agents.networks_file import read_network, with_weights, write_network
from hpcosim_client.agents.row_networks import PooledActor
from hpcosim_client.errors import PolicyError
from hpcosim_client.heuristics.chosen_head import WINDOW_JOBS

FORMAT = "hpcosim batch 1"


class BatchMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of an actor's file.

    Attributes:
        window_jobs: number of visible jobs, 1 to 1000.
        width: width of the hidden layers, 1 to 1024.
        columns: columns of a row; a file with other columns is rejected.
        training: settings and results of the training, for information.
    """

    window_jobs: Annotated[int, Meta(ge=1, le=1000)] = WINDOW_JOBS
    width: Annotated[int, Meta(ge=1, le=1024)] = 32
    columns: tuple[str, ...] = (*JOB_COLUMNS, *CLUSTER_COLUMNS)
    training: Mapping[str, str | int | float | bool] = {}


def actor_of(about: BatchMetadata) -> PooledActor:
    """Return the actor of a file, with uninitialised weights."""
    return PooledActor(FEATURES, about.width)


def save_batch(path: Path, actor: PooledActor, about: BatchMetadata) -> None:
    """Write an actor, the same bytes for the same actor.

    Raises:
        OSError: the file cannot be written.
    """
    write_network(path, actor.state_dict(), FORMAT, about)


def load_batch(path: Path) -> tuple[PooledActor, BatchMetadata]:
    """Read an actor and its metadata.

    Raises:
        PolicyError: the file is invalid, or the actor does not fit the present columns.
    """
    about, tensors = read_network(path, FORMAT, BatchMetadata, "batch agent")
    if about.columns != BatchMetadata().columns:
        what = f"expected the columns {', '.join(BatchMetadata().columns)}"
        raise PolicyError(f"{path}: {what}, got {', '.join(about.columns)}; train it again")
    return with_weights(path, lambda: actor_of(about), tensors), about
