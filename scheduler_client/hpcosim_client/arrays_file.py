"""Files of learned weights: safetensors with float64 arrays and one metadata entry.

Writing needs the extra `rl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcosim_client.arrays import Floats
from hpcosim_client.errors import PolicyError
from hpcosim_client.safetensors_file import read_safetensors

MOST_BYTES = 2_000_000

Shape = tuple[int | None, ...]
"""Sizes of an array; None: any size from 1."""


class ArraysFile(NamedTuple):
    """A kind of file.

    Attributes:
        what: its name in errors, such as `learned timeouts`.
        form: key of the metadata entry, with the version of the format.
        command: the command that writes such files.
        shapes: shape of each array, by its name.
    """

    what: str
    form: str
    command: str
    shapes: Mapping[str, Shape]


def save_arrays(kind: ArraysFile, path: Path, arrays: Mapping[str, Floats], text: str) -> None:
    """Write a file, the same bytes for the same arguments.

    Args:
        kind: kind of the file.
        path: the file.
        arrays: the arrays, by name.
        text: value of the metadata entry.

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
