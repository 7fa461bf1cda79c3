"""The results folder: the check before a run, and the files that are written together."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from hpcosim_server.errors import ResultsError, ResultsFolderError

Files = Mapping[str, Iterable[str]]
"""The text of files, in pieces, by file name."""

LAST = "run.json"  # written last: a folder that has it is complete

OWN_FILES = frozenset(
    (
        "jobs.csv",
        "nodes.csv",
        "schedule.csv",
        "runs.csv",
        "drains.csv",
        "explanations.csv",
        "metrics.json",
        LAST,
        "plan.json",
        "report.html",
        "schedule.png",
        "schedule.svg",
        "out_jobs.csv",
        "out_schedule.csv",
        "out_machine_states.csv",
        "out_pstate_changes.csv",
        "out_consumed_energy.csv",
    )
)
"""Names of all files that hpcosim writes into a results folder."""


def prepare(folder: Path, *, force: bool = False) -> None:
    """Check that results can be written to a folder. Call it before a simulation starts.

    Nothing is changed: the files of an earlier run stay until `write_together` replaces them.

    Args:
        folder: the results folder. It and its parents may be missing.
        force: accept a folder that holds files.

    Raises:
        ResultsFolderError: the folder holds files and `force` is false, a file is in its place, or
            it cannot be written to.
    """
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            folder.stat()  # raises for names that no file can have
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not existing.is_dir():
            raise ResultsFolderError(f"{folder}: expected a results folder; {existing} is a file")
        if existing is folder and not force and any(folder.iterdir()):
            raise ResultsFolderError(
                f"{folder}: the results folder is not empty; choose another folder with --out, or "
                "replace the results in it with --force"
            )
        with tempfile.TemporaryDirectory(prefix=".hpcosim-", dir=existing):
            pass  # the only sure test of whether files can be created there
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        why = getattr(error, "strerror", None) or error
        raise ResultsFolderError(f"{folder}: results cannot be written here: {why}") from None


def write_together(folder: Path, files: Files, stale: Collection[str] = ()) -> None:
    """Write files into a folder, all of them or none.

    The files are written to a temporary folder first. A new folder is then renamed into place. In
    an existing folder each file is replaced as a whole, `run.json` last.

    Args:
        folder: the folder; it and missing parents are created.
        files: the files.
        stale: names of files that are removed unless they are among `files`.

    Raises:
        ResultsError: the files cannot be written; the folder is as it was before.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # A user may have permission to write into an existing folder, but not into its parent.
        parent = folder if folder.is_dir() else folder.parent
        draft = parent / f".{folder.name}-{secrets.token_hex(4)}"
        draft.mkdir()
        try:
            for name, lines in files.items():
                _write(draft / name, lines)
            _move(draft, folder, stale)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise ResultsError(
            f"{folder}: the results cannot be written: {error.strerror or error}"
        ) from error


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())  # a full disk may only show here


def _move(draft: Path, folder: Path, stale: Collection[str]) -> None:
    if not folder.exists():
        draft.rename(folder)
        return
    names = sorted((file.name for file in draft.iterdir()), key=lambda name: (name == LAST, name))
    for name in names:
        if (folder / name).is_dir():
            raise IsADirectoryError(0, f"{name} is a folder")
    for name in sorted(set(stale) - set(names)):
        if (folder / name).is_file():
            (folder / name).unlink()
    for name in names:
        (draft / name).replace(folder / name)
