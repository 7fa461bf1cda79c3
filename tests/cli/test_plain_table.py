"""Tables for pipes and files."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table

from hpcosim.cli.printing import STYLED, is_plain, plain_table

CELLS = st.text("abz_ /.,-0189", max_size=9).map(str.strip)


def as_rich_prints_it(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table in a file without colours."""
    table = Table(*headings[:-1])
    table.add_column(headings[-1], justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    stream = io.StringIO()
    Console(file=stream, width=200, force_terminal=False).print(table)
    return stream.getvalue()


@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=4))
def test_a_table_is_the_one_of_rich(rows: list[tuple[str, ...]]) -> None:
    """A plain table has the characters that rich prints to a file."""
    headings = ("metric", "unit", "value")
    assert plain_table(headings, rows) == as_rich_prints_it(headings, rows)


def test_a_terminal_and_markup_need_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colours, other encodings and markup are left to rich."""
    for name in STYLED:
        monkeypatch.delenv(name, raising=False)
    stream = io.TextIOWrapper(io.BytesIO(), "utf-8")
    assert is_plain(stream, "text")
    assert not is_plain(stream, "[red]")
    assert not is_plain(io.TextIOWrapper(io.BytesIO(), "latin-1"), "text")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not is_plain(stream, "text")
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setattr(stream, "isatty", lambda: True)
    assert not is_plain(stream, "text")
