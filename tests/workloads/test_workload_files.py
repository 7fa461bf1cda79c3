"""Readers of workloads, rule by rule on short files, and shaping."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_protocol import Placement
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.logs.cqsim import read_cqsim
from hpcosim_workloads.logs.job_lines import read_jsonl
from hpcosim_workloads.logs.swf import SwfFields, read_swf
from hpcosim_workloads.shaping import (
    cap_cores,
    divide_cores,
    scale_load,
    window_by_number,
    window_by_time,
)
from hpcosim_workloads.table import PLACEMENTS, JobSpec, JobTable
from support.simulating import jobs_of


def swf_line(
    job_id: object = 1,
    submit: object = 0,
    run: object = 10,
    allocated: object = 2,
    requested_cores: object = 4,
    requested: object = 20,
) -> str:
    """Return a line of a log; fields that are not read have distinct values."""
    return (
        f"{job_id} {submit} 777 {run} {allocated} 778 -1 {requested_cores} {requested} -1 1 782 "
        "783 784 785 786 787 788\n"
    )


def rows_of(table: JobTable) -> list[tuple[Any, ...]]:
    """Return the first five columns of each row."""
    return [tuple(row)[:5] for row in table.rows()]


@pytest.fixture
def log(tmp_path: Path) -> Callable[..., Path]:
    """Write lines into a log and return its path."""

    def write(*lines: str) -> Path:
        path = tmp_path / "log.swf"
        path.write_text("".join(lines), encoding="latin-1")
        return path

    return write


Log = Callable[..., Path]


# --- SWF --------------------------------------------------------------------------------------


def test_swf_fields(log: Log) -> None:
    """Number, submission, run time, processors and requested time are read from their fields."""
    table = read_swf(log(swf_line(7, 3, 10, 2, 4, 20), swf_line(9, 5.5, 1.25, 1, 1, 2.5)))
    assert rows_of(table) == [(7, 3.0, 10.0, 20.0, 4), (9, 5.5, 1.25, 2.5, 1)]
    assert table.skipped == {}


def test_swf_columns_have_stated_types(log: Log) -> None:
    """Columns have the stated types, also for an empty log."""
    for table in (read_swf(log(swf_line())), read_swf(log(""))):
        types = [str(getattr(table, name).dtype) for name in JobTable.__slots__[:6]]
        assert types == ["int64", "float64", "float64", "float64", "int64", "int8"]


@pytest.mark.parametrize("name", ["log.swf.gz", "log.swf", "log"])
@pytest.mark.parametrize("zipped", [True, False])
def test_swf_gzip_is_detected_by_content(tmp_path: Path, name: str, zipped: bool) -> None:
    """The content decides whether a log is gzipped, not its name."""
    path, content = tmp_path / name, swf_line(7).encode()
    path.write_bytes(gzip.compress(content) if zipped else content)
    assert rows_of(read_swf(path)) == [(7, 0.0, 10.0, 20.0, 4)]


def test_swf_comments(log: Log) -> None:
    """Header lines in Latin-1, comments between jobs and empty lines are ignored."""
    path = log("; Installation: Universität Zürich\n", ";\n", "\n", swf_line(), "  ; x\n", "  \n")
    assert b"\xe4" in path.read_bytes()
    assert len(read_swf(path)) == 1


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_swf_line_ends(log: Log, end: str) -> None:
    """Line ends of any system are read, and the last line may have none."""
    path = log(swf_line(1).rstrip() + (end or "\n"), "\t" + swf_line(2).rstrip() + end)
    assert [row[0] for row in rows_of(read_swf(path))] == [1, 2]


@pytest.mark.parametrize("run", [0, -1, "0.0"])
def test_swf_no_run_time(log: Log, run: object) -> None:
    """A job of run time 0 or unknown run time is dropped and counted."""
    table = read_swf(log(swf_line(1, run=run), swf_line(2)))
    assert [row[0] for row in rows_of(table)] == [2]
    assert table.skipped == {"run_time_unknown_or_zero": 1}


@pytest.mark.parametrize("read", ["swf", "cqsim"])
def test_zero_run_time_kept(log: Log, read: str) -> None:
    """`zero_run_time="keep"` keeps jobs of run time 0 and drops those of unknown run time."""
    if read == "swf":
        path = log(swf_line(1, run=0), swf_line(2, run=-1), swf_line(3, run=0, requested=-1))
        table = read_swf(path, zero_run_time="keep")
    else:
        lines = cqsim_line(1, run=0), cqsim_line(2, run=-1), cqsim_line(3, requested=-1, run=0)
        table = read_cqsim(log(*lines), zero_run_time="keep")
    assert rows_of(table) == [(1, 0.0, 0.0, 20.0, 4), (3, 0.0, 0.0, 0.0, 4)]
    assert table.skipped == {"requested_time_unknown": 1, "run_time_unknown": 1}


@pytest.mark.parametrize(
    ("sizes", "allocated", "requested_cores", "cores"),
    [
        ("requested", 2, 4, 4),
        ("requested", 2, -1, 2),
        ("allocated", 2, 4, 2),
        ("allocated", -1, 4, 4),
        ("allocated", 0, 4, 4),
    ],
)
def test_swf_sizes(
    log: Log,
    sizes: Literal["requested", "allocated"],
    allocated: int,
    requested_cores: int,
    cores: int,
) -> None:
    """`sizes` chooses the field of the cores; the other field is used where that is unknown."""
    table = read_swf(
        log(swf_line(allocated=allocated, requested_cores=requested_cores)),
        fields=SwfFields(sizes=sizes),
    )
    assert table.cores.tolist() == [cores]


@pytest.mark.parametrize(
    ("allocated", "requested_cores", "cores"),
    [(2, 4, 4), (2, -1, 2), (2, 0, 2), (-1, 4, 4), (8, 4, 4)],
)
def test_swf_processors(log: Log, allocated: int, requested_cores: int, cores: int) -> None:
    """Cores are requested processors, or if unknown allocated ones."""
    assert (
        rows_of(read_swf(log(swf_line(allocated=allocated, requested_cores=requested_cores))))[0][4]
        == cores
    )


@pytest.mark.parametrize(("allocated", "requested_cores"), [(-1, -1), (0, -1), (-1, 0)])
def test_swf_no_processors(log: Log, allocated: int, requested_cores: int) -> None:
    """A job without known processors is dropped and counted."""
    table = read_swf(log(swf_line(allocated=allocated, requested_cores=requested_cores)))
    assert len(table) == 0
    assert table.skipped == {"cores_unknown": 1}


def test_swf_no_submission(log: Log) -> None:
    """A job without submission time is dropped and counted, but not as out of order."""
    table = read_swf(log(swf_line(1), swf_line(2, submit=-1)))
    assert [row[0] for row in rows_of(table)] == [1]
    assert table.skipped == {"submit_time_unknown": 1}


@pytest.mark.parametrize("requested", [-1, 0])
def test_swf_no_requested_time(log: Log, requested: int) -> None:
    """An unknown requested time becomes the run time; the job is kept and counted."""
    table = read_swf(log(swf_line(1, run=10, requested=requested), swf_line(2)))
    assert rows_of(table) == [(1, 0.0, 10.0, 10.0, 4), (2, 0.0, 10.0, 20.0, 4)]
    assert table.skipped == {"requested_time_unknown": 1}


def test_swf_request_below_run_time(log: Log) -> None:
    """A job with a requested time below its run time is kept unchanged."""
    assert rows_of(read_swf(log(swf_line(run=30, requested=20))))[0][2:4] == (30.0, 20.0)


def test_swf_unsorted(log: Log) -> None:
    """Jobs are sorted by submission, stably, and each line out of order is counted."""
    submits = [(1, 5), (2, 3), (3, 5), (4, 4), (5, 9), (6, 3)]
    table = read_swf(log(*[swf_line(job_id, submit) for job_id, submit in submits]))
    assert [row[0] for row in rows_of(table)] == [2, 6, 4, 1, 3, 5]
    assert table.skipped == {"out_of_order": 3}


def test_swf_placement(log: Log) -> None:
    """All jobs of a log have the caller's placement."""
    table = read_swf(log(swf_line(1), swf_line(2)), placement="whole_nodes")
    assert [job.placement for job in table.rows()] == ["whole_nodes"] * 2


