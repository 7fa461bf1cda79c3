"""The journal of a session: its records and their framing, a writer and a reader."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import msgspec

from hpcosim_server import log
from hpcosim_server.errors import JournalError
from hpcosim_server.journal.storage import JournalFile

SyncPolicy = Literal["always", "interval", "never"]
"""When records are synchronised with the disk: each before its reply is sent, regularly, or when
the operating system does it. It matters only if the machine fails: a process that is killed has
passed its records to the operating system."""

MARK_BYTES = 2**18  # between two places of `JournalWriter.place_of`

FORMAT = 1
MAGIC = b"hpcosim journal "
HEADER = MAGIC + b"%d\n" % FORMAT
FRAME = struct.Struct("<II")
MAX_RECORD_BYTES = 2**30

BUFFER_BYTES = 2**18  # read at once


class JournalWriter:
    """Appends records to a journal.

    A write that fails closes the journal, never the session: the records up to then stay, and the
    session goes on without a journal. The failure is logged, and `failure` says it.

    Attributes:
        size: size of its records and its header, bytes.
        failure: why the journal was closed before its end; empty: it was not.
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


class OpenedRecord(msgspec.Struct, frozen=True, array_like=True, tag="opened"):
    """The session was opened. The first record of each journal.

    Attributes:
        session: secret name of the session.
        hello: the client's message, as it was received.
        scenario_file: absolute path of the scenario's file; empty: unknown.
        overrides: values that replaced those of the file, of the server and of the client, by
            dotted path.
        checksum: SHA-256 of the scenario, 64 hexadecimal digits; see `checksum_of`.
        realtime: simulated seconds per wall-clock second of a session in real time; None: it is
            not in real time.
        owner: public key of the client; empty: it has none.
    """

    session: str
    hello: bytes
    welcome: bytes
    scenario_file: str
    overrides: dict[str, Any]
    checksum: str
    max_jobs: int
    realtime: float | None = None
    simulated_s: float = math.inf
    owner: bytes = b""


class ExchangeRecord(msgspec.Struct, frozen=True, array_like=True, tag="exchange"):
    """The session carried out decisions.

    Attributes:
        elapsed_s: simulated time that passed before the decisions in a session in real time, s;
            None: `elapsed_s` of the request.
    """

    request: bytes
    reply: bytes
    elapsed_s: float | None = None


class ResumedRecord(msgspec.Struct, frozen=True, array_like=True, tag="resumed"):
    """A client resumed the session and got a snapshot.

    Attributes:
        reply: the encoded `welcome` with the snapshot.
    """

    reply: bytes


class EndedRecord(msgspec.Struct, frozen=True, array_like=True, tag="ended"):
    """The session is over.

    Attributes:
        why: the reason, as in `run.json`.
    """

    why: str
    cause: str


class WrittenRecord(msgspec.Struct, frozen=True, array_like=True, tag="written"):
    """The results of the session are written."""


Record = OpenedRecord | ExchangeRecord | ResumedRecord | EndedRecord | WrittenRecord

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


def framed(record: Record) -> bytes:
    """Return the bytes of a record in a journal."""
    body = _encoder.encode(record)
    return FRAME.pack(len(body), zlib.crc32(body)) + body


class PlacedRecord(NamedTuple):
    """A record and its place."""

    record: Record
    start: int
    end: int


class JournalReader:
    """Reads records.

    Args:
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

    def __iter__(self) -> Iterator[PlacedRecord]:
        """Read the records."""
        while (body := self._body()) is not None:
            try:
                record = _decoder.decode(body)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                self.fault = f"the record at byte {self.end} cannot be decoded: {error}"
                return
            start, self.end = self.end, self.end + FRAME.size + len(body)
            yield PlacedRecord(record, start, self.end)

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
