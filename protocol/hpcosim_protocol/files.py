"""Files: those that a user names are regular and of bounded size, and are written as a whole.

A pipe without a writer would make a program wait for ever, and a device such as `/dev/zero` has no
end.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

DRAFT = ".draft-"

MIB = 2**20
MOST_BYTES = 1024 * MIB


def open_regular(path: Path, most_bytes: int = MOST_BYTES) -> io.BufferedReader:
    """Open a regular file for reading.

    Raises:
        OSError: the file cannot be opened, is not a regular file, or is too large.
        ValueError: the path has a null byte.
    """
    if "\0" in str(path):  # with this text for every version of Python
        raise ValueError("embedded null byte")
    # Without O_NONBLOCK, opening a pipe without a writer waits.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        state = os.fstat(descriptor)
        if stat.S_ISDIR(state.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(state.st_mode):
            what = "not a regular file; write its content to a file"
            raise OSError(errno.EINVAL, what, str(path))
        if state.st_size > most_bytes:
            what = f"larger than {most_bytes // MIB} MiB, the maximum"
            raise OSError(errno.EFBIG, what, str(path))
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def open_table(path: Path) -> TextIO:
    """Open a regular file with a CSV table in UTF-8, with or without a byte order mark.

    Raises:
        OSError: see `open_regular`.
        ValueError: the path has a null byte.
    """
    return io.TextIOWrapper(open_regular(path), encoding="utf-8-sig", newline="")


def read_regular(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file; see `open_regular`."""
    with open_regular(path, most_bytes) as file:
        return file.read(most_bytes)


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield the path of a draft, which replaces a file if the `with` block succeeds.

    Others see the old content of the file or the new one.

    Args:
        path: the file; missing folders are created.

    Raises:
        OSError: the file cannot be written; it is as it was before.
    """
    draft = path.with_name(f"{DRAFT}{path.name[:100]}-{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield draft
        draft.replace(path)
    finally:
        with suppress(OSError):
            draft.unlink()
