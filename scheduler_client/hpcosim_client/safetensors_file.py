"""Reader of the format safetensors, without its library: policies run with NumPy alone.

A file has the length of its header (8 bytes, little-endian), the header in JSON, and the bytes of
the arrays, without gaps (https://github.com/huggingface/safetensors, "Format").
"""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

METADATA = "__metadata__"
LENGTH_BYTES = 8
TYPES = {
    "BOOL": "?",
    "U8": "<u1",
    "I8": "<i1",
    "I32": "<i4",
    "I64": "<i8",
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
}

Size = Annotated[int, Meta(ge=0, le=2**40)]


class _Place(Struct, frozen=True):
    """Type, shape, and the first byte and the end of an array."""

    dtype: str
    shape: Annotated[list[Size], Meta(max_length=32)]
    data_offsets: tuple[Size, Size]


def read_safetensors(path: Path) -> tuple[dict[str, str], Arrays]:
    """Return the metadata and the arrays of a file, by name.

    Args:
        path: a regular file, whose size the caller has bounded.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not of this format, or has an array of a type not in `TYPES`.
    """
    content = path.read_bytes()
    end = LENGTH_BYTES + int.from_bytes(content[:LENGTH_BYTES], "little")
    if not LENGTH_BYTES < end <= len(content):
        raise ValueError("the length of the header exceeds the file")
    try:
        header = msgspec.json.decode(content[LENGTH_BYTES:end], type=dict[str, msgspec.Raw])
        metadata = msgspec.json.decode(header.pop(METADATA, b"{}"), type=dict[str, str])
        places = {name: msgspec.json.decode(raw, type=_Place) for name, raw in header.items()}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"invalid header: {error}") from None
    at, arrays = end, {}
    for name, place in sorted(places.items(), key=lambda each: each[1].data_offsets):
        if place.dtype not in TYPES:
            raise ValueError(f"array {name}: unknown type {place.dtype}")
        kind, count = np.dtype(TYPES[place.dtype]), prod(place.shape)
        first, last = (end + offset for offset in place.data_offsets)
        if first != at or last - first != count * kind.itemsize or last > len(content):
            raise ValueError(f"array {name}: its bytes do not fit its shape or the file")
        arrays[name] = np.frombuffer(content, kind, count, first).reshape(place.shape).copy()
        at = last
    if at != len(content):
        raise ValueError("there are bytes after the last array")
    return metadata, arrays
