"""The journal of a bridge: records as JSON objects, one a line; their writer and reader."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from hpcosim_protocol import Decisions, Hello
from hpcosim_protocol.files import open_regular
from hpcosim_server import log
from hpcosim_slurm.errors import JournalError
from hpcosim_slurm.worlds.difference import Change
from hpcosim_slurm.worlds.site import Site

FORMAT = 2

MAX_LINE_BYTES = 2**28

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK  # for pipes


class Record(msgspec.Struct, frozen=True, tag_field="record", kw_only=True):
    """Base of the records.

    Attributes:
        at_s: Unix time, s.
    """

    at_s: float


class Began(Record, frozen=True, tag="began", kw_only=True):
    """The journal was begun. The first record of each journal.

    Attributes:
        mode: `shadow`, `hold` or `place`.
    """

    format: int
    hpcosim: str
    mode: str
    site: Site


class Seen(Record, frozen=True, tag="seen", kw_only=True):
    """The cluster changed."""

    change: Change


class Quiet(Record, frozen=True, tag="quiet", kw_only=True):
    """The bridge has looked at the cluster, and nothing had changed for a while."""


class Opened(Record, frozen=True, tag="opened", kw_only=True):
    """A scheduler opened a session."""

    session: str
    hello: Hello


class Asked(Record, frozen=True, tag="asked", kw_only=True):
    """The scheduler decided."""

    request: Decisions


class Replied(Record, frozen=True, tag="replied", kw_only=True):
    """The scheduler got the reply to its last request."""

    seq: int


class CameBack(Record, frozen=True, tag="came_back", kw_only=True):
    """The scheduler resumed its session and got a snapshot."""


class Closed(Record, frozen=True, tag="closed", kw_only=True):
    """The session was closed."""

    why: str


class Refused(Record, frozen=True, tag="refused", kw_only=True):
    """Slurm refused what a decision asked for.

    Attributes:
        index: position of the decision in it.
        words: what Slurm says.
    """

    seq: int
    index: int
    words: str


class FellBack(Record, frozen=True, tag="fell_back", kw_only=True):
    """The bridge stopped acting, and closed the session. From then on its mode is shadow."""

    why: str


AnyRecord = Began | Seen | Quiet | Opened | Asked | Replied | CameBack | Closed | Refused | FellBack

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyRecord] = msgspec.json.Decoder(AnyRecord)


class Journal:
    """Appends records to a file, each before the reply that depends on it is sent.

    A write that fails ends the journal, not the bridge; `failure` says why. What was written stays.
    The open file is locked, so that two bridges never write to one journal.

    Args:
        path: the file; None: nothing is written.
        writer: what it is called in errors.

    Raises:
        JournalError: another bridge writes to the file.
        OSError: the file cannot be opened for writing, or is not a regular file.
    """

    def __init__(self, path: Path | None, writer: str = "bridge") -> None:
        self.failure, self._writer = "", writer
        self._file: int | None = None
        if path is not None:
            self._file = os.open(path, _FLAGS, 0o600)  # it has the secret name of the session
            try:
                if not stat.S_ISREG(os.fstat(self._file).st_mode):
                    what = "not a regular file; name a file for the journal"
                    raise OSError(errno.EINVAL, what, str(path))
                _lock(self._file, path, writer)
                _cut_torn_line(path)
            except BaseException:
                self.close()
                raise

    def append(self, record: msgspec.Struct) -> None:
        """Append a record."""
        if self._file is None:
            return
        line = _encoder.encode(record) + b"\n"
        try:
            while line:
                line = line[os.write(self._file, line) :]
        except OSError as error:
            self.failure = error.strerror or str(error)
            hint = f"the {self._writer} goes on; a report and a restart lack what follows"
            log.error("journal_failed", error=self.failure, hint=hint)
            self.close()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def read(path: Path, warn: Callable[[str], None]) -> Iterator[AnyRecord]:
    """Read the records of a journal. A last line that was cut off is left out.

    A file without a whole line is no journal: it may be any file, named by mistake.

    Raises:
        JournalError: the file is no journal of this format, or is damaged.
        OSError: it cannot be read.
    """
    with open_regular(path, sys.maxsize) as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES):
            number += 1
            if not line.endswith(b"\n"):
                if number == 1:
                    raise JournalError(
                        f"{path}: expected a journal of `hpcosim slurm`; the file has no whole line"
                    )
                warn(f"{path}:{number}: the last record is cut off; it is left out")
                return
            if number == 1:
                _check_format(line, f"{path}:{number}")
            try:
                record = _decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                what = f"expected a record of `hpcosim slurm`: {error}"
                raise JournalError(f"{path}:{number}: {what}") from None
            if (number == 1) != isinstance(record, Began):
                raise JournalError(f"{path}:{number}: expected a journal of `hpcosim slurm`")
            yield record
    if not number:
        raise JournalError(f"{path}: the journal is empty")


class _Head(msgspec.Struct):
    format: int = FORMAT


def _check_format(line: bytes, where: str) -> None:
    try:
        found = msgspec.json.decode(line, type=_Head).format
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return  # the whole record is refused with the place of the mistake
    if found != FORMAT:
        raise JournalError(f"{where}: the journal has the format {found}; expected {FORMAT}")


def _lock(descriptor: int, path: Path, writer: str) -> None:
    """Lock the journal until it is closed; some network file systems have no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise JournalError(
            f"{path}: another {writer} writes to this journal; end it, or name another --journal"
        ) from None
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
            raise


def _cut_torn_line(path: Path) -> None:
    """Remove a last line that was cut off, so that the next record begins a line."""
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        whole = size
        while whole:
            step = min(whole, 2**16)
            file.seek(whole - step)
            at = file.read(step).rfind(b"\n")
            if at >= 0:
                whole += at + 1 - step
                break
            whole -= step
        if whole < size:
            file.truncate(whole)
