"""Appends records to the journal of a session."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from hpcosim_server import log
from hpcosim_server.journal.records import HEADER, Record, framed
from hpcosim_server.journal.storage import JournalFile

SyncPolicy = Literal["always", "interval", "never"]
"""When records are synchronised with the disk: each before its reply is sent, regularly, or when
the operating system does it. It matters only if the machine fails: a process that is killed has
passed its records to the operating system."""

MARK_BYTES = 2**18  # between two places of `JournalWriter.place_of`


class JournalWriter:
    """Appends records to a journal.

    A write that fails closes the journal, never the session: the records up to then stay, and the
    session goes on without a journal. The failure is logged, and `failure` says it.

    Args:
        file: the journal, without a header if it is empty.
        name: name of the journal, for logs.
        sync: when records are synchronised with the disk.

    Attributes:
        name: name of the journal.
        size: size of its records and its header, bytes.
        failure: why the journal was closed before its end; empty: it was not.
        snapshot_at: offset of the record of the last snapshot; -1: none.
    """

    def __init__(self, file: JournalFile, name: str, sync: SyncPolicy) -> None:
        self.name = name
        self.size = file.size()
        self.failure = ""
        self.snapshot_at = -1
        self._file: JournalFile | None = file
        self._always = sync == "always"
        self._unsynced = False
        self._marks: list[tuple[int, int]] = []
        if not self.size:
            self._append(HEADER)

    def append(self, record: Record) -> None:
        """Append a record, before the reply to the client is sent."""
        self._append(framed(record))

    def append_exchange(self, record: Record, seq: int) -> None:
        """Append the record of a request, and note its place for `place_of`."""
        self.mark(seq, self.size)
        self.append(record)

    def append_snapshot(self, record: Record) -> None:
        """Append the record of a snapshot, and note its place."""
        self.snapshot_at = self.size
        self.append(record)

    def sync(self) -> None:
        """Wait until all records are on the disk."""
        if self._unsynced:
            self._do(lambda file: file.sync())
            self._unsynced = False

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._do(lambda file: file.close())
            self._file = None

    def fail(self, why: str) -> None:
        """Close a journal that lacks a record."""
        file, self._file = self._file, None
        if file is None:
            return
        self.failure = why
        log.error(
            "journal_failed",
            journal=self.name,
            error=why,
            hint="the session goes on, but a killed server cannot restore it beyond this request",
        )
        with suppress(OSError):
            file.truncate(self.size)  # a part of a record
        with suppress(OSError):
            file.close()

    def mark(self, seq: int, offset: int) -> None:
        """Note the place of a request."""
        if not self._marks or offset - self._marks[-1][1] >= MARK_BYTES:
            self._marks.append((seq, offset))

    def place_of(self, seq: int) -> int:
        """Return an offset at or a little before the record of a request."""
        at = 0
        for first, offset in self._marks:
            if first > seq:
                break
            at = offset
        return at

    @property
    def file(self) -> JournalFile | None:
        """The file, for readers; None: the journal is closed."""
        return self._file

    def _append(self, data: bytes) -> None:
        self._unsynced = True
        if self._do(lambda file: file.append(data)):
            self.size += len(data)
            if self._always:
                self.sync()

    def _do(self, action: Callable[[JournalFile], None]) -> bool:
        """Do something with the file; return whether it is done. A failure closes the journal."""
        if self._file is None:
            return False
        try:
            action(self._file)
        except OSError as error:
            self.fail(error.strerror or str(error))
            return False
        return True
