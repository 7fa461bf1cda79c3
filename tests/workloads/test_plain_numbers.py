"""Logs read by column equal logs read line by line."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.logs import swf
from hpcosim_workloads.logs.plain_numbers import plain_numbers
from hpcosim_workloads.logs.swf import read_swf
from hpcosim_workloads.table import COLUMNS

PLAIN = st.from_regex(r"-?[0-9]{1,8}(\.[0-9]{0,7})?", fullmatch=True)


@given(st.lists(st.tuples(PLAIN, PLAIN, PLAIN), min_size=1, max_size=8))
def test_plain_numbers_are_those_of_float(rows: list[tuple[str, str, str]]) -> None:
    """Numbers read together have the bits of those that `float` reads."""
    lines = [f" {a}\t{b}  {c}\r\n".encode() for a, b, c in rows]
    found = plain_numbers(lines, 3, [3, 1], ())
    assert found is not None
    expected = [[float(row[2]), float(row[0])] for row in rows]
    assert found.tolist() == expected
    assert [math.copysign(1, each) for each in found.ravel()] == [
        math.copysign(1, each) for row in expected for each in row
    ]


@pytest.mark.parametrize(
    "text",
    [
        "1 2",
        "1 2 3 4",
        "1 2 3 4 5 6\n",
        "1 2 nan",
        "1 2 1e3",
        "1 2 1_0",
        "1 2 +3",
        "1 2 -",
        "1 2 .",
        "1 2 --3",
        "1 2 3-4",
        "1 2 3.4.5",
        "1 2 -.5",
        "1 2 1234567890123456",
        "1.0 2 3",
        "; 2 3",
        "",
    ],
)
def test_other_text_is_not_read_by_column(text: str) -> None:
    """One line that is not plain leaves all lines to the reader of single lines."""
    lines = [b"1 2 3\n", f"{text}\n".encode()]
    assert plain_numbers(lines, 3, [1, 2, 3], [1]) is None


FIELD = st.one_of(
    st.integers(-1, 9).map(str),
    st.integers(-1, 9).map(str),
    st.sampled_from(("0", "-1", "-0", "12.5", "2147483648", "x", "1e2", "007")),
)


@st.composite
def logs(draw: st.DrawFn) -> str:
    """Return lines of which most are jobs."""
    lines = []
    for number in range(draw(st.integers(0, 12))):
        fields = [str(number), *draw(st.lists(FIELD, min_size=17, max_size=17))]
        if draw(st.booleans()):
            fields[1:] = ["-1" if each == "x" else each for each in fields[1:]]
        lines.append(draw(st.sampled_from((" ", "  "))).join(fields))
        if draw(st.integers(0, 9)) == 0:
            lines.append(draw(st.sampled_from(("; comment", "", "1 2 3"))))
    return "\n".join(lines)


@given(text=logs(), lenient=st.booleans(), keeps=st.booleans(), few=st.booleans())
def test_a_log_read_by_column_is_that_read_by_line(
    text: str, lenient: bool, keeps: bool, few: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Columns, rules and messages are the same, whatever the size of the blocks."""
    path = tmp_path_factory.mktemp("log") / "log.swf"
    path.write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        if few:
            patch.setattr("hpcosim_workloads.logs.log_file.BLOCK_BYTES", 80)
        by_column = _read(path, lenient, keeps)
        patch.setattr(swf, "_parse_plain", lambda lines, which: None)
        assert by_column == _read(path, lenient, keeps)


def _read(path: Path, lenient: bool, keeps: bool) -> object:
    """Return the content of a log, or the message of its error."""
    try:
        table = read_swf(path, lenient=lenient, zero_run_time="keep" if keeps else "drop")
    except WorkloadError as error:
        return str(error)
    rules = table.rules
    entries = sorted(
        (rules.names[rule], row, submit_s)
        for rule, row, submit_s in zip(
            rules.rule.tolist(), rules.row.tolist(), rules.submit_s.tolist(), strict=True
        )
    )
    columns = {name: getattr(table, name).tobytes() for name in COLUMNS}
    return columns, table.names, table.profiles, entries
