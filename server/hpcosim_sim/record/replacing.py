"""Replacement of files of a folder by the files of a draft: all of them or none.

One file, the seal, says that the others are whole. It is set aside before any other file changes,
and the new one is put in place after all others. A process that is killed at any instant leaves
the old files with the old seal, no seal, or the new files with the new seal.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hpcosim_sim.errors import ResultsError
from hpcosim_sim.folders import sync_folder

ASIDE = ".aside"
"""Folder in a draft with the files that the draft has replaced."""

BUSY = (errno.EWOULDBLOCK, errno.EACCES)


@contextmanager
def only_writer(folder: Path, seal: str) -> Iterator[None]:
    """Be the only process that replaces the files with a seal, for the `with` block.

    Drafts of killed writers are removed. On a file system without locks there is no exclusion.

    Args:
        folder: the folder, which exists.
        seal: name of the seal.

    Raises:
        ResultsError: another process is writing these files.
    """
    path = folder / f".{seal}.lock"
    lock = _locked(path, folder)
    try:
        for draft in folder.glob(f"{draft_start(seal)}*"):
            shutil.rmtree(draft, ignore_errors=True)
        yield
    finally:
        try:
            with suppress(OSError):
                path.unlink()  # before the release: the next writer locks a file of its own
        finally:
            os.close(lock)


def draft_start(seal: str) -> str:
    """Return the begin of the names of drafts with a seal, in the folder that they replace."""
    return f".{seal}-"


def replace_all(draft: Path, folder: Path, seal: str, stale: Collection[str] = ()) -> None:
    """Move the files of a draft into an existing folder.

    Args:
        draft: a folder with files, on the same file system.
        folder: the folder.
        seal: name of the seal.
        stale: names of files that are removed unless they are among those of the draft.

    Raises:
        OSError: a file cannot be moved; the files of the folder are as they were before.
    """
    names = sorted(file.name for file in draft.iterdir())
    for name in names:
        if (folder / name).is_dir():
            raise IsADirectoryError(0, f"{name} is a folder")
    sync_folder(draft)
    old = [name for name in sorted({*names, *stale}) if _is_file(folder / name)]
    aside = draft / ASIDE
    aside.mkdir()
    try:
        for name in sorted(old, key=lambda name: name != seal):
            (folder / name).rename(aside / name)
            if name == seal:
                sync_folder(folder)
        for name in sorted(names, key=lambda name: name == seal):
            if name == seal:
                sync_folder(folder)
            (draft / name).rename(folder / name)
        sync_folder(folder)
    except BaseException:
        _undo(draft, folder, seal, names, old)
        raise


def replace_each(draft: Path, folder: Path) -> None:
    """Move the files of a draft without a seal into an existing folder, each as a whole.

    Raises:
        OSError: a file cannot be moved.
    """
    for path in sorted(draft.iterdir()):
        path.replace(folder / path.name)
    sync_folder(folder)


def _undo(
    draft: Path, folder: Path, seal: str, names: Collection[str], old: Collection[str]
) -> None:
    """Put the old files back: the new seal leaves first, the old one returns last."""
    for name in sorted(names, key=lambda name: name != seal):
        if not _is_file(draft / name):
            (folder / name).unlink(missing_ok=True)
    for name in sorted(old, key=lambda name: name == seal):
        if _is_file(draft / ASIDE / name):
            (draft / ASIDE / name).rename(folder / name)


def _locked(path: Path, folder: Path) -> int:
    """Return the descriptor of a locked file, which is the one at the path."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in BUSY:
                return descriptor
            os.close(descriptor)
            raise ResultsError(
                f"{folder}: another process is writing results into this folder; nothing was "
                "changed; choose another folder with --out"
            ) from None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)  # the last writer removed the file between both calls


def _is_file(path: Path) -> bool:
    return os.path.lexists(path) and not path.is_dir()