BROKEN = {
    "too few fields": "1 2 3\n",
    "too many fields": swf_line().rstrip() + " 5\n",
    "no number": swf_line("one"),
    "number with a point": swf_line("1.5"),
    "no time": swf_line(submit="soon"),
    "no run time": swf_line(run="x"),
    "no processors": swf_line(requested_cores="x"),
    "half a processor": swf_line(requested_cores="2.5"),
    "no used processors": swf_line(allocated="x"),
    "no requested time": swf_line(requested="x"),
    "time nan": swf_line(submit="nan"),
    "run time inf": swf_line(run="inf"),
    "requested time inf": swf_line(requested="-inf"),
    "time too late": swf_line(submit="1e16"),
    "negative number": swf_line(-1),
    "number too large": swf_line(2**63),
    "processors too many": swf_line(requested_cores=2**31),
    "digits without end": swf_line("1" * 5000),
    "bytes": "\x00\xff\n",
}


@pytest.mark.parametrize("line", BROKEN.values(), ids=list(BROKEN))
def test_swf_corrupt_line(log: Log, line: str) -> None:
    """The error names file and line; with `lenient` the line is dropped and counted."""
    path = log("; header\n", "\n", swf_line(5), line, swf_line(6))
    with pytest.raises(WorkloadError) as caught:
        read_swf(path)
    assert (caught.value.path, caught.value.line) == (path, 4)
    assert str(caught.value).startswith(f"{path}:4: ")
    table = read_swf(path, lenient=True)
    assert [row[0] for row in rows_of(table)] == [5, 6]
    assert table.skipped == {"corrupt_lines": 1}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("1 2 3\n", "expected 18 fields, got 3"),
        (swf_line(run="x_y"), "field 4 (run time): expected a number, got 'x_y'"),
        (swf_line(submit="1_0"), "field 2 (submission time): expected a number, got '1_0'"),
        (
            swf_line(requested_cores="2.5"),
            "field 8 (requested processors): expected an integer, got '2.5'",
        ),
        (
            swf_line(allocated=2**31),
            f"field 5 (allocated processors): expected at most {2**31 - 1}, got {2**31}",
        ),
        (swf_line(requested="inf"), "requested time: expected a number up to 1e+15 s, got inf"),
    ],
)
def test_swf_corrupt_line_names_the_field(log: Log, line: str, what: str) -> None:
    """The error has the field, its text as in the file, and the option that skips the line."""
    with pytest.raises(WorkloadError) as caught:
        read_swf(log(line))
    assert caught.value.what.startswith(f"{what}; --lenient (workload.lenient: true) skips")


