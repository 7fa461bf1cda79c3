"""Columns, durations and node lists as Slurm prints them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from hpcosim_protocol.hosts import compress, expand
from hpcosim_view.run.frame import Frame
from hpcosim_view.runs import printable

DAY_S, HOUR_S, MINUTE_S = 86_400, 3_600, 60


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        title: title.
        width: number of characters; 0: as long as the text. Longer texts are cut off.
        left: whether texts begin at the left edge.
        whole: whether longer texts widen the column instead: a part of a number is another number.
    """

    title: str
    width: int
    left: bool = False
    whole: bool = False


def lines(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table, titles first."""
    table = [[column.title for column in columns], *rows]
    sized = []
    for number, column in enumerate(columns):
        widest = max(cell_len(row[number]) for row in table)
        width = max(column.width, widest) if column.whole else column.width
        sized.append(column._replace(width=width))
    return [
        " ".join(_cell(*each) for each in zip(sized, row, strict=True)).rstrip() for row in table
    ]


def word(text: str) -> str:
    """Return text as one word, so that programs can split a line; `-`: it is empty."""
    return printable("-".join(text.split())) or "-"


def duration(seconds: float) -> str:
    """Return a duration as `M:SS`, `H:MM:SS` or `D-HH:MM:SS`; `N/A`: it is not known."""
    if not math.isfinite(seconds):
        return "N/A"
    minutes, second = divmod(int(max(seconds, 0)), MINUTE_S)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02}:{minute:02}:{second:02}"
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


def node_list(intervals: Iterable[tuple[int, int]], names: Sequence[str] = ()) -> str:
    """Return nodes as `node7` or `node[0-3,7]`; empty: there are none.

    Args:
        intervals: first and last node of each interval, ascending.
        names: name of each node; empty: the nodes have none.
    """
    if names:
        named = (name for first, last in intervals for name in names[first : last + 1])
        return printable(compress(named))
    parts = [f"{first}-{last}" if last > first else f"{first}" for first, last in intervals]
    if len(parts) == 1 and "-" not in parts[0]:
        return f"node{parts[0]}"
    return f"node[{','.join(parts)}]" if parts else ""


def node_names(frame: Frame) -> Sequence[str]:
    """Return the names of the nodes of a run; empty: they have none."""
    text = frame.about.get("node_names")
    return expand(text) if text else ()


def intervals_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return ascending numbers as intervals."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def _cell(column: Column, text: str) -> str:
    if not column.width:
        return text
    size = min(cell_len(text), column.width)
    shown, blank = set_cell_size(text, size), " " * (column.width - size)
    return shown + blank if column.left else blank + shown
