"""Many sets of nodes at once: their texts, and portions that bound memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.integer]


class Texts(dict[int, str]):
    """The texts of integers, each made once."""

    def __missing__(self, number: int) -> str:
        self[number] = text = str(number)
        return text


def intervals_of_sets(
    numbers: Ints, first: NDArray[np.int64], texts: Mapping[int, str]
) -> list[str]:
    """Return sets of integers as intervals, such as `0-3 7`; see `table_rows.intervals`.

    Args:
        numbers: the numbers of all sets, one set after the other, ascending in each.
        first: int64[sets], index of the first number of each set.
        texts: the text of each number.
    """
    begins = np.append(True, numbers[1:] != numbers[:-1] + 1)[: len(numbers)]
    begins[first[first < len(numbers)]] = True
    begin = np.flatnonzero(begins)
    end = np.append(begin[1:], len(numbers))[: len(begin)] - 1
    parts = [
        texts[a] if a == b else f"{texts[a]}-{texts[b]}"
        for a, b in zip(numbers[begin].tolist(), numbers[end].tolist(), strict=True)
    ]
    return joined(parts, np.searchsorted(begin, first))


def joined(parts: list[str], first: NDArray[np.int64]) -> list[str]:
    """Return the parts of each set, separated by spaces.

    Args:
        parts: the parts of all sets, one set after the other.
        first: int64[sets], index of the first part of each set.
    """
    if len(parts) == len(first) and (np.diff(first) == 1).all():
        return parts  # each set has one part
    bounds = [*first.tolist(), len(parts)]
    return [
        parts[begin] if end - begin == 1 else " ".join(parts[begin:end])
        for begin, end in pairwise(bounds)
    ]


def portions(
    sizes: NDArray[np.integer] | NDArray[np.float64], most: int, largest: int
) -> Iterator[tuple[int, int]]:
    """Yield the first set of each portion of consecutive sets and the one after its last.

    Args:
        sizes: [sets], number of elements of each set.
        most: maximum number of sets in a portion.
        largest: maximum number of elements in a portion of more than one set.
    """
    first, ends = 0, np.cumsum(sizes)
    while first < len(ends):
        done = ends[first - 1] if first else 0
        last = int(np.searchsorted(ends, done + largest, "right"))
        last = max(first + 1, min(last, first + most))
        yield first, last
        first = last