def test_swf_byte_order_mark(tmp_path: Path) -> None:
    """A byte order mark of UTF-8 before the first line is ignored."""
    path = tmp_path / "log.swf"
    path.write_text(swf_line(7) + swf_line(8), encoding="utf-8-sig")
    assert [row[0] for row in rows_of(read_swf(path))] == [7, 8]


def test_swf_corrupt_line_of_a_dropped_job(log: Log) -> None:
    """A corrupt line of a job without run time is an error."""
    with pytest.raises(WorkloadError):
        read_swf(log(swf_line(run=-1, requested_cores="x")))


def test_swf_repeated_number(log: Log) -> None:
    """The error names the line of the second job with a number; dropped jobs do not count."""
    path = log(swf_line(4, run=-1), swf_line(4), swf_line(4, submit=3), swf_line(4, run=-1))
    with pytest.raises(WorkloadError, match="a second job has the number 4") as caught:
        read_swf(path)
    assert (caught.value.path, caught.value.line) == (path, 3)


def test_swf_repeated_number_lenient(log: Log) -> None:
    """With `lenient` the first job in the file is kept."""
    path = log(swf_line(4, submit=9), swf_line(5, submit=9), swf_line(4, submit=9, run=3))
    table = read_swf(path, lenient=True)
    assert rows_of(table) == [(4, 9.0, 10.0, 20.0, 4), (5, 9.0, 10.0, 20.0, 4)]
    assert table.skipped == {"repeated_job_ids": 1}


def test_swf_number_of_a_dropped_job_may_occur_again(log: Log) -> None:
    """The number of a dropped job may occur again."""
    assert len(read_swf(log(swf_line(4, run=-1), swf_line(4)))) == 1


