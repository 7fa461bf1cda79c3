"""The output folder of an experiment."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from hpcosim_experiments.errors import ExperimentError
from hpcosim_experiments.runs.plan import Plan
from hpcosim_experiments.whole_files import write_whole
from hpcosim_sim.record.folder import prepare
from hpcosim_sim.record.versions import hpcosim_version

MARKER = "experiment.json"

WRITTEN = re.compile(
    r"(results|breakdowns|jobs)\.(parquet|csv)|report\.(html|md)|tables/[^/]+\.tex"
    r"|figures/[^/]+\.(svg|pdf)"
)
"""Names of files that an experiment writes; no other file is removed."""


class Marker(Struct, frozen=True, kw_only=True):
    """The content of `experiment.json`: the experiment whose results a folder has.

    Attributes:
        name: name of the experiment.
        file: file name of the experiment file.
        sha256: SHA-256 of the experiment file.
        hpcosim: version of hpcosim.
        files: the tables and the files of the report, relative to the folder.
    """

    name: str
    file: str
    sha256: str
    hpcosim: str
    files: tuple[str, ...] = ()


def marker_of(plan: Plan) -> Marker:
    """Return the description of an experiment file."""
    checksum = hashlib.sha256(plan.text.encode()).hexdigest()
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


def list_output(folder: Path, files: Iterable[Path]) -> None:
    """List the files of an experiment in its marker, and remove listed files that are outdated.

    Args:
        folder: the output folder, which `mark_output` has marked.
        files: the files that the experiment has just written.

    Raises:
        StoreError: the disk is full, or the folder is not writable.
    """
    marker = _marker_in(folder)
    if marker is None:
        return  # another process has replaced it
    now = tuple(path.relative_to(folder).as_posix() for path in files)
    for name in {*marker.files} - {*now}:
        if WRITTEN.fullmatch(name):
            with suppress(OSError):
                (folder / name).unlink()
    for part in ("tables", "figures"):
        with suppress(OSError):  # it has files, or does not exist
            (folder / part).rmdir()
    mark_output(folder, structs.replace(marker, files=now))


def _marker_in(folder: Path) -> Marker | None:
    try:
        return msgspec.json.decode((folder / MARKER).read_bytes(), type=Marker)
    except (OSError, ValueError, msgspec.DecodeError):
        return None
