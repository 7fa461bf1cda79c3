"""The results folder: the check before a run, files written together, and their checksums."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from itertools import islice
from pathlib import Path

import msgspec

from hpcosim_sim.errors import ResultsError, ResultsFolderError
from hpcosim_sim.folders import make_folders, sync_folder

# Replacement of files of a folder by the files of a draft: all of them or none.

ASIDE = ".aside"
"""Folder in a draft with the files that the draft has replaced."""

BUSY = (errno.EWOULDBLOCK, errno.EACCES)


@contextmanager
def only_writer(folder: Path, seal: str) -> Iterator[None]:
    """Be the only process that replaces the files with a seal, for the `with` block.

    Drafts of killed writers are removed. On a file system without locks there is no exclusion.

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
    """Move the files of a draft without a seal into an existing folder, each as a whole."""
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


Files = Mapping[str, Iterable[str]]
"""The text of files, in pieces, by file name."""

LAST = "run.json"
"""The seal of a results folder: removed first and written last. A folder that has it is whole."""

PIECES = 1000
"""Number of pieces of text that are encoded and written together."""

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a full disk."""

PROBE_BYTES = 4096
"""Size of the file that `prepare` writes, bytes."""

MIN_FREE_BYTES = 2**20
"""Free space that a run needs at its start, bytes."""

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

    Raises:
        ResultsFolderError: the folder holds files and `force` is false, a file is in its place, or
            it cannot be written to, or the disk is full.
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
        _check_space(folder, existing)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        why = getattr(error, "strerror", None) or error
        raise ResultsFolderError(f"{folder}: results cannot be written here: {why}") from None


def _check_space(folder: Path, existing: Path) -> None:
    """Write a small file for a moment: the only sure test of whether files can be created."""
    with tempfile.TemporaryDirectory(prefix=".hpcosim-", dir=existing) as scratch:
        with (Path(scratch) / "probe").open("wb") as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
        disk = os.statvfs(scratch)
    free_bytes = disk.f_bavail * disk.f_frsize
    if free_bytes < MIN_FREE_BYTES:
        raise ResultsFolderError(
            f"{folder}: results cannot be written here: the disk has {free_bytes} bytes left; "
            f"expected at least {MIN_FREE_BYTES}"
        )


def write_together(
    folder: Path,
    files: Files,
    stale: Collection[str] = (),
    *,
    seal: str = LAST,
    sealed: Callable[[Written], str] | None = None,
) -> None:
    """Write files into a folder, all of them or none.

    The files are written to a temporary folder first. A new folder is then renamed into place. In
    an existing folder the seal is removed first and written last, see `replacing`; without a seal
    each file is replaced as a whole.

    Args:
        folder: the folder; it and missing parents are created.
        stale: names of files that are removed unless they are among `files`.
        seal: name of the file that says that the others are whole.
        sealed: returns the text of the seal from the contents of all other files. None: the seal,
            if there is one, is in `files`.

    Raises:
        ResultsError: the files cannot be written, or another process is writing files with this
            seal; the folder is as it was before.
    """
    try:
        make_folders(folder.parent)
        # A user may have permission to write into an existing folder, but not into its parent.
        if not folder.is_dir():
            with _draft(folder.parent, f".{folder.name}-") as draft:
                _write_all(draft, files, seal, sealed)
                sync_folder(draft)
                draft.rename(folder)
                sync_folder(folder.parent)
            return
        has_seal = sealed is not None or seal in files or seal in stale
        with only_writer(folder, seal) if has_seal else nullcontext():
            start = draft_start(seal) if has_seal else f".{folder.name}-"
            with _draft(folder, start) as draft:
                _write_all(draft, files, seal, sealed)
                if has_seal:
                    replace_all(draft, folder, seal, stale)
                else:
                    replace_each(draft, folder)
    except OSError as error:
        why = error.strerror or error
        if error.errno == errno.ENOTEMPTY:
            why = "another process has created this folder meanwhile"
        failure = ResultsError(f"{folder}: the results cannot be written: {why}")
        failure.disk_full = error.errno in FULL
        raise failure from error


@contextmanager
def _draft(parent: Path, start: str) -> Iterator[Path]:
    """Yield a new folder, which is removed at the end of the `with` block."""
    draft = parent / f"{start}{secrets.token_hex(4)}"
    draft.mkdir()
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _write_all(
    draft: Path, files: Files, seal: str, sealed: Callable[[Written], str] | None
) -> None:
    written = {name: _write(draft / name, pieces) for name, pieces in files.items()}
    if sealed is not None:
        _write(draft / seal, [sealed(written)])


def _write(path: Path, pieces: Iterable[str]) -> WrittenFile:
    """Write a file and return what it contains."""
    pieces, digest = iter(pieces), hashlib.sha256()
    with path.open("wb") as file:
        while several := list(islice(pieces, PIECES)):
            data = "".join(several).encode()
            digest.update(data)
            file.write(data)
        file.flush()
        os.fsync(file.fileno())  # a full disk may only show here
        return WrittenFile(file.tell(), digest.hexdigest())


class WrittenFile(msgspec.Struct, frozen=True):
    """The content of a file of the results folder.

    Attributes:
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