def test_swf_empty(log: Log) -> None:
    """An empty log, or one of comments, has no jobs."""
    assert len(read_swf(log(""))) == 0
    assert len(read_swf(log("; nothing\n"))) == 0


# --- results of CQSim -------------------------------------------------------------------------


def cqsim_line(
    job_id: object = 1,
    procs: object = 4,
    requested: object = 20.0,
    run: object = 10.0,
    submit: object = 0.0,
) -> str:
    """Return a line of a result file; fields that are not read have distinct values."""
    return f"{job_id};{procs};777;{requested};{run};778.0;{submit};779.0;780.0\n"


def test_cqsim_fields(log: Log) -> None:
    """Number, processors, requested time, run time and submission are read."""
    path = log("# a comment\n", cqsim_line(7, 4, 20.0, 10.0, 3.0), "\n", cqsim_line(9, 1, 3, 2, 5))
    table = read_cqsim(path, placement="one_node")
    assert list(table.rows()) == [
        JobSpec(7, 3.0, 10.0, 20.0, 4, "one_node"),
        JobSpec(9, 5.0, 2.0, 3.0, 1, "one_node"),
    ]
    assert table.skipped == {}


def test_cqsim_rules(log: Log) -> None:
    """The rules are those of SWF."""
    path = log(
        cqsim_line(1, submit=9),
        cqsim_line(2, run=0),
        cqsim_line(3, procs=-1),
        cqsim_line(4, submit=-1),
        cqsim_line(5, requested=-1, submit=3),
    )
    table = read_cqsim(path)
    assert rows_of(table) == [(5, 3.0, 10.0, 10.0, 4), (1, 9.0, 10.0, 20.0, 4)]
    assert table.skipped == {
        "run_time_unknown_or_zero": 1,
        "cores_unknown": 1,
        "submit_time_unknown": 1,
        "requested_time_unknown": 1,
        "out_of_order": 1,
    }


BROKEN_CQSIM = {
    "too few fields": "1;2;3\n",
    "too many fields": cqsim_line().rstrip() + ";5\n",
    "blanks instead": cqsim_line().replace(";", " "),
    "no number": cqsim_line("one"),
    "no processors": cqsim_line(procs="x"),
    "half a processor": cqsim_line(procs="2.5"),
    "processors too many": cqsim_line(procs=2**31),
    "no run time": cqsim_line(run="x"),
    "run time nan": cqsim_line(run="nan"),
    "no requested time": cqsim_line(requested=""),
    "time too late": cqsim_line(submit="1e16"),
    "underscores": cqsim_line(run="1_0"),
    "negative number": cqsim_line(-1),
    "a number twice": cqsim_line(5),
    "bytes": "\x00\xff\n",
}


@pytest.mark.parametrize("line", BROKEN_CQSIM.values(), ids=list(BROKEN_CQSIM))
def test_cqsim_corrupt_line(log: Log, line: str) -> None:
    """The error names file and line; with `lenient` the line is dropped."""
    path = log("# header\n", cqsim_line(5), line, cqsim_line(6))
    with pytest.raises(WorkloadError) as caught:
        read_cqsim(path)
    assert str(caught.value).startswith(f"{path}:3: ")
    table = read_cqsim(path, lenient=True)
    assert [row[0] for row in rows_of(table)] == [5, 6]
    assert sum(table.skipped.values()) == 1


# --- JSON lines ---------------------------------------------------------------------------------


@pytest.mark.parametrize("indent", [None, 2])
def test_jsonl_of_a_batsim_workload(tmp_path: Path, indent: int | None) -> None:
    """The error of a Batsim workload names the command that reads it."""
    jobs = [{"id": 1, "subtime": 1, "res": 1, "profile": "d"}]
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps({"nb_res": 1, "jobs": jobs, "profiles": {}}, indent=indent))
    with pytest.raises(WorkloadError, match="one job per line; a Batsim workload runs"):
        read_jsonl(path)


# --- unreadable files, in all formats ---------------------------------------------------------

READERS = pytest.mark.parametrize("read", [read_swf, read_jsonl, read_cqsim])
Reader = Callable[..., JobTable]


