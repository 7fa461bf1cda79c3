"""The disk of journals: files and folders of the operating system."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from contextlib import suppress
from pathlib import Path

from hpcosim_server.errors import JournalError
from hpcosim_sim.folders import make_folders, sync_folder

FOLDER_MODE, FILE_MODE = 0o700, 0o600  # a journal has the secret name of its session
LOCK = "lock"
LOCK_TIMEOUT_S = 5.0
LOCK_POLL_S = 0.05


class JournalFile:
    """An open file of the operating system. Each method raises OSError."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def append(self, data: bytes) -> None:
        """Write all bytes at the end of the file."""
        written = os.write(self._descriptor, data)
        while written < len(data):  # a full disk takes a part, and fails at the next call
            written += os.write(self._descriptor, data[written:])

    def read(self, offset: int, size: int) -> bytes:
        """Return at most `size` bytes from `offset`; fewer only at the end of the file."""
        parts = []
        while size and (part := os.pread(self._descriptor, size, offset)):
            parts.append(part)
            offset, size = offset + len(part), size - len(part)
        return b"".join(parts)

    def size(self) -> int:
        """Return the size of the file, bytes."""
        return os.fstat(self._descriptor).st_size

    def truncate(self, size: int) -> None:
        """Remove the bytes from `size` on."""
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        """Wait until the content is on the disk."""
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class Disk:
    """The file system of the operating system. Each method raises OSError.

    Args:
        lock_timeout_s: timeout for the lock of a folder, s. The workers of a server that was killed
            hold it until they end.
    """

    def __init__(self, lock_timeout_s: float = LOCK_TIMEOUT_S) -> None:
        self._locks: list[int] = []
        self._lock_timeout_s = lock_timeout_s

    def make_folder(self, folder: Path) -> None:
        """Create a folder that only its owner can read; it may exist. Its name is then safe."""
        make_folders(folder, FOLDER_MODE)
        folder.chmod(FOLDER_MODE)

    def lock(self, folder: Path) -> None:
        """Lock a folder until this process and its children end.

        Raises:
            JournalError: another process has locked it.
        """
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        until_s = time.monotonic() + self._lock_timeout_s
        while not _locked(descriptor):
            if time.monotonic() >= until_s:
                os.close(descriptor)
                raise JournalError(
                    f"{folder}: another server keeps its journals here; stop it, or choose another "
                    "folder in journal.folder"
                )
            time.sleep(LOCK_POLL_S)
        self._locks.append(descriptor)

    def create(self, path: Path) -> JournalFile:
        """Create a file that only its owner can read; it must not exist."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        return JournalFile(os.open(path, flags, FILE_MODE))

    def open(self, path: Path) -> JournalFile:
        """Open a file."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags | os.O_NONBLOCK)  # a pipe must not make the server wait
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "not a regular file")
        return JournalFile(descriptor)

    def names(self, folder: Path) -> list[str]:
        """Return the names of the files in a folder, the least recently changed first."""
        files = []
        with os.scandir(folder) as entries:
            for each in entries:
                with suppress(OSError):  # another worker has moved it; or reading it says why
                    files.append((each.stat(follow_symlinks=False).st_mtime_ns, each.name))
        return [name for _, name in sorted(files)]

    def sync_folder(self, folder: Path) -> None:
        """Wait until the names in a folder are on the disk."""
        sync_folder(folder)

    def move(self, path: Path, target: Path) -> None:
        """Move a file."""
        path.rename(target)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink()


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def open_to_read(path: Path) -> JournalFile:
    """Open a journal that is not changed.

    Raises:
        JournalError: it cannot be opened.
    """
    try:
        if path.is_dir():
            raise JournalError(
                f"{path}: expected a journal, got a folder; those of a server are the files "
                ".journal/ended/*.journal and .journal/open/*.journal in its --out"
            )
        if path.exists() and not path.is_file():
            raise JournalError(f"{path}: expected a journal, got no regular file")
        return JournalFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        raise JournalError(f"{path}: {error.strerror or error}") from None
