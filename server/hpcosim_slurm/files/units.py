"""Quantities of files as Slurm writes them; their errors are `FieldError`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from hpcosim_slurm.files.errors import FieldError
from hpcosim_workloads.logs import quantities
from hpcosim_workloads.logs.quantities import MB_BY_UNIT, UNLIMITED, Memory, is_unknown, shown

__all__ = [
    "MB_BY_UNIT",
    "UNLIMITED",
    "Memory",
    "count_of",
    "device_counts",
    "duration_s",
    "is_unknown",
    "memory_of",
    "shown",
    "tres_of",
]

Value = TypeVar("Value")


def _of_field(read: Callable[[str], Value]) -> Callable[[str], Value]:
    """Return a reader of `quantities` that raises `FieldError`."""

    @wraps(read)
    def read_field(text: str) -> Value:
        try:
            return read(text)
        except ValueError as error:
            raise FieldError(str(error)) from None

    return read_field


memory_of = _of_field(quantities.memory_of)
duration_s = _of_field(quantities.duration_s)
tres_of = _of_field(quantities.tres_of)
count_of = _of_field(quantities.count_of)
device_counts = _of_field(quantities.device_counts)