@READERS
def test_missing_file(tmp_path: Path, read: Reader) -> None:
    """A missing file is an error that names it, also with `lenient`."""
    for lenient in (False, True):
        with pytest.raises(WorkloadError, match="there is no such file") as caught:
            read(tmp_path / "none", lenient=lenient)
        assert caught.value.path == tmp_path / "none"


@READERS
def test_folder(tmp_path: Path, read: Reader) -> None:
    """A folder is an error that names it."""
    with pytest.raises(WorkloadError) as caught:
        read(tmp_path)
    assert str(tmp_path) in str(caught.value)


def many_lines(read: Reader) -> bytes:
    """Return a file whose gzip data has several blocks."""
    if read is read_swf:
        return "".join(swf_line(i, i * 7919 % 10_007) for i in range(5000)).encode()
    if read is read_cqsim:
        lines = (cqsim_line(i, submit=i * 7919 % 10_007) for i in range(5000))
        return "".join(lines).encode()
    line = '{{"job_id": {}, "submit_s": {}, "cores": 1, "run_s": 1}}\n'
    return "".join(line.format(i, i * 7919 % 10_007) for i in range(5000)).encode()


@READERS
@pytest.mark.parametrize("lenient", [True, False])
def test_truncated_gzip(tmp_path: Path, read: Reader, lenient: bool) -> None:
    """An incomplete gzip file is an error that names the last line, also with `lenient`."""
    path = tmp_path / "log.gz"
    packed = gzip.compress(many_lines(read))
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(WorkloadError) as caught:
        read(path, lenient=lenient)
    assert caught.value.line is not None
    assert caught.value.line < 5000


@READERS
@pytest.mark.parametrize("at", [2, 5000, -6])
def test_altered_gzip(tmp_path: Path, read: Reader, at: int) -> None:
    """A gzip file with altered bytes in its header, middle or checksum is an error."""
    path = tmp_path / "log.gz"
    packed = bytearray(gzip.compress(many_lines(read)))
    packed[at] ^= 0xFF
    path.write_bytes(packed)
    with pytest.raises(WorkloadError):
        read(path)


@READERS
def test_empty_gzip(tmp_path: Path, read: Reader) -> None:
    """A gzipped empty file has no jobs."""
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b""))
    assert len(read(path)) == 0


# --- JSON lines -------------------------------------------------------------------------------


def test_jsonl_fields(log: Log) -> None:
    """Every field is read, in any order and with integers or floats."""
    path = log(
        '{"job_id": 1, "submit_s": 0, "cores": 4, "run_s": 3600, "requested_s": 7200}\n',
        '{"run_s": 1.5, "cores": 1, "submit_s": 2.5, "placement": "one_node", "job_id": 0}\n',
    )
    table = read_jsonl(path)
    assert list(table.rows()) == [
        JobSpec(1, 0.0, 3600.0, 7200.0, 4, "cores"),
        JobSpec(0, 2.5, 1.5, 1.5, 1, "one_node"),
    ]
    assert table.skipped == {}


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_jsonl_placement(log: Log, placement: Placement) -> None:
    """A job without placement has the caller's."""
    line = '{{"job_id": {}, "submit_s": 0, "cores": 1, "run_s": 1{}}}\n'
    path = log(line.format(1, ""), line.format(2, ', "placement": "whole_nodes"'))
    table = read_jsonl(path, placement=placement)
    assert [job.placement for job in table.rows()] == [placement, "whole_nodes"]


def json_line(job_id: int = 1, submit_s: float = 0, **more: object) -> str:
    """Return a JSON line with these fields."""
    fields = {"job_id": job_id, "submit_s": submit_s, "cores": 1, "run_s": 1, **more}
    return "{" + ", ".join(f'"{name}": {value}' for name, value in fields.items()) + "}\n"


def test_jsonl_unsorted(log: Log) -> None:
    """Jobs are sorted by submission, stably."""
    lines = [json_line(*pair) for pair in [(1, 5), (2, 3), (3, 5), (4, 4), (6, 3)]]
    assert [row[0] for row in rows_of(read_jsonl(log(*lines)))] == [2, 6, 4, 1, 3]


