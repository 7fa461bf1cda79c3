"""Reads the records of a journal, up to its end or to the first that is cut off or damaged."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from hpcosim_server.errors import JournalError
from hpcosim_server.journal.records import (
    FRAME,
    HEADER,
    MAGIC,
    MAX_RECORD_BYTES,
    Record,
    record_in,
)
from hpcosim_server.journal.storage import JournalFile

BUFFER_BYTES = 2**18  # read at once


class Placed(NamedTuple):
    """A record and its place.

    Attributes:
        record: the record.
        start, end: offsets of its first byte and after its last one.
    """

    record: Record
    start: int
    end: int


class JournalReader:
    """Reads records.

    Args:
        file: the journal.
        start: offset of the first record to read; None: the first of the journal.

    Attributes:
        end: offset after the last record that was read.
        fault: why there is no record at `end`; empty: the journal ends there.

    Raises:
        JournalError: the file is no journal, or of another format, or cannot be read; the last
            also while it is read.
    """

    def __init__(self, file: JournalFile, start: int | None = None) -> None:
        self.fault = ""
        self._file = file
        try:
            self._size = file.size()
        except OSError as error:
            raise _unreadable(error) from None
        self._buffer, self._at = b"", 0  # bytes of the file, and the offset of the first
        if start is None:
            start = self._check_header()
        self.end = start

    def __iter__(self) -> Iterator[Placed]:
        """Read the records."""
        while (body := self._body()) is not None:
            try:
                record = record_in(body)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                self.fault = f"the record at byte {self.end} cannot be decoded: {error}"
                return
            start, self.end = self.end, self.end + FRAME.size + len(body)
            yield Placed(record, start, self.end)

    @property
    def is_cut(self) -> bool:
        """Whether the journal ends within a record or its header: its last write was cut off."""
        return bool(self.fault) and self._cut

    _cut = False

    def _check_header(self) -> int:
        header = self._read(0, len(HEADER))
        if header == HEADER:
            return len(HEADER)
        if HEADER.startswith(header):
            self.fault, self._cut = f"it ends at byte {len(header)}, within its header", True
            return len(header)
        if header.startswith(MAGIC):
            number = header.removeprefix(MAGIC).partition(b"\n")[0].decode("ascii", "replace")
            raise JournalError(
                f"the journal has the format {number!r}; expected a journal of this version of "
                f"hpcosim, {HEADER.removeprefix(MAGIC).strip().decode()}"
            )
        raise JournalError("expected a journal of hpcosim, got another file")

    def _body(self) -> bytes | None:
        """Return the body of the record at `end`; None: there is none, see `fault`."""
        left = self._size - self.end
        if self.fault or not left:
            return None
        if left < FRAME.size:
            self._note_cut(left)
            return None
        length, checksum = FRAME.unpack(self._take(self.end, FRAME.size))
        if length > MAX_RECORD_BYTES:
            self.fault = f"the record at byte {self.end} claims to have {length} bytes"
            return None
        if left < FRAME.size + length:
            self._note_cut(left)
            return None
        body = self._take(self.end + FRAME.size, length)
        if zlib.crc32(body) != checksum:
            self.fault = f"the record at byte {self.end} is damaged: its checksum is wrong"
            return None
        return body

    def _note_cut(self, left: int) -> None:
        self.fault = f"the record at byte {self.end} is cut off: only {left} bytes of it are there"
        self._cut = True

    def _take(self, offset: int, size: int) -> bytes:
        """Return bytes of the file."""
        start = offset - self._at
        if start < 0 or start + size > len(self._buffer):
            self._buffer = self._read(offset, max(size, BUFFER_BYTES))
            self._at, start = offset, 0
        return self._buffer[start : start + size]

    def _read(self, offset: int, size: int) -> bytes:
        try:
            return self._file.read(offset, size)
        except OSError as error:
            raise _unreadable(error) from None


def _unreadable(error: OSError) -> JournalError:
    return JournalError(f"the journal cannot be read: {error.strerror or error}")
