"""A folder of journals: `open/` has those of open sessions, `ended/` those of ended ones.

The folder belongs to one server at a time, and only its owner can read it. A journal in `open/` is
moved when the results of its session are written. `ended/` keeps the last `KEPT` journals.

A folder or a journal that cannot be used is a `JournalError`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hpcosim_server import log
from hpcosim_server.errors import JournalError
from hpcosim_server.journal.journal_file import JournalWriter, SyncPolicy
from hpcosim_server.journal.storage import Disk, JournalFile

KEPT = 1000
"""Number of journals of ended sessions that a folder keeps."""
SYNC_INTERVAL_S = 1.0
"""Least time between two synchronisations of all journals with `journal.sync: interval`, s."""
SYNC_SHARE = 20
"""Least time between two synchronisations, as a multiple of the time that one takes."""
MOST_ASIDE_BYTES = 64 * 2**20
"""Largest part of a damaged journal that is kept aside."""
COPIED_BYTES = 2**20  # at once
SUFFIX = ".journal"


class Journals:
    """The journals of a server.

    Args:
        folder: the folder; it is created, and locked for this process and its children.
        storage: the file system; None: that of the operating system.

    Attributes:
        failed: number of journals that could not be written, without those that are still open.
    """

    def __init__(
        self,
        folder: Path,
        sync: SyncPolicy = "interval",
        storage: Disk | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self.failed = 0
        self._create_failed = False
        self._sync = sync
        self._storage = storage or Disk()
        self._clock = clock
        self._sync_due_s = clock() + SYNC_INTERVAL_S
        self._has_new_names = False
        self._was_removed = False  # a journal, and another attempt must make that safe
        self._writers: set[JournalWriter] = set()
        self._open, self._ended = folder / "open", folder / "ended"
        if folder.is_file():
            replays = f"; `hpcosim replay {folder}` reads one journal" * (folder.suffix == SUFFIX)
            raise JournalError(f"{folder}: expected a folder of journals; it is a file{replays}")
        try:
            for each in (folder, self._open, self._ended):
                self._storage.make_folder(each)
            self._storage.lock(folder)
        except OSError as error:
            why = error.strerror or error
            raise JournalError(f"{folder}: journals cannot be kept here: {why}") from None

    def create(self, name: str) -> JournalWriter | None:
        """Create the journal of a new session; None: it cannot be created, as the log says.

        Args:
            name: name of the journal: letters, digits, `_` and `-`.
        """
        try:
            file = self._storage.create(self._open / f"{name}{SUFFIX}")
            self._has_new_names = True
            if self._sync == "always":
                self._sync_names()
        except OSError as error:
            self.failed += 1
            self._create_failed = True
            log.error("journal_failed", journal=name, error=error.strerror or str(error))
            return None
        self._create_failed = False
        return self._writer(file, name)

    @property
    def is_failing(self) -> bool:
        """Whether a journal of an open session, or the last new one, cannot be written."""
        return self._create_failed or any(writer.failure for writer in self._writers)

    @property
    def all_failed(self) -> int:
        """Number of journals that could not be written so far."""
        return self.failed + sum(bool(writer.failure) for writer in self._writers)

    def open_names(self) -> list[str]:
        """Return the names of the journals of open sessions, the least recently changed first."""
        return self._names(self._open)

    def ended_names(self) -> list[str]:
        """Return the names of the journals of ended sessions, the least recently ended first."""
        return self._names(self._ended)

    def read(self, name: str, *, ended: bool = False) -> JournalFile:
        """Open a journal to read it. The caller closes it."""
        folder = self._ended if ended else self._open
        try:
            return self._storage.open(folder / f"{name}{SUFFIX}")
        except OSError as error:
            raise JournalError(f"{name}: {error.strerror or error}") from None

    def go_on(self, name: str, end: int, *, keep_rest: bool) -> JournalWriter:
        """Return a writer that appends to a journal, after its last readable record.

        If the disk has no room for what follows, or fails, the journal stays as it is. Its writer
        has failed then, as after a write that fails, and the session goes on without a journal.

        Args:
            keep_rest: keep what follows in a file of its own: it is more than a record that was
                cut off.
        """
        file = self.read(name)
        failure = ""
        try:
            if keep_rest and (rest := file.size() - end) > 0:
                if rest > MOST_ASIDE_BYTES:
                    file.close()
                    path = self._open / f"{name}{SUFFIX}"
                    raise JournalError(
                        f"{path}: {rest} bytes follow its last readable record; expected at most "
                        f"{MOST_ASIDE_BYTES}. `truncate -s {end} {path}` removes them"
                    )
                self._put_aside(file, name, end)
                self._storage.sync_folder(self._open)
            file.truncate(end)
        except OSError as error:
            failure = error.strerror or str(error)
        writer = self._writer(file, name)
        if failure:
            writer.fail(failure)
        return writer

    def tick(self) -> None:
        """Synchronise the journals with the disk if it is time. Call it between requests.

        With `interval`, a failing machine loses the records of at most `SYNC_INTERVAL_S`, or of
        `SYNC_SHARE` times the time that the disk needs.
        """
        if self._sync != "interval" and not self._was_removed:
            return
        if (began_s := self._clock()) >= self._sync_due_s:
            if self._sync == "interval":
                self.sync()
            else:
                self._try_to_sync_names()
            over_s = self._clock()
            self._sync_due_s = over_s + max(SYNC_INTERVAL_S, SYNC_SHARE * (over_s - began_s))

    def sync(self) -> None:
        """Synchronise all journals with the disk."""
        self._try_to_sync_names()
        for writer in list(self._writers):
            writer.sync()
            if writer.failure:
                self._forget(writer)

    def settle(self, writer: JournalWriter) -> None:
        """Synchronise the journal of a session that has ended, before its results are written.

        Otherwise a machine that fails could restore the session to a state before its end, whose
        results would replace the complete ones.
        """
        self._try_to_sync_names()
        writer.sync()

    def finish(self, writer: JournalWriter) -> None:
        """Close the journal of a session whose results are written, and move it to `ended/`.

        A journal that lacks records is removed: it could not restore the session as it ended.
        """
        self._forget(writer)
        writer.close()
        path = self._open / f"{writer.name}{SUFFIX}"
        try:
            if writer.failure:
                self._storage.remove(path)
                self._has_new_names = self._was_removed = True
                self._try_to_sync_names()
                return
            self._storage.move(path, self._ended / path.name)
            for name in self._names(self._ended)[:-KEPT]:
                with suppress(FileNotFoundError):  # another worker has removed it
                    self._storage.remove(self._ended / f"{name}{SUFFIX}")
        except OSError as error:
            log.error("journal_not_moved", journal=writer.name, error=error.strerror or str(error))

    def drop(self, writer: JournalWriter) -> None:
        """Close and remove the journal of an open session."""
        self._forget(writer)
        writer.close()
        self.discard(writer.name)

    def discard(self, name: str) -> None:
        """Remove a journal that restores nothing: its session has carried out no request."""
        try:
            self._storage.remove(self._open / f"{name}{SUFFIX}")
        except OSError as error:
            log.error("journal_not_removed", journal=name, error=error.strerror or str(error))

    def close(self) -> None:
        """Synchronise and close all journals. Open sessions can be restored from them."""
        for writer in list(self._writers):
            if self._sync != "never":
                writer.sync()
            writer.close()
            self._forget(writer)

    def _sync_names(self) -> None:
        """Wait until the names of new journals are on the disk."""
        if self._has_new_names:
            self._storage.sync_folder(self._open)
            self._has_new_names = self._was_removed = False

    def _try_to_sync_names(self) -> None:
        try:
            self._sync_names()
        except OSError as error:
            log.error("journals_not_synced", error=error.strerror or str(error))

    def _writer(self, file: JournalFile, name: str) -> JournalWriter:
        writer = JournalWriter(file, name, self._sync)
        self._writers.add(writer)
        return writer

    def _forget(self, writer: JournalWriter) -> None:
        if writer in self._writers:
            self._writers.remove(writer)
            self.failed += bool(writer.failure)

    def _put_aside(self, file: JournalFile, name: str, end: int) -> None:
        """Keep the bytes after the last readable record in a file of their own."""
        path = self._open / f"{name}.after-{end}"
        try:
            aside = self._storage.create(path)
        except FileExistsError:  # of an earlier attempt, which a kill cut off
            self._storage.remove(path)
            aside = self._storage.create(path)
        try:
            while data := file.read(end, COPIED_BYTES):
                aside.append(data)
                end += len(data)
            aside.sync()
        except OSError:
            with suppress(OSError):
                self._storage.remove(path)
            raise
        finally:
            aside.close()

    def _names(self, folder: Path) -> list[str]:
        names = self._storage.names(folder)
        return [name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)]