def test_jsonl_empty_lines(log: Log) -> None:
    """Empty lines are ignored and count in line numbers."""
    path = log("\n", "  \n", json_line(1), "\n", "x\n")
    with pytest.raises(WorkloadError) as caught:
        read_jsonl(path)
    assert caught.value.line == 5


def test_jsonl_empty(log: Log) -> None:
    """An empty file has no jobs."""
    assert len(read_jsonl(log(""))) == 0


BROKEN_JSON = {
    "no JSON": "x\n",
    "half a line": json_line(2)[:-5] + "\n",
    "no object": "[1, 0, 1, 1]\n",
    "field missing": '{"job_id": 1, "submit_s": 0, "cores": 1}\n',
    "unknown field": json_line(2, colour=1),
    "negative time": json_line(2, -1),
    "late time": json_line(2, 1e16),
    "no run time": json_line(2, run_s=0),
    "run time is text": json_line(2, run_s='"1"'),
    "request of nothing": json_line(2, requested_s=0),
    "no cores": json_line(2, cores=0),
    "half a core": json_line(2, cores=1.5),
    "too many cores": json_line(2, cores=2**31),
    "negative number": json_line(-1),
    "unknown placement": json_line(2, placement='"anywhere"'),
    "NaN": json_line(2, run_s="NaN"),
    "number twice": json_line(5),
    "not UTF-8": json_line(2, placement='"\xe4"'),
}


@pytest.mark.parametrize("line", BROKEN_JSON.values(), ids=list(BROKEN_JSON))
def test_jsonl_corrupt_line(log: Log, line: str) -> None:
    """A corrupt or repeated line is an error; with `lenient` it is dropped and counted.

    Of jobs with one number the first is kept.
    """
    path = log(json_line(5), line, json_line(6, run_s=3))
    with pytest.raises(WorkloadError) as caught:
        read_jsonl(path)
    assert str(caught.value).startswith(f"{path}:2: ")
    table = read_jsonl(path, lenient=True)
    assert [row[0] for row in rows_of(table)] == [5, 6]
    assert table.skipped == {"corrupt_lines": 1}


# --- shaping ----------------------------------------------------------------------------------

TABLE = jobs_of(*[(float(100 + 10 * i), 5.0 + i, 2**i, 50.0) for i in range(5)])


def ids(table: JobTable) -> list[int]:
    """Return the jobs' numbers."""
    return [int(job_id) for job_id in table.job_id]


@pytest.mark.parametrize(
    ("from_s", "to_s", "expected"),
    [
        (100.0, 141.0, [1, 2, 3, 4, 5]),
        (110.0, 130.0, [2, 3]),  # the end is not in it
        (105.0, 111.0, [2]),
        (0.0, 1e9, [1, 2, 3, 4, 5]),
    ],
)
def test_window_by_time(from_s: float, to_s: float, expected: list[int]) -> None:
    """A window has the jobs submitted in [from, to), with the first one at 0."""
    window = window_by_time(TABLE, from_s, to_s)
    assert ids(window) == expected
    assert window.submit_s.tolist() == [10.0 * i for i in range(len(expected))]


def test_window_changes_only_submission_times() -> None:
    """A window changes only submission times, and not the source table."""
    before = [tuple(row) for row in TABLE.rows()]
    window = window_by_time(TABLE, 110.0, 131.0)
    assert [row[2:] for row in window.rows()] == [row[2:] for row in before[1:4]]
    assert [tuple(row) for row in TABLE.rows()] == before


@pytest.mark.parametrize(("first", "last", "expected"), [(0, 2, [1, 2]), (3, 99, [4, 5])])
def test_window_by_number(first: int, last: int, expected: list[int]) -> None:
    """A window by number is a slice in order of submission, with the first job at 0."""
    window = window_by_number(TABLE, first, last)
    assert ids(window) == expected
    assert window.submit_s.tolist() == [0.0, 10.0]


def test_empty_window() -> None:
    """The error of a window without jobs names the window."""
    with pytest.raises(WorkloadError, match=r"from 110\.5 s to 119\.0 s"):
        window_by_time(TABLE, 110.5, 119.0)
    with pytest.raises(WorkloadError, match="5 to 9"):
        window_by_number(TABLE, 5, 9)


