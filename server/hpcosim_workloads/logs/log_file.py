"""Lines of a plain or gzipped file."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import cast

from hpcosim_protocol.keys import open_regular
from hpcosim_workloads.errors import CutOffError, WorkloadError

MOST_LINE_BYTES = 2**24
MOST_BYTES = 2**36
"""Maximum size of a file after decompression, bytes: more than a hundred million jobs have."""
MOST_LINES_WITHOUT_JOB = 1_000_000
"""Maximum number of empty lines and comments in a file."""
GZIP_MAGIC = b"\x1f\x8b"


def numbered_lines(path: Path, comment: str = "") -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file with their numbers, counted from 1.

    The content decides whether the file is gzipped, not its name. A byte order mark of UTF-8 is
    removed.

    Args:
        path: the file.
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
