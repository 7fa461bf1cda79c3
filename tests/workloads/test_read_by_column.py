"""Lines read by column give the jobs, rules and errors of lines read one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.logs import cqsim, log_file
from hpcosim_workloads.logs.cqsim import read_cqsim
from hpcosim_workloads.logs.job_lines import JobLines, JobProfile, read_jsonl
from hpcosim_workloads.table import COLUMNS, JobTable

NAME = st.one_of(st.none(), st.integers(-1, 3), st.sampled_from(("", "a", "b", "1", "a,b", "x\t")))
PLAIN = st.fixed_dictionaries(
    {
        "job_id": st.one_of(st.integers(0, 200), st.just(2**63 - 1)),
        "submit_s": st.sampled_from((0, 1, 2.5, 2.5, 3)),
        "cores": st.integers(1, 4),
        "run_s": st.sampled_from((1, 2.5)),
    },
    optional={
        "requested_s": st.sampled_from((None, 3, 4.5)),
        "placement": st.sampled_from((None, "one_node", "whole_nodes")),
        "memory_mb": st.sampled_from((None, 0, 100, 0.5)),
        "user": NAME,
        "group": NAME,
        "account": NAME,
        "partition": st.one_of(NAME, st.just("a,")),
        "profile": st.sampled_from(("", "p", "q")),
    },
)
OTHER: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    (
        {"run_s": None},
        {"cores": 0},
        {"unknown": 1},
        {"name": "n"},
        {"deadline_s": 9},
        {"nodes_min": 1},
        {"dependency": "singleton"},
        {"array": "0-2"},
        {"req_ops": 1e9, "run_s": None, "requested_s": 9},
    )
)
ENDS = st.sampled_from(("\n", "\n", "\n", "\n", "\r\n", "\n\n", " \n", "\n \t\n", "", " "))


@st.composite
def job_files(draw: st.DrawFn) -> str:
    """Return lines of which most are jobs."""
    text = draw(st.sampled_from(("", "", "\ufeff", "\n")))
    for number in range(draw(st.integers(0, 8))):
        line: dict[str, Any] = draw(PLAIN)
        if draw(st.integers(0, 3)):
            line["job_id"] = number
        if draw(st.integers(0, 9)) == 0:
            line |= draw(OTHER)
        shown = json.dumps(line)
        if draw(st.integers(0, 19)) == 0:
            shown = draw(
                st.sampled_from((shown.replace(",", ",\n"), shown[:-1], f" {shown}", "{}"))
            )
        text += shown + draw(ENDS)
    return text


def content(table: JobTable) -> object:
    """Return everything in a table, comparable."""
    columns = {name: getattr(table, name).tolist() for name in COLUMNS}
    kinds = {name: getattr(table, name).dtype for name in COLUMNS}
    rules = table.rules
    entries = [rules.names, rules.rule.tolist(), rules.row.tolist(), rules.submit_s.tolist()]
    return columns, kinds, table.profiles, dict(table.names), table.requests, entries


@given(text=job_files(), lenient=st.booleans(), few=st.booleans(), profiles=st.booleans())
def test_job_lines_by_column_are_those_one_by_one(
    text: str,
    lenient: bool,
    few: bool,
    profiles: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Columns, names, rules and messages are the same, whatever the size of the blocks."""
    path = tmp_path_factory.mktemp("jobs") / "jobs.jsonl"
    path.write_text(text, encoding="utf-8", newline="")
    known = {"p": JobProfile(memory_mb=7.0)} if profiles else {}

    def read() -> object:
        try:
            return content(read_jsonl(path, lenient=lenient, profiles=known, placement="one_node"))
        except WorkloadError as error:
            return str(error)

    with pytest.MonkeyPatch.context() as patch:
        if few:
            patch.setattr(log_file, "BLOCK_BYTES", 80)
        by_column = read()
        patch.setattr(JobLines, "add_plain", lambda lines, texts: None)
        assert by_column == read()


def test_plain_job_lines_are_read_by_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them is read alone."""
    path = tmp_path / "jobs.jsonl"
    job = '{"job_id": %d, "submit_s": 5, "cores": 2, "run_s": 3, "user": "a"}\n'
    path.write_text("".join(job % number for number in range(50)))
    monkeypatch.setattr(JobLines, "add", None)
    assert len(read_jsonl(path)) == 50


CELL = st.sampled_from(
    ("0", "1", "2", "7", "12.5", "-1", "", " 3", "x", "1_0", "2147483648", "1e9")
)


@given(
    rows=st.lists(st.lists(CELL, min_size=8, max_size=9), max_size=6),
    end=st.sampled_from(("\n", "\r\n", ";\n", "\r")),
    lenient=st.booleans(),
    plain=st.booleans(),
)
def test_cqsim_lines_by_column_are_those_one_by_one(
    rows: list[list[str]],
    end: str,
    lenient: bool,
    plain: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Columns, rules and messages are the same."""
    path = tmp_path_factory.mktemp("log") / "log.txt"
    if plain:
        end = "\n"
        rows = [[cell if cell[:2].isdigit() else "4" for cell in row] for row in rows]
        rows = [[str(number), "2", "2", *row[:6]] for number, row in enumerate(rows)]
    path.write_text("".join(";".join(row) + end for row in rows), newline="")

    def read() -> object:
        try:
            return content(read_cqsim(path, lenient=lenient))
        except WorkloadError as error:
            return str(error)

    with pytest.MonkeyPatch.context() as patch:
        by_column = read()
        patch.setattr(cqsim, "_parse_plain", lambda lines: None)
        assert by_column == read()


def test_no_line_is_lost_if_reading_fails_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a file on a network; the file is read again from the first line not seen."""
    path = tmp_path / "lines"
    path.write_bytes(b"".join(b"%d\n" % number for number in range(100)))
    by_block = log_file._blocks

    def failing(path: Path, comment: str) -> Iterator[list[bytes]]:
        yield next(by_block(path, comment))
        raise OSError

    monkeypatch.setattr(log_file, "BLOCK_BYTES", 50)
    monkeypatch.setattr(log_file, "_blocks", failing)
    read = [line for lines in log_file.line_blocks(path) for line in lines]
    assert read == [*log_file.numbered_lines(path)]


@given(
    texts=st.lists(st.sampled_from((b"abc", b"", b"  ", b"#x", b"0123456789" * 3, b"\xff\r"))),
    end=st.sampled_from((b"", b"\n")),
    block=st.sampled_from((1, 7, 2**19)),
    limits=st.sampled_from(({}, {"MOST_LINE_BYTES": 20}, {"MOST_BYTES": 30})),
    ignored=st.sampled_from((0, 2, 100)),
)
def test_blocks_have_the_lines_of_the_file(
    texts: list[bytes],
    end: bytes,
    block: int,
    limits: dict[str, int],
    ignored: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """They end with the same line and error."""
    path = tmp_path_factory.mktemp("lines") / "lines"
    path.write_bytes(b"\n".join(texts) + end)

    def read(by_block: bool) -> tuple[list[tuple[int, bytes]], str]:
        found: list[tuple[int, bytes]] = []
        blocks, lines = log_file.line_blocks(path, "#"), log_file.numbered_lines(path, "#")
        try:
            for each in blocks if by_block else ([line] for line in lines):
                found.extend(each)
        except WorkloadError as error:
            return found, str(error)
        return found, ""

    with pytest.MonkeyPatch.context() as patch:
        changed = {**limits, "MOST_LINES_WITHOUT_JOB": ignored, "BLOCK_BYTES": block}
        for name, value in changed.items():
            patch.setattr(log_file, name, value)
        assert read(True) == read(False)
