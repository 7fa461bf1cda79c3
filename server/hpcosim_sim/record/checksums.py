"""Sizes and checksums of the files of a results folder: `files` of `run.json`."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec


class WrittenFile(msgspec.Struct, frozen=True):
    """The content of a file of the results folder.

    Attributes:
        bytes: size, bytes.
        sha256: SHA-256 of the content, 64 hexadecimal digits.
    """

    bytes: int
    sha256: str


Written = Mapping[str, WrittenFile]
"""Contents of files by name."""

SHOWN = 12
"""Hexadecimal digits of a checksum in a message."""


def mismatch(folder: Path, written: Written, others: Collection[str] = ()) -> str:
    """Return the first difference between a results folder and `files` of its `run.json`.

    Args:
        folder: the results folder.
        written: the contents of its files. Empty: an earlier version wrote the folder; there is
            nothing to compare.
        others: names of files that must be in `written` if they are in the folder.

    Returns:
        One line without the path of the folder; empty: there is no difference.

    Raises:
        OSError: a file is not readable.
    """
    for name in sorted(written):
        expected = written[name]
        found = _content_of(folder / name)
        if found is None:
            return f"{name} is missing; run.json lists it with {expected.bytes} bytes"
        if found != expected:
            return (
                f"{name} is not the file that run.json describes: expected {_shown(expected)}, "
                f"found {_shown(found)}; run the scenario again, or remove `files` from run.json "
                "to use the file as it is"
            )
    for name in sorted(others):
        if written and name not in written and (folder / name).exists():
            return f"{name} is not of this run: `files` of run.json does not list it; remove it"
    return ""


def _content_of(path: Path) -> WrittenFile | None:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return WrittenFile(file.tell(), digest)
    except FileNotFoundError:
        return None


def _shown(file: WrittenFile) -> str:
    return f"{file.bytes} bytes with SHA-256 {file.sha256[:SHOWN]}..."
