"""JSON files that a user names."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from hpcosim_protocol.files import read_regular
from hpcosim_slurm.starts.errors import ForecastError

Content = TypeVar("Content")


def read_json(path: Path, most_bytes: int, kind: type[Content], wanted: str) -> Content:
    """Return the content of a JSON file.

    Args:
        path: the file.
        most_bytes: maximum size, bytes.
        kind: type of the content.
        wanted: what is expected, for errors.

    Raises:
        OSError: the file cannot be read, is not a regular file, or is too large.
        ForecastError: it has other content.
    """
    try:
        return msgspec.json.decode(read_regular(path, most_bytes), type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ForecastError(f"{path}: {error}; expected {wanted}") from None
