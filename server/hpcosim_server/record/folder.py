"""Files that are written into a folder together: all of them or none."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from hpcosim_server.errors import ResultsError

Files = Mapping[str, Iterable[str]]
"""The text of files, in pieces, by file name."""

LAST = "run.json"  # it says that the rest is complete


def write_together(folder: Path, files: Files) -> None:
    """Write files into a folder, all of them or none.

    They are written to a temporary folder first. A new folder then appears with all of them at
    once; in an existing folder each file is replaced whole, `run.json` last.

    Raises:
        ResultsError: they cannot be written; the folder is as it was before.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # A user may be allowed to write into an existing folder, but not beside it.
        beside = folder if folder.is_dir() else folder.parent
        draft = beside / f".{folder.name}-{secrets.token_hex(4)}"
        draft.mkdir()
        try:
            for name, lines in files.items():
                _write(draft / name, lines)
            _move(draft, folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise ResultsError(
            f"the results can't be written to {folder}: {error.strerror or error}"
        ) from error


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())  # a full disk may only show here


def _move(draft: Path, folder: Path) -> None:
    if not folder.exists():
        draft.rename(folder)
        return
    names = sorted((file.name for file in draft.iterdir()), key=lambda name: (name == LAST, name))
    for name in names:
        if (folder / name).is_dir():
            raise IsADirectoryError(0, f"{name} is a folder there")
    for name in names:
        (draft / name).replace(folder / name)
