"""A simulated disk for journals, which can be full, and can fail and lose what is not synced."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from hpcosim_server.errors import JournalError
from hpcosim_server.journal.storage import Disk, JournalFile


class MemoryFile(JournalFile):
    """A file of a simulated disk."""

    def __init__(self, disk: MemoryDisk, content: bytearray) -> None:
        self._disk = disk
        self.content = content
        self.synced = len(content)

    def append(self, data: bytes) -> None:
        """Write what fits."""
        room = self._disk.room
        taken = data if room is None else data[:room]
        self.content += taken
        if room is not None:
            self._disk.room = room - len(taken)
        if len(taken) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes."""
        return bytes(self.content[offset : offset + size])

    def size(self) -> int:
        """Return the size."""
        return len(self.content)

    def truncate(self, size: int) -> None:
        """Remove the end."""
        del self.content[size:]

    def sync(self) -> None:
        """Synchronise."""
        if self._disk.sync_fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._disk.syncs += 1
        self._disk.safe[id(self.content)] = len(self.content)

    def close(self) -> None:
        """Do nothing."""


class MemoryDisk(Disk):
    """A simulated disk.

    Attributes:
        files: content by path.
        room: bytes until the disk is full; None: it never is.
        sync_fails: whether synchronisation fails.
        syncs: number of synchronisations.
    """

    def __init__(self) -> None:
        self.files: dict[Path, bytearray] = {}
        self.room: int | None = None
        self.sync_fails = False
        self.syncs = 0
        self.safe: dict[int, int] = {}
        self._locked: set[Path] = set()

    def kill(self) -> None:
        """Release the locks, as if the server had been killed."""
        self._locked.clear()

    def lose_power(self) -> None:
        """Lose everything that was not synchronised."""
        self.kill()
        for content in self.files.values():
            del content[self.safe.get(id(content), 0) :]

    def make_folder(self, folder: Path) -> None:
        """Do nothing: folders need not exist."""

    def lock(self, folder: Path) -> None:
        """Lock a folder."""
        if folder in self._locked:
            raise JournalError(f"{folder}: another server keeps its journals here")
        self._locked.add(folder)

    def create(self, path: Path) -> MemoryFile:
        """Create a file."""
        if path in self.files:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.files[path] = bytearray()
        return MemoryFile(self, self.files[path])

    def open(self, path: Path) -> MemoryFile:
        """Open a file."""
        return MemoryFile(self, self.files[path])

    def names(self, folder: Path) -> list[str]:
        """Return the names of the files in a folder."""
        return [path.name for path in self.files if path.parent == folder]

    def sync_folder(self, folder: Path) -> None:
        """Do nothing: names are never lost."""

    def move(self, path: Path, target: Path) -> None:
        """Move a file."""
        self.files[target] = self.files.pop(path)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        del self.files[path]
