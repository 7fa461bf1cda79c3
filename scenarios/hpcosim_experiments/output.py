"""The output folder of an experiment."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
from msgspec import Struct

from hpcosim_experiments.errors import ExperimentError
from hpcosim_experiments.runs.plan import Plan
from hpcosim_experiments.store import write_whole
from hpcosim_server.record.folder import prepare
from hpcosim_server.record.versions import hpcosim_version

MARKER = "experiment.json"


class Marker(Struct, frozen=True, kw_only=True):
    """The content of `experiment.json`: the experiment whose results a folder has.

    Attributes:
        name: name of the experiment.
        file: file name of the experiment file.
        sha256: SHA-256 of the experiment file.
        hpcosim: version of hpcosim.
    """

    name: str
    file: str
    sha256: str
    hpcosim: str


def marker_of(plan: Plan) -> Marker:
    """Return the description of an experiment file."""
    checksum = hashlib.sha256(plan.path.read_bytes()).hexdigest()
    name, file = plan.experiment.name, plan.path.name
    return Marker(name=name, file=file, sha256=checksum, hpcosim=hpcosim_version())


def check_output(folder: Path, marker: Marker, *, force: bool = False) -> Marker | None:
    """Check that a folder can take the results of an experiment; nothing is written.

    Args:
        folder: the output folder. It and its parents may be missing.
        marker: the experiment.
        force: accept a folder with other files or with another experiment.

    Returns:
        The marker of an earlier start in the folder; None: there was none.

    Raises:
        ResultsFolderError: the folder has other files, or it cannot be written to.
        ExperimentError: the folder has the results of another experiment.
    """
    earlier = _marker_in(folder)
    prepare(folder, force=force or earlier is not None)
    if earlier is not None and earlier.name != marker.name and not force:
        raise ExperimentError(
            f"{folder}: the folder has the results of the experiment {earlier.name}; choose "
            "another folder with --out, or replace its tables with --force"
        )
    return earlier


def mark_output(folder: Path, marker: Marker) -> None:
    """Mark a folder as the output folder of an experiment.

    Raises:
        StoreError: the disk is full, or the folder is not writable.
    """
    write_whole(folder / MARKER, msgspec.json.format(msgspec.json.encode(marker)) + b"\n")


def _marker_in(folder: Path) -> Marker | None:
    try:
        return msgspec.json.decode((folder / MARKER).read_bytes(), type=Marker)
    except (OSError, ValueError, msgspec.DecodeError):
        return None
