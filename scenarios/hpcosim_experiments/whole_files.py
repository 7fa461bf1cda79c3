"""Files that are written as a whole or not at all."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hpcosim_experiments.errors import StoreError

DRAFT = ".draft-"
"""Begin of the names of files that are being written."""


def write_whole(path: Path, content: bytes) -> None:
    """Write a file as a whole: others see the old content or the new.

    Args:
        path: the file; missing folders are created.
        content: its content.

    Raises:
        StoreError: the file cannot be written.
    """
    with draft_of(path) as draft:
        draft.write_bytes(content)


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield the path of a draft, which replaces a file if the `with` block succeeds.

    Args:
        path: the file; missing folders are created.

    Raises:
        StoreError: the file cannot be written; it is as it was before.
    """
    draft = path.with_name(f"{DRAFT}{path.name}-{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield draft
        draft.replace(path)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            draft.unlink()
