"""Parquet tables of a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from hpcosim_view.errors import ExportError
from hpcosim_view.export.parquet import TABLES, write_parquet
from support.frames_by_hand import HOSTILE, NOW_S, WATTS, small_run

pq: Any = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, Any]:
    """Return the tables of the run by hand, by file name."""
    files = {name: tmp_path / name for name in TABLES}
    write_parquet(small_run(), files)
    return {name: pq.read_table(path) for name, path in files.items()}


def test_jobs_have_typed_columns_with_units(tables: dict[str, Any]) -> None:
    """Numbers are numbers, nodes are lists, and the metadata states units and meanings."""
    schema = tables["jobs.parquet"].schema
    types = {name: str(schema.field(name).type) for name in schema.names}
    assert types["job_id"] == "int64"
    assert types["wait_s"] == "double"
    assert types["nodes"].startswith("list<")
    assert types["user"].startswith("dictionary<values=string")
    assert schema.field("energy_j").metadata[b"unit"] == b"J"
    assert all(schema.field(name).metadata[b"meaning"] for name in schema.names)
    assert schema.metadata[b"scheduler"] == b"easy"


def test_jobs_have_the_values_of_the_run(tables: dict[str, Any]) -> None:
    """What is unknown is null, and hostile names are values."""
    rows = {row["job_id"]: row for row in tables["jobs.parquet"].to_pylist()}
    assert list(rows) == [1, 2, 3, 4, 5, 6]
    assert rows[2]["user"] == HOSTILE
    wanted = {
        "submit_s": 20.0,
        "start_s": 70.0,
        "end_s": 100.0,
        "wait_s": 50.0,
        "requested_s": 30.0,
        "state": "killed",
        "cores": 2,
        "cores_held": 2,
        "nodes": [2],
        "placement": "cores",
        "user": None,
        "group": None,
        "partition": None,
        "energy_j": 100.0,
        "job_id": 4,
    }
    assert rows[4] == wanted
    assert rows[1]["nodes"] == [0, 1]
    never = [rows[6][name] for name in ("start_s", "end_s", "wait_s", "requested_s", "nodes")]
    assert never == [None] * 5


def test_nodes_have_a_row_for_each_period(tables: dict[str, Any]) -> None:
    """The periods of a node cover the run and have the states of the energy accounting."""
    rows = tables["nodes.parquet"].to_pylist()
    of_2 = sorted((row["start_s"], row["end_s"], row["state"]) for row in rows if row["node"] == 2)
    assert of_2 == [
        (0.0, 30.0, "idle"),
        (30.0, 40.0, "switching_off"),
        (40.0, 60.0, "sleeping"),
        (60.0, 70.0, "switching_on"),
        (70.0, 100.0, "computing"),
        (100.0, NOW_S, "idle"),
    ]
    computing = sorted(
        (row["node"], row["start_s"], row["end_s"]) for row in rows if row["state"] == "computing"
    )
    assert computing == [(0, 5.0, 70.0), (1, 5.0, 70.0), (2, 70.0, 100.0)]


def test_power_and_explanations_are_tables(tables: dict[str, Any]) -> None:
    """Both have the rows of the run in chronological order."""
    power = tables["power.parquet"].to_pylist()
    assert [(row["time_s"], row["state"], row["power_w"]) for row in power] == WATTS
    assert tables["explanations.parquet"].to_pylist() == [
        {"job_id": 4, "time_s": 20.0, "reason": "Priority", "expected_start_s": None},
        {"job_id": 4, "time_s": 25.0, "reason": "Resources", "expected_start_s": 65.0},
        {"job_id": 6, "time_s": 25.0, "reason": "Priority", "expected_start_s": 120.0},
    ]


def test_tables_are_reproducible(tmp_path: Path) -> None:
    """The same run gives the same bytes."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write_parquet(small_run(), {name: tmp_path / folder / name for name in TABLES})
    for name in TABLES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_missing_package_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has the command that installs it."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ExportError, match=r"needs the package pyarrow: pip install 'hpcosim\["):
        write_parquet(small_run(), {name: tmp_path / name for name in TABLES})
