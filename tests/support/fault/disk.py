"""A simulated disk: results folders and journals that outlive the server that wrote them."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
from collections.abc import Callable, Collection
from pathlib import Path

from hpcosim_server.journal.storage import Disk, JournalFile
from hpcosim_sim.errors import ResultsError
from hpcosim_sim.record.folder import LAST, Files, Written, WrittenFile
from support.fault.network import is_in
from support.fault.plan import Plan
from support.fault.simulator import Simulator


class ServerKilled(BaseException):
    """The server is killed during an operation of its disk."""


class SimulatedFile(JournalFile):
    """A journal; see `journal.storage.JournalFile`. It may be opened several times.

    Args:
        disk: its disk.

    Attributes:
        data: what a server that is started again finds.
        synced: number of bytes that are safe if the power fails.
        changed: number of the last change on the disk.
    """

    def __init__(self, disk: SimulatedDisk) -> None:
        self.data = bytearray()
        self.synced = 0
        self.changed = 0
        self._disk = disk

    def append(self, data: bytes) -> None:
        """See `JournalFile`. A part may be written before the disk is full, or before a kill."""
        part = data[: self._disk.chance.randrange(len(data) + 1)]
        with self._disk.operation(lambda: self.data.extend(part)):
            self.data += data
            self.changed = self._disk.next_change()

    def read(self, offset: int, size: int) -> bytes:
        """See `JournalFile`."""
        return bytes(self.data[offset : offset + size])

    def size(self) -> int:
        """See `JournalFile`."""
        return len(self.data)

    def truncate(self, size: int) -> None:
        """See `JournalFile`."""
        del self.data[size:]
        self.synced = min(self.synced, size)

    def sync(self) -> None:
        """See `JournalFile`."""
        with self._disk.operation():
            self.synced = len(self.data)

    def close(self) -> None:
        """See `JournalFile`."""

    def lose_power(self, chance: random.Random) -> None:
        """Lose some or all of what is not synchronised; the rest may be zeros."""
        kept = chance.randint(self.synced, len(self.data))
        lost = len(self.data) - kept
        del self.data[kept:]
        if lost and chance.random() < 0.2:
            self.data += bytes(lost)
        self.synced = len(self.data)


Renaming = tuple[tuple[Path, SimulatedFile | None], ...]
"""A change of names that happens as a whole: each path, and what it names from then on."""


class _Operation:
    """An operation of a disk that may fail, or be the last one of a server."""

    def __init__(self, disk: SimulatedDisk, before: Callable[[], None], needs_space: bool) -> None:
        self._disk, self._before = disk, before
        self._needs_space = needs_space

    def __enter__(self) -> None:
        if self._needs_space and self._disk.is_full:
            self._before()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self._disk.kills and self._disk.chance.random() < 0.5:
            self._before()
            self._disk.kill()

    def __exit__(self, failed: object, *_: object) -> None:
        if failed is None and self._disk.kills:
            self._disk.kill()


class SimulatedDisk(Disk):
    """The disk of the server; see `journal.storage.Disk` for the part about journals.

    Args:
        simulator: the simulated time.
        plan: when the disk is full.
        chance: draws what is left of an operation that fails.

    Attributes:
        folders: text of the files of each results folder, by name of the folder.
        files: the journals by path, as the running system sees them.
        refused: names of folders that are not written, because the disk was full.
        ever_refused: these, and those that were written later.
        overwritten: names of folders whose complete results were replaced by others.
        kills: whether the next operation kills the server.
        chance: draws what is left of an operation that fails.
    """

    def __init__(self, simulator: Simulator, plan: Plan, chance: random.Random) -> None:
        self.folders: dict[str, dict[str, str]] = {}
        self.files: dict[Path, SimulatedFile] = {}
        self.refused: set[str] = set()
        self.ever_refused: set[str] = set()
        self.overwritten: list[str] = []
        self.kills = False
        self.chance = chance
        self._changes = 0
        self._safe: dict[Path, SimulatedFile] = {}  # what a power failure leaves
        self._pending: list[Renaming] = []  # changes of names that are not synchronised
        self._simulator = simulator
        self._plan = plan

    @property
    def is_full(self) -> bool:
        """Whether nothing can be written now."""
        return any(is_in(full, self._simulator.now_s) for full in self._plan.disk_full)

    def operation(
        self, before: Callable[[], None] = lambda: None, *, needs_space: bool = True
    ) -> _Operation:
        """Return a context in which the disk is changed.

        Args:
            before: what is left of the change if the disk is full or the server is killed.
            needs_space: whether it fails on a full disk.
        """
        return _Operation(self, before, needs_space)

    def next_change(self) -> int:
        """Return the number of a change."""
        self._changes += 1
        return self._changes

    def kill(self) -> None:
        """Kill the server."""
        self.kills = False
        raise ServerKilled

    def lose_power(self) -> None:
        """Lose what is not synchronised.

        Of the changes of names, the first ones are on the disk, or any: file systems differ.
        """
        keeps_order, first = self.chance.random() < 0.5, self.chance.randint(0, len(self._pending))
        for number, change in enumerate(self._pending):
            if number < first if keeps_order else self.chance.random() < 0.5:
                self._settle(change)
        self._pending.clear()
        self.files = dict(self._safe)
        for file in self.files.values():
            file.lose_power(self.chance)

    def _rename(self, change: Renaming) -> None:
        for path, file in change:
            _set(self.files, path, file)
        self._pending.append(change)

    def _settle(self, change: Renaming) -> None:
        for path, file in change:
            _set(self._safe, path, file)

    # Results

    def write_together(
        self,
        folder: Path,
        files: Files,
        stale: Collection[str] = (),
        *,
        sealed: Callable[[Written], str],
    ) -> None:
        """Do what `folder.write_together` does, on this disk."""
        texts = {name: "".join(lines) for name, lines in files.items()}
        texts[LAST] = sealed({name: _described(text) for name, text in texts.items()})
        try:
            with self.operation():
                self._write(folder.name, texts)
        except OSError as error:
            self.refused.add(folder.name)
            self.ever_refused.add(folder.name)
            self._simulator.note(f"disk: full, {folder.name} is not written")
            failure = ResultsError(f"{folder}: cannot be written: {error.strerror}")
            failure.disk_full = True
            raise failure from error

    def _write(self, folder: str, files: dict[str, str]) -> None:
        before = self.folders.get(folder)
        if before is not None and before != files and json.loads(before[LAST])["complete"]:
            self.overwritten.append(folder)
        self.folders[folder] = files
        self.refused.discard(folder)
        self._simulator.note(f"disk: {folder} is written")

    # Journals

    def make_folder(self, folder: Path) -> None:
        """See `Disk`."""

    def lock(self, folder: Path) -> None:
        """See `Disk`."""

    def create(self, path: Path) -> SimulatedFile:
        """See `Disk`."""
        if path in self.files:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        with self.operation():
            self._rename(((path, SimulatedFile(self)),))
        return self.files[path]

    def sync_folder(self, folder: Path) -> None:
        """See `Disk`."""
        with self.operation():
            of_folder = [
                change
                for change in self._pending
                if any(path.parent == folder for path, _ in change)
            ]
            for change in of_folder:
                self._settle(change)
                self._pending.remove(change)

    def open(self, path: Path) -> SimulatedFile:
        """See `Disk`."""
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return self.files[path]

    def names(self, folder: Path) -> list[str]:
        """See `Disk`."""
        here = [path for path in self.files if path.parent == folder]
        return [path.name for path in sorted(here, key=lambda path: self.files[path].changed)]

    def move(self, path: Path, target: Path) -> None:
        """See `Disk`."""
        with self.operation(needs_space=False):
            self._rename(((path, None), (target, self.files[path])))

    def remove(self, path: Path) -> None:
        """See `Disk`."""
        with self.operation(needs_space=False):
            self._rename(((path, None),))


def _set(files: dict[Path, SimulatedFile], path: Path, file: SimulatedFile | None) -> None:
    files.pop(path, None)
    if file is not None:
        files[path] = file


def _described(text: str) -> WrittenFile:
    data = text.encode()
    return WrittenFile(len(data), hashlib.sha256(data).hexdigest())
