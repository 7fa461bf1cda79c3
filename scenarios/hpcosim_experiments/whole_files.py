"""Files that are written as a whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpcosim_experiments.errors import StoreError
from hpcosim_protocol import files


def write_whole(path: Path, content: bytes) -> None:
    """Write a file as a whole: others see the old content or the new.

    Args:
        path: the file; missing folders are created.

    Raises:
        StoreError: the file cannot be written.
    """
    with draft_of(path) as draft:
        draft.write_bytes(content)


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield a draft as `hpcosim_protocol.files.draft_of` does, with the error of this package.

    Raises:
        StoreError: the file cannot be written; it is as it was before.
    """
    try:
        with files.draft_of(path) as draft:
            yield draft
    except OSError as error:
        raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from None
