"""What the real code for results and journals leaves on a disk when the power fails."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest

from hpcosim_server.journal.journal_file import (
    EndedRecord,
    ExchangeRecord,
    JournalReader,
    JournalWriter,
    ResumedRecord,
    SyncPolicy,
    WrittenRecord,
)
from hpcosim_server.journal.store import SYNC_INTERVAL_S, Journals
from hpcosim_sim.record.folder import LAST, Written, WrittenFile, mismatch, write_together
from support.fault.power import PowerRecorder

DRAWS = 12
"""Power failures at each instant."""
OLD = {"jobs.csv": ["old ", "jobs\n"], "nodes.csv": ["old nodes\n"]}
NEW = {"jobs.csv": ["new ", "jobs\n"], "runs.csv": ["new runs\n"]}


@pytest.fixture
def recorder(tmp_path: Path) -> PowerRecorder:
    """Records what happens to an empty disk."""
    root = tmp_path / "disk"
    root.mkdir()
    return PowerRecorder(root)


def states(
    recorder: PowerRecorder, folder: Path, first: int = 0
) -> list[tuple[int, random.Random, Path]]:
    """Return the disk after power failures at each instant: steps before it, and a copy."""
    found = []
    for steps in range(first, len(recorder.steps) + 1):
        for draw in range(DRAWS):
            copy = folder / f"{steps}-{draw}"
            chance = random.Random(f"{steps} {draw}")
            recorder.after(steps, chance, copy)
            found.append((steps, chance, copy))
    return found


def seal(name: str, written: Written) -> str:
    """Return a `run.json`."""
    return json.dumps({"run": name, "files": msgspec.to_builtins(written)})


def sealed_run(folder: Path) -> str:
    """Return which run a results folder has; empty: it has no seal, and so no results."""
    if not (folder / LAST).exists():
        return ""
    about = json.loads((folder / LAST).read_text())
    written = msgspec.convert(about["files"], dict[str, WrittenFile])
    assert mismatch(folder, written, {*OLD, *NEW}) == ""
    return str(about["run"])


def test_results_survive_a_power_failure_whole_or_not_at_all(
    recorder: PowerRecorder, tmp_path: Path
) -> None:
    """A folder with a seal is whole at every instant; one that was written stays."""
    out = recorder.root / "out" / "run"
    with recorder.recording():
        write_together(out, OLD, sealed=partial(seal, "old"))
        first = len(recorder.steps)
        write_together(out, NEW, [*OLD], sealed=partial(seal, "new"))
    found = set()
    for steps, _, disk in states(recorder, tmp_path):
        run = sealed_run(disk / "out" / "run")
        found.add(run)
        if steps == first:
            assert run == "old"
        if steps == len(recorder.steps):
            assert run == "new"
    assert found == {"", "old", "new"}


def write_journal(
    journals: Journals, note: Callable[[], None], tick: Callable[[], None]
) -> JournalWriter:
    """Write a journal, with a tick after each record."""
    writer = journals.create("one")
    assert writer is not None
    for number in range(4):
        writer.append_exchange(ExchangeRecord(b"request %d" % number, b"reply" * 20), number)
        note()
        tick()
    return writer


def records_of(disk: Path) -> tuple[str, list[object]]:
    """Return where a journal is, and its records, as a server that is started again finds them."""
    journals = Journals(disk / "journals")
    for name in journals.open_names():
        return "open", [each.record for each in JournalReader(journals.read(name))]
    for name in journals.ended_names():
        return "ended", [each.record for each in JournalReader(journals.read(name, ended=True))]
    return "", []


@pytest.mark.slow
@pytest.mark.parametrize("sync", ["always", "interval", "never"])
def test_a_journal_loses_no_synchronised_record(
    recorder: PowerRecorder, tmp_path: Path, sync: SyncPolicy
) -> None:
    """`always` loses no record, `interval` none before a tick, and none the end of a session."""
    now_s, safe = [0.0], list[int]()  # number of steps before each record was safe

    def note() -> None:
        if sync == "always":
            safe.append(len(recorder.steps))

    def tick() -> None:
        now_s[0] += 2.0 * SYNC_INTERVAL_S
        journals.tick()
        if sync == "interval":
            safe.append(len(recorder.steps))

    with recorder.recording():
        journals = Journals(recorder.root / "journals", sync, clock=lambda: now_s[0])
        writer = write_journal(journals, note, tick)
        writer.append(EndedRecord("every job is over", ""))
        journals.settle(writer)
        ended = len(recorder.steps)
        writer.append(WrittenRecord())
        journals.finish(writer)
    for steps, _, disk in states(recorder, tmp_path):
        where, records = records_of(disk)
        assert len(records) >= sum(at <= steps for at in safe)
        if steps >= ended:
            assert where
            assert any(isinstance(record, EndedRecord) for record in records)


def test_a_journal_that_was_removed_does_not_come_back(
    recorder: PowerRecorder, tmp_path: Path
) -> None:
    """It would restore a session to a state before its end, whose results are written."""
    with recorder.recording():
        journals = Journals(recorder.root / "journals", "interval")
        writer = write_journal(journals, lambda: None, journals.sync)
        writer.fail("the disk is full")
        journals.finish(writer)
    for _, _, disk in states(recorder, tmp_path, len(recorder.steps)):
        assert records_of(disk) == ("", [])


def test_an_idle_server_has_synchronised_its_journals(
    recorder: PowerRecorder, tmp_path: Path
) -> None:
    """A second after the last request, without another one, nothing is lost."""
    now_s = 0.0
    with recorder.recording():
        journals = Journals(recorder.root / "journals", "interval", clock=lambda: now_s)
        writer = journals.create("one")
        assert writer is not None
        writer.append(ResumedRecord(b"reply"))
        now_s = SYNC_INTERVAL_S
        journals.tick()
    for _, _, disk in states(recorder, tmp_path, len(recorder.steps)):
        assert records_of(disk) == ("open", [ResumedRecord(b"reply")])