@pytest.mark.parametrize(("factor", "step_s"), [(2.0, 5.0), (0.5, 20.0), (1.0, 10.0)])
def test_scale_load(factor: float, step_s: float) -> None:
    """Times between submissions are divided by the factor; nothing else changes."""
    scaled = scale_load(TABLE, factor)
    assert scaled.submit_s.tolist() == [100.0 + step_s * i for i in range(5)]
    assert [row[2:] for row in scaled.rows()] == [row[2:] for row in TABLE.rows()]


def test_scale_load_of_no_jobs() -> None:
    """A workload without jobs can be scaled."""
    assert len(scale_load(TABLE.take(slice(0, 0)), 2.0)) == 0


def test_cap_cores() -> None:
    """Jobs of more cores are reduced, and counted in addition to the reader's counts."""
    capped = cap_cores(with_corrupt_lines(TABLE, [110.0, 110.0, 120.0]), 4)
    assert capped.cores.tolist() == [1, 2, 4, 4, 4]
    assert capped.skipped == {"corrupt_lines": 3, "cores_capped": 2}
    assert TABLE.cores.tolist() == [1, 2, 4, 8, 16]


def test_cap_that_cuts_nothing() -> None:
    """A cap that no job exceeds has no count."""
    assert cap_cores(TABLE, 16).skipped == {}


@pytest.mark.parametrize(
    ("by", "cores"), [(1, [1, 2, 4, 8, 16]), (3, [1, 1, 2, 3, 6]), (99, [1] * 5)]
)
def test_divide_cores(by: int, cores: list[int]) -> None:
    """Cores are divided and rounded up, without a count."""
    divided = divide_cores(TABLE, by)
    assert (divided.cores.tolist(), divided.skipped) == (cores, {})
    assert TABLE.cores.tolist() == [1, 2, 4, 8, 16]


def with_corrupt_lines(table: JobTable, times_s: list[float]) -> JobTable:
    """Return the table of a log that also has corrupt lines at these submission times."""
    rows = np.searchsorted(table.submit_s, times_s, side="right")
    return replace(table, rules=table.rules.plus("corrupt_lines", rows, times_s))


def test_window_by_time_counts_its_own_jobs() -> None:
    """A window by time counts the dropped jobs of its interval."""
    table = with_corrupt_lines(TABLE, [90.0, 105.0, 115.0, 130.0, 131.0, 900.0])
    assert window_by_time(table, 110.0, 131.0).skipped == {"corrupt_lines": 2}
    assert window_by_time(table, 0.0, 1e9).skipped == {"corrupt_lines": 6}


@pytest.mark.parametrize(
    ("first", "last", "count"), [(0, 1, 1), (1, 3, 1), (3, 4, 1), (4, 5, 3), (0, 99, 6)]
)
def test_window_by_number_counts_its_own_jobs(first: int, last: int, count: int) -> None:
    """A dropped job belongs to the window of the next job, or of the last one."""
    table = with_corrupt_lines(TABLE, [90.0, 105.0, 125.0, 130.0, 140.0, 900.0])
    assert window_by_number(table, first, last).skipped == {"corrupt_lines": count}


@given(st.data())
def test_counts_of_consecutive_windows_add_up(data: st.DataObject) -> None:
    """Each dropped or changed job of a log is counted in one of the windows that divide it."""
    lines = data.draw(
        st.lists(st.tuples(st.integers(-1, 9), st.integers(-1, 1), st.integers(-1, 1)), min_size=1)
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.swf"
        rows = [
            swf_line(number, submit, run, requested=requested)
            for number, (submit, run, requested) in enumerate(lines)
        ]
        path.write_text("".join(rows))
        table = read_swf(path)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(lines)), max_size=3)) | {0, len(table)})
    cuts = [cut for cut in cuts if cut <= len(table)]
    counts: Counter[str] = Counter()
    for first, last in pairwise(cuts):
        counts.update(window_by_number(table, first, last).skipped)
    assert counts == (table.skipped if len(table) else {})


def test_window_counts_changed_jobs_by_row() -> None:
    """A changed job counts in the window that has it, also among jobs of the same time."""
    table = cap_cores(jobs_of((5.0, 1.0, 1), (5.0, 1.0, 8), (5.0, 1.0, 1)), 4)
    assert [window_by_number(table, row, row + 1).skipped for row in range(3)] == [
        {},
        {"cores_capped": 1},
        {},
    ]


