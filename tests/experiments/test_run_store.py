"""The store of the results of runs."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_experiments.errors import StoreError
from hpcosim_experiments.runs.task import RunResult, Simulated
from hpcosim_experiments.store import DRAFT_AGE_S, RunStore
from hpcosim_protocol.files import DRAFT
from support.examples import examples

KEY = "ab" + "0" * 62
RESULT = RunResult(
    key=KEY, status="ok", metrics={"jobs": 3, "mean_wait_s": 0.1}, hpcosim="1", policy_name="easy"
)


@pytest.fixture
def warned() -> list[str]:
    """The warnings of the store."""
    return []


@pytest.fixture
def store(tmp_path: Path, warned: list[str]) -> RunStore:
    """A store in a new folder."""
    return RunStore(tmp_path, warned.append)


def test_a_stored_result_is_read_as_it_was(store: RunStore, warned: list[str]) -> None:
    """Metrics are stored to the last digit."""
    store.write(Simulated(RESULT))
    found = store.read(KEY)
    assert found is not None
    assert (found.metrics, found.policy_name) == (RESULT.metrics, "easy")
    assert store.keys() == {KEY}
    assert store.read("cd" + KEY[2:]) is None
    assert warned == []


def test_a_damaged_file_is_told_and_has_no_result(
    store: RunStore, warned: list[str], tmp_path: Path
) -> None:
    """Every truncation and every changed byte is found."""
    store.write(Simulated(RESULT))
    path = store.path(KEY)
    content = path.read_bytes()
    for size in range(len(content) - 1):  # the last byte ends the line
        path.write_bytes(content[:size])
        assert store.read(KEY) is None
    assert len(warned) == len(content) - 1
    assert warned[0] == f"{path} is damaged or no result of this run; the run is repeated"


@examples(300)
@given(place=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_changed_byte_is_found(
    tmp_path_factory: pytest.TempPathFactory, place: int, byte: int
) -> None:
    """A file with another byte is damaged, unless it has the same result."""
    store = RunStore(tmp_path_factory.mktemp("store"), lambda warning: None)
    store.write(Simulated(RESULT))
    path = store.path(KEY)
    content = bytearray(path.read_bytes())
    before = store.read(KEY)
    content[place % len(content)] = byte
    path.write_bytes(content)
    found = store.read(KEY)
    assert found is None or found.metrics == before.metrics  # type: ignore[union-attr]


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"sha256": "", "result": {}}', b"\xff"])
def test_a_foreign_file_has_no_result(store: RunStore, warned: list[str], content: bytes) -> None:
    """A file that hpcosim has not written is told."""
    store.path(KEY).parent.mkdir(parents=True)
    store.path(KEY).write_bytes(content)
    assert store.read(KEY) is None
    assert len(warned) == 1


def test_a_result_under_another_key_is_not_used(store: RunStore, warned: list[str]) -> None:
    """A renamed file is told."""
    store.write(Simulated(RESULT))
    other = KEY[:-1] + "1"
    store.path(KEY).rename(store.path(other))
    assert store.read(other) is None
    assert len(warned) == 1


def test_a_table_of_jobs_must_be_there_and_whole(store: RunStore, warned: list[str]) -> None:
    """A run whose table of jobs is damaged or missing is repeated, if the tables are wanted."""
    store.write(Simulated(RESULT))
    assert store.read(KEY, jobs=True) is None
    assert warned == []  # it was stored without
    store.write(Simulated(RESULT, b"rows"))
    assert store.read(KEY, jobs=True) is not None
    store.jobs_path(KEY).write_bytes(b"row")
    assert store.read(KEY, jobs=True) is None
    store.jobs_path(KEY).unlink()
    assert store.read(KEY, jobs=True) is None
    assert store.read(KEY) is not None
    assert len(warned) == 2


def test_a_full_disk_is_one_clear_error_and_leaves_no_draft(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The earlier result stays."""
    store.write(Simulated(RESULT))
    before = store.path(KEY).read_bytes()

    def full(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[:5])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StoreError, match="cannot be written: No space left on device"):
        store.write(Simulated(RESULT))
    assert store.path(KEY).read_bytes() == before
    assert [path.name for path in store.path(KEY).parent.iterdir()] == [f"{KEY}.json"]


def test_old_drafts_are_removed(store: RunStore) -> None:
    """Drafts of processes that were killed go; those of running processes stay."""
    store.write(Simulated(RESULT))
    folder = store.path(KEY).parent
    old, new = folder / f"{DRAFT}old", folder / f"{DRAFT}new"
    for path in (old, new):
        path.touch()
    long_ago_s = new.stat().st_mtime - DRAFT_AGE_S - 1
    os.utime(old, (long_ago_s, long_ago_s))
    store.sweep()
    assert not old.exists()
    assert new.exists()


def test_metrics_that_are_no_numbers_are_unknown(store: RunStore) -> None:
    """NaN is stored as null."""
    values: dict[str, Any] = {"x": float("nan")}
    store.write(
        Simulated(RunResult(key=KEY, status="ok", metrics=values, hpcosim="1", policy_name="a"))
    )
    found = store.read(KEY)
    assert found is not None
    assert found.metrics == {"x": None}
