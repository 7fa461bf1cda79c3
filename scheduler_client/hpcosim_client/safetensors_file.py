"""Reader of the format safetensors, without its library: policies run with NumPy alone.

A file has the length of its header (8 bytes, little-endian), the header in JSON, and the bytes of
the arrays, without gaps (https://github.com/huggingface/safetensors, "Format").
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from hpcosim_client.arrays import Floats
from hpcosim_client.errors import PolicyError

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


MOST_BYTES = 2_000_000

Shape = tuple[int | None, ...]
"""Sizes of an array; None: any size from 1."""


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


class ArraysFile(NamedTuple):
    """A kind of file.

    Attributes:
        what: its name in errors, such as `learned timeouts`.
        form: key of the metadata entry, with the version of the format.
        shapes: shape of each array, by its name.
    """

    what: str
    form: str
    command: str
    shapes: Mapping[str, Shape]


def save_arrays(kind: ArraysFile, path: Path, arrays: Mapping[str, Floats], text: str) -> None:
    """Write a file, the same bytes for the same arguments.

    Args:
        arrays: the arrays, by name.

    Raises:
        OSError: the file cannot be written.
    """
    from safetensors.numpy import save

    # A single entry, because the library writes several in random order.
    path.write_bytes(save(dict(arrays), {kind.form: text}))


def load_arrays(kind: ArraysFile, path: Path) -> tuple[dict[str, Floats], str]:
    """Return the arrays of a file, by name, and the value of its metadata entry.

    Raises:
        PolicyError: the file cannot be read, is of another kind or size, or a weight is no number.
    """
    if not path.is_file():
        raise PolicyError(f"{path}: cannot be read as {kind.what}: there is no such file")
    if path.stat().st_size > MOST_BYTES:
        raise PolicyError(f"{path}: expected {kind.what} of at most {MOST_BYTES} bytes")
    try:
        said, found = read_safetensors(path)
    except (OSError, ValueError) as error:
        raise PolicyError(f"{path}: cannot be read as {kind.what}: {error}") from None
    if missing := sorted(kind.shapes.keys() - found.keys()):
        raise PolicyError(f"{path}: cannot be read as {kind.what}: there is no array {missing[0]}")
    arrays = {name: found[name] for name in kind.shapes}
    shapes = [array.shape for array in arrays.values()]
    if kind.form not in said or not all(map(_fits, shapes, kind.shapes.values())):
        expected = " and ".join(_text(shape) for shape in kind.shapes.values())
        raise PolicyError(
            f"{path}: expected metadata {kind.form!r} and weights of shape {expected}, got "
            f"{sorted(said)} and {' and '.join(map(str, shapes))}; is it a file of {kind.command}?"
        )
    for each in arrays.values():
        if each.dtype != np.float64 or not np.isfinite(each).all():
            raise PolicyError(f"{path}: expected weights that are finite numbers of type float64")
    return arrays, said[kind.form]


def _fits(found: tuple[int, ...], expected: Shape) -> bool:
    return len(found) == len(expected) and all(
        size >= 1 if wanted is None else size == wanted
        for size, wanted in zip(found, expected, strict=True)
    )


def _text(shape: Shape) -> str:
    return f"({', '.join('any' if size is None else str(size) for size in shape)})"