def test_window_of_a_window_counts_its_own_jobs() -> None:
    """A window by number of a window by time counts the jobs of both."""
    table = with_corrupt_lines(TABLE, [105.0, 115.0, 125.0, 135.0])
    week = window_by_time(table, 110.0, 141.0)
    assert week.skipped == {"corrupt_lines": 3}
    assert window_by_number(week, 1, 2).skipped == {"corrupt_lines": 1}


def test_load_keeps_counts() -> None:
    """Another load does not change the counts."""
    table = with_corrupt_lines(TABLE, [115.0])
    assert scale_load(table, 2.0).skipped == {"corrupt_lines": 1}


def test_empty_window_names_dropped_jobs() -> None:
    """The error of a window without jobs says how many were dropped there, and by which rule."""
    table = with_corrupt_lines(TABLE, [115.0, 116.0, 125.0])
    with pytest.raises(WorkloadError, match="2 by rule corrupt_lines"):
        window_by_time(table, 111.0, 119.0)


def test_rows_past_the_first_block() -> None:
    """Rows are complete and in order beyond the first block."""
    count = 10_000
    table = jobs_of(*[(float(i), 1.0, 1) for i in range(count)])
    table.placement[:] = np.arange(count) % 3
    rows = list(table.rows())
    assert [row.job_id for row in rows] == list(range(1, count + 1))
    assert [row.placement for row in rows] == [PLACEMENTS[i % 3] for i in range(count)]


def test_swf_has_the_user_of_each_job(log: Log) -> None:
    """Fields 12, 13 and 16 of a log are user, group and partition; below 0 means unknown."""
    path = log(swf_line(1), swf_line(2).replace("782", "-1"), swf_line(3).replace("782", "-7"))
    rows = list(read_swf(path).rows())
    assert [row.user for row in rows] == ["782", "", ""]
    assert [(row.group, row.partition) for row in rows] == [("783", "786")] * 3


def test_swf_rejects_a_user_that_is_no_integer(log: Log) -> None:
    """The error for a corrupt user names the line and the field."""
    with pytest.raises(WorkloadError, match=r"log.swf:1: field 12 \(user number\): expected"):
        read_swf(log(swf_line().replace("782", "root")))


def test_json_lines_have_users_and_deadlines(tmp_path: Path) -> None:
    """A line may state its submitter and deadline; without them they are unknown and infinity."""
    path = tmp_path / "jobs.jsonl"
    job = {"submit_s": 5, "cores": 1, "run_s": 1}
    lines = [
        {"job_id": 1, "user": 7, "group": 3, "partition": 0, "deadline_s": 60, **job},
        {"job_id": 2, **job},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    rows = list(read_jsonl(path).rows())
    assert [(row.user, row.deadline_s) for row in rows] == [("7", 60.0), ("", np.inf)]
    assert [(row.group, row.partition) for row in rows] == [("3", "0"), ("", "")]


def test_a_deadline_is_after_the_submission(tmp_path: Path) -> None:
    """A deadline at the submission is an error that says what was expected."""
    path = tmp_path / "jobs.jsonl"
    path.write_text('{"job_id": 1, "submit_s": 5, "cores": 1, "run_s": 1, "deadline_s": 5}')
    with pytest.raises(WorkloadError, match="expected a time after submit_s, 5 s, got 5 s"):
        read_jsonl(path)


@given(
    factor=st.floats(0.1, 10.0),
    slack_s=st.lists(st.floats(1.0, 1e6) | st.just(np.inf), min_size=4, max_size=4),
    first=st.integers(0, 3),
)
def test_deadlines_move_with_submissions(factor: float, slack_s: list[float], first: int) -> None:
    """Windows and load keep the time from a submission to its deadline."""
    table = jobs_of(*[(10.0 * row, 1.0, 1) for row in range(4)])
    table = replace(table, deadline_s=table.submit_s + slack_s)
    moved = scale_load(window_by_number(table, first, 4), factor)
    assert moved.deadline_s - moved.submit_s == pytest.approx(np.array(slack_s[first:]))
