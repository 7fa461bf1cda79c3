"""Tables for pipes and files, as rich prints them there.

Importing rich and printing one table with it takes 60 ms, a fifth of a run of one job.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TextIO

STYLED = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""Environment variables that make rich treat a file as a terminal."""


def plain_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with a frame; its last column is aligned to the right.

    Args:
        headings: a heading for each column.
        rows: the cells of each row, as many as headings.
    """
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]

    def line(edge: str, cells: Sequence[str]) -> str:
        *texts, last = (f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
        last = last.rstrip().rjust(widths[-1])
        return f"{edge} {f' {edge} '.join((*texts, last))} {edge}\n"

    def rule(left: str, fill: str, between: str, right: str) -> str:
        return f"{left}{between.join(fill * (width + 2) for width in widths)}{right}\n"

    top, below = rule("┏", "━", "┳", "┓"), rule("┡", "━", "╇", "┩")
    body = "".join(line("│", row) for row in rows)
    return f"{top}{line('┃', headings)}{below}{body}{rule('└', '─', '┴', '┘')}"


def is_plain(stream: TextIO, text: str) -> bool:
    """Return whether a stream gets a table as text of Unicode, without colours and markup."""
    if stream.isatty() or any(map(os.environ.get, STYLED)) or "[" in text:
        return False
    return (stream.encoding or "").lower().replace("-", "") == "utf8"
