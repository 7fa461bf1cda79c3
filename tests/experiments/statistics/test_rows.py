"""Tables of results."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcosim_experiments.errors import ExperimentError
from hpcosim_experiments.statistics.rows import Row, groups, read_rows, where, write_rows


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    """Strings, integers and floats keep their types."""
    rows: list[Row] = [{"a": "x, y", "b": 3, "c": 1.5}, {"a": "", "b": -1, "c": 1e-9}]
    write_rows(tmp_path / "rows.csv", ("a", "b", "c"), rows)
    assert read_rows(tmp_path / "rows.csv") == rows


def test_a_table_that_lacks_columns_is_an_error(tmp_path: Path) -> None:
    """The message names the file and the missing columns, or the missing file."""
    path = tmp_path / "rows.csv"
    path.write_text("a\n1\n")
    with pytest.raises(
        ExperimentError, match=r"rows.csv: expected the columns a, b; missing: \['b'\]"
    ):
        read_rows(path, ("a", "b"))
    with pytest.raises(ExperimentError, match=r"none.csv: cannot be read: No such file"):
        read_rows(tmp_path / "none.csv")


def test_rows_are_selected_and_grouped() -> None:
    """Rows are selected and grouped by column values and keep their order."""
    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": 1, "b": "y"}]
    assert where(rows, a=1, b="y") == [rows[2]]
    assert groups(rows, "b") == {("x",): [rows[0]], ("y",): [rows[1], rows[2]]}
