"""A live cluster at an instant with all that a forecast needs, as a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from hpcosim_protocol import Platform
from hpcosim_protocol.files import read_regular
from hpcosim_slurm.files.output import write_files
from hpcosim_slurm.starts.errors import ForecastError
from hpcosim_slurm.starts.run_times import EndedJob
from hpcosim_slurm.state import ClusterState

# JSON files that a user names.

Content = TypeVar("Content")


def read_json(path: Path, most_bytes: int, kind: type[Content], wanted: str) -> Content:
    """Return the content of a JSON file.

    Args:
        path: the file.
        most_bytes: maximum size, bytes.
        kind: type of the content.
        wanted: what is expected, for errors.

    Raises:
        OSError: the file cannot be read, is not a regular file, or is too large.
        ForecastError: it has other content.
    """
    try:
        return msgspec.json.decode(read_regular(path, most_bytes), type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ForecastError(f"{path}: {error}; expected {wanted}") from None


MAX_BYTES = 1 << 29  # of a recorded observation: about 500,000 jobs


class Observation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A live cluster at an instant.

    Attributes:
        format: version of the format.
        state: jobs, nodes and partitions; times are Unix times, s.
        platform: the model of its nodes and partitions.
        settings: the settings of the scheduler `slurm`, as in a scenario.
        booted_s: Unix time of the controller's start, s; None: unknown.
        history: jobs that have ended.
        usage_s: raw usage by account and user, as `sshare` prints it, s.
        slurm_s: start of waiting jobs as `squeue --start` prints it, by number, Unix time, s.
    """

    format: Literal["hpcosim forecast 1"] = "hpcosim forecast 1"
    state: ClusterState
    platform: Platform
    settings: dict[str, Any]
    booted_s: float | None = None
    history: tuple[EndedJob, ...] = ()
    usage_s: Mapping[str, Mapping[str, float]] = {}
    slurm_s: Mapping[int, float] = {}


def write_observation(observation: Observation, path: Path) -> None:
    """Write an observation as JSON, to a new file.

    Raises:
        ForecastError: the file exists.
        InputError: it cannot be written.
    """
    if path.exists():
        raise ForecastError(f"{path}: the file exists; name a new one")
    write_files({path: msgspec.json.encode(observation) + b"\n"})


def read_observation(path: Path) -> Observation:
    """Return the observation in a file.

    Raises:
        OSError: the file cannot be read.
        ForecastError: it is no observation.
    """
    return read_json(path, MAX_BYTES, Observation, "a file of `hpcosim forecast --record`")
