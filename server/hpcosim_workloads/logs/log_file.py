"""Lines of a plain or gzipped job log, and the weekday and hour at which it begins."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from email.utils import parsedate
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import cast

import numpy as np

from hpcosim_protocol.files import open_regular
from hpcosim_workloads.errors import CutOffError, WorkloadError

MOST_LINE_BYTES = 2**24
MOST_BYTES = 2**36
"""Maximum size of a file after decompression, bytes: more than a hundred million jobs have."""
MOST_LINES_WITHOUT_JOB = 1_000_000
"""Maximum number of empty lines and comments in a file."""
BLOCK_BYTES = 2**19
"""Size of the lines that are read together."""
GZIP_MAGIC = b"\x1f\x8b"


DAY_S = 86_400.0
EPOCH = datetime(1970, 1, 1)


NumberedLines = list[tuple[int, bytes]]


def line_blocks(path: Path, comment: str = "") -> Iterator[NumberedLines]:
    """Yield `numbered_lines`, those of about `BLOCK_BYTES` at once."""
    done = 0
    try:
        for texts in _blocks(path, comment):
            yield [*enumerate(texts, done + 1)]
            done += len(texts)
        return
    except (OSError, EOFError, zlib.error, _LimitError):
        pass  # `numbered_lines` names the line, if it fails as well
    lines: NumberedLines = []
    size = 0
    try:
        for numbered in islice(numbered_lines(path, comment), done, None):
            lines.append(numbered)
            size += len(numbered[1])
            if size >= BLOCK_BYTES:
                yield lines
                lines, size = [], 0
    except WorkloadError:
        yield lines  # an error in these lines is the first one
        raise
    yield lines  # the file can be read now


class _LimitError(Exception):
    """A file exceeds a limit."""


def _blocks(path: Path, comment: str) -> Iterator[list[bytes]]:
    """Yield the lines of a file, those of about `BLOCK_BYTES` at once; the last may be none.

    Raises:
        Exception: where `numbered_lines` raises an error, or earlier.
    """
    ignored = (b"", comment.encode())
    may_be_ignored = np.zeros(256, np.bool_)
    may_be_ignored[list(b" \t\n\r\x0b\f" + comment.encode())] = True
    left, without_job, rest, bom = MOST_BYTES, MOST_LINES_WITHOUT_JOB, b"", codecs.BOM_UTF8
    with _opened(path) as file:
        read = True
        while read:
            text = file.read(BLOCK_BYTES)
            left, read = left - len(text), bool(text)
            text, bom = (rest + text).removeprefix(bom), b""
            end = text.rfind(b"\n") + 1 if read else len(text)
            text, rest = text[:end], text[end:]
            lines = io.BytesIO(text).readlines()
            code = np.frombuffer(text, np.uint8)
            first = np.append(0, np.flatnonzero(code[:-1] == ord("\n")) + 1)[: len(lines)]
            if may_be_ignored[code[first]].any():
                without_job -= sum(line.lstrip()[:1] in ignored for line in lines)
            longest = max(map(len, (*lines, rest)))
            if longest > MOST_LINE_BYTES or left < 0 or without_job < 0:
                raise _LimitError
            if lines or not read:
                yield lines


def numbered_lines(path: Path, comment: str = "") -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file with their numbers, counted from 1.

    The content decides whether the file is gzipped, not its name. A byte order mark of UTF-8 is
    removed.

    Args:
        comment: first character of the lines to ignore, which are bounded; empty: there are none.

    Raises:
        CutOffError: a gzipped file ends early; names the last line that was read.
        WorkloadError: the file cannot be read; names the last line that was read.
    """
    number = 0
    ignored = (b"", comment.encode())
    try:
        with _opened(path) as file:
            left, without_job = MOST_BYTES, MOST_LINES_WITHOUT_JOB
            lines = iter(partial(file.readline, MOST_LINE_BYTES + 1), b"")
            for number, line in enumerate(lines, start=1):
                left -= len(line)
                if len(line) > MOST_LINE_BYTES or left < 0:
                    raise _too_large(path, number, line)
                if line.lstrip()[:1] in ignored:
                    without_job -= 1
                    if without_job < 0:
                        what = f"expected at most {MOST_LINES_WITHOUT_JOB} empty lines and comments"
                        raise WorkloadError(what, path, number)
                yield number, line if number > 1 else line.removeprefix(codecs.BOM_UTF8)
    except (OSError, EOFError, zlib.error) as error:
        what = f"cannot be read further: {_plain(error)}"
        kind = CutOffError if isinstance(error, EOFError) else WorkloadError
        raise kind(what, path, number or None) from None


def _too_large(path: Path, number: int, line: bytes) -> WorkloadError:
    if len(line) > MOST_LINE_BYTES:
        what = f"expected lines of at most {MOST_LINE_BYTES} bytes"
    else:
        what = f"expected at most {MOST_BYTES} bytes in all"
    return WorkloadError(what, path, number)


def _opened(path: Path) -> io.BufferedIOBase:
    try:
        with open_regular(path, MOST_BYTES) as file:
            zipped = file.read(2) == GZIP_MAGIC
    except FileNotFoundError:
        raise WorkloadError("there is no such file", path) from None
    except (OSError, ValueError) as error:
        raise WorkloadError(f"cannot be opened: {_plain(error)}", path) from None
    if not zipped:
        return path.open("rb")
    # BufferedReader splits lines in C, GzipFile in Python.
    return io.BufferedReader(cast("io.RawIOBase", gzip.open(path, "rb")), 2**13)


def _plain(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def log_start_s(path: Path) -> float | None:
    """Return local time at time 0 of an SWF log, in seconds after Monday 00:00.

    Source: SWF 2.2, header comments. `StartTime` is local time and has priority. Otherwise the
    result is `UnixStartTime` plus `TimeZone` seconds (default 0). `TimeZoneString` is ignored,
    because its meaning depends on the machine. Changes to and from summer time within the log are
    ignored.

    Args:
        path: the log, plain or gzipped; only the lines before the first job are read.

    Returns:
        Seconds in [0, 604800); None: the header has no valid start time.

    Raises:
        WorkloadError: the file cannot be read.
    """
    lines = (raw.decode("latin-1").strip() for _, raw in numbered_lines(path, ";"))
    header: dict[str, str] = {}  # the first value of each label
    for line in takewhile(lambda line: not line or line.startswith(";"), lines):
        label, _, value = line.lstrip("; \t").partition(":")
        header.setdefault(label.strip(), value.strip())
    try:
        # The form is that of a mail's date: "Fri Oct 01 00:00:03 PDT 1993".
        if (read := parsedate(header.get("StartTime", ""))) is not None:
            start = datetime(*read[:6])
        elif "UnixStartTime" in header:
            since_s = int(header["UnixStartTime"]) + int(header.get("TimeZone", "0"))
            start = EPOCH + timedelta(seconds=since_s)
        else:
            return None
    except (ValueError, OverflowError):  # the date does not exist or is out of range
        return None
    return start.weekday() * DAY_S + start.hour * 3600.0 + start.minute * 60.0 + start.second
