"""Lines of plain decimal numbers as an array."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

SPACE, NEW_LINE, POINT, MINUS, DIGIT = 1, 2, 3, 4, 5
Ints = NDArray[np.int64]
KIND_OF = np.zeros(256, np.uint8)
KIND_OF[list(b" \t\r")] = SPACE
KIND_OF[ord("\n")] = NEW_LINE
KIND_OF[ord(".")] = POINT
KIND_OF[ord("-")] = MINUS
KIND_OF[list(b"0123456789")] = DIGIT

MOST_DIGITS = 15
"""Digits of a number whose integer of all digits is exact in 64-bit floating point."""


def plain_numbers(
    lines: Sequence[bytes], fields: int, wanted: Sequence[int], integers: Collection[int]
) -> NDArray[np.float64] | None:
    """Return numbers of lines, or None if a line has another form or other than plain numbers.

    A plain number has up to `MOST_DIGITS` digits, with a minus sign before them or a point between
    or after them.

    Args:
        fields: number of fields of each line, separated by white space.
        wanted: numbers of the fields to read, counted from 1.
        integers: numbers of the fields that have no point.

    Returns:
        float64[lines, wanted], each as `float` reads it.
    """
    text = b"".join(lines)
    if not text.endswith(b"\n"):
        text += b"\n"
    code = np.frombuffer(text, np.uint8)
    kind = KIND_OF[code]
    if not kind.all():
        return None
    inside = kind >= POINT
    edge = np.flatnonzero(inside[1:] != inside[:-1]) + 1
    edges = np.append(0, edge) if inside[0] else edge
    begin, end = edges[::2], edges[1::2]
    new_line = np.flatnonzero(kind == NEW_LINE)
    if len(new_line) != len(lines) or len(begin) != fields * len(lines):
        return None
    if (begin[fields - 1 :: fields] > new_line).any():
        return None
    if (begin[fields::fields] < new_line[:-1]).any():
        return None
    minus, point = np.flatnonzero(kind == MINUS), np.flatnonzero(kind == POINT)
    if (kind[minus - 1] > NEW_LINE).any():  # the text ends with a new line: index -1 is valid
        return None
    if (kind[minus + 1] != DIGIT).any() or (kind[point - 1] != DIGIT).any():
        return None
    of = np.searchsorted(begin, point, "right") - 1  # number with the point
    if (of[1:] == of[:-1]).any() or np.isin(of % fields + 1, [*integers]).any():
        return None
    decimals = np.zeros(len(begin), np.int64)
    decimals[of] = end[of] - point - 1
    points = np.zeros(len(begin), np.int64)
    points[of] = 1
    column = np.array(wanted) - 1
    begin, end, decimals, points = (
        each.reshape(len(lines), fields)[:, column].ravel()
        for each in (begin, end, decimals, points)
    )
    below_0 = kind[begin] == MINUS
    begin += below_0
    length = end - begin
    if (length - points).max() > MOST_DIGITS:
        return None
    return _read(code, begin, length, decimals, below_0).reshape(len(lines), len(wanted))


def _read(
    code: NDArray[np.uint8], begin: Ints, length: Ints, decimals: Ints, below_0: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the numbers with these characters.

    Args:
        begin: index of the first digit.
        length: number of characters.
        decimals: number of digits after the point.
        below_0: whether there is a minus sign.
    """
    digits = np.zeros(len(begin), np.int64)  # all digits, as an integer
    left = np.arange(len(begin))
    for place in range(int(length.max())):
        left = left[length[left] > place]
        digit = code[begin[left] + place].astype(np.int64) - ord("0")
        digits[left] = np.where(digit >= 0, digits[left] * 10 + digit, digits[left])
    numbers = digits.astype(np.float64)
    broken = np.flatnonzero(decimals)
    # Both integers are exact, so the quotient is rounded once: it is the nearest number.
    numbers[broken] /= 10.0 ** decimals[broken]
    numbers[below_0] *= -1.0
    return numbers
