"""The files of journals: framing, cuts, damage, full disks, locks."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

import pytest

from hpcosim_server.errors import JournalError
from hpcosim_server.journal.journal_file import (
    FRAME,
    HEADER,
    MAGIC,
    ExchangeRecord,
    JournalReader,
    JournalWriter,
    ResumedRecord,
    SyncPolicy,
    WrittenRecord,
    framed,
)
from hpcosim_server.journal.storage import Disk, open_to_read
from hpcosim_server.journal.store import SUFFIX, SYNC_INTERVAL_S, Journals
from support.logs import captured_log
from support.memory_disk import MemoryDisk, MemoryFile

RECORDS = (
    ExchangeRecord(b"request", b"a reply"),
    ResumedRecord(b"welcome" * 50),
    ExchangeRecord(b"", b""),
    WrittenRecord(),
)


def file_of(content: bytes) -> MemoryFile:
    """Return a file with a content."""
    return MemoryFile(MemoryDisk(), bytearray(content))


def content_of(*records: ExchangeRecord | ResumedRecord | WrittenRecord) -> bytes:
    """Return the bytes of a journal."""
    return HEADER + b"".join(map(framed, records))


def test_records_are_read_as_they_were_written() -> None:
    """A reader returns the records of a writer, and says where each begins and ends."""
    file = file_of(b"")
    writer = JournalWriter(file, "j", "never")
    for record in RECORDS:
        writer.append(record)
    reader = JournalReader(file)
    placed = list(reader)
    assert tuple(each.record for each in placed) == RECORDS
    assert bytes(file.content) == content_of(*RECORDS)
    assert [each.start for each in placed] == [len(HEADER), *(each.end for each in placed[:-1])]
    assert (reader.end, reader.fault) == (file.size(), "") == (writer.size, "")


def test_a_journal_cut_at_any_byte_is_read_up_to_the_cut() -> None:
    """Every prefix of a journal gives the whole records in it, and only a real cut is a fault."""
    content = content_of(*RECORDS)
    ends = [len(content_of(*RECORDS[:n])) for n in range(len(RECORDS) + 1)]
    for size in range(len(content)):
        reader = JournalReader(file_of(content[:size]))
        whole = sum(end <= size for end in ends[1:])
        assert tuple(each.record for each in reader) == RECORDS[:whole]
        assert reader.is_cut is (size not in ends)
        assert bool(reader.fault) is (size not in ends)


def test_a_changed_byte_stops_the_reader_there() -> None:
    """A changed bit in any record is noticed, and the records before it are read."""
    content = content_of(*RECORDS)
    begin, end = len(content_of(RECORDS[0])), len(content_of(*RECORDS[:2]))
    for place in range(begin, end):
        changed = bytearray(content)
        changed[place] ^= 0x10
        reader = JournalReader(file_of(bytes(changed)))
        assert [each.record for each in reader] == [RECORDS[0]]
        assert f"byte {begin}" in reader.fault


def test_a_huge_length_reads_nothing() -> None:
    """A record that claims more bytes than the file has is a cut; beyond the limit it is damage."""
    for length, cut in ((2**29, True), (2**32 - 1, False)):
        reader = JournalReader(file_of(HEADER + FRAME.pack(length, 0) + b"x"))
        assert (list(reader), reader.is_cut) == ([], cut)
        assert reader.fault


@pytest.mark.parametrize("content", [b"jobs.csv,1,2", MAGIC + b"9\n" + framed(WrittenRecord())])
def test_other_files_are_refused(content: bytes) -> None:
    """A file that is no journal, or of another format, is an error that says so."""
    with pytest.raises(JournalError, match="expected a journal"):
        JournalReader(file_of(content))


@pytest.mark.parametrize(("name", "what"), [("", "got a folder"), ("none", "No such file")])
def test_what_is_no_file_is_refused(tmp_path: Path, name: str, what: str) -> None:
    """A folder, as of results, and a missing file are errors that say so."""
    with pytest.raises(JournalError, match=what):
        open_to_read(tmp_path / name)


def test_a_full_disk_closes_the_journal_and_keeps_its_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A write that fails ends the journal after its last whole record, with one log line."""
    disk = MemoryDisk()
    file = MemoryFile(disk, bytearray())
    writer = JournalWriter(file, "j", "never")
    writer.append(RECORDS[0])
    disk.room = 20
    with captured_log() as events:
        for _ in range(3):
            writer.append(RECORDS[1])
    assert bytes(file.content) == content_of(RECORDS[0])
    assert writer.failure == "No space left on device"
    assert [event["event"] for event in events] == ["journal_failed"]


def test_a_failed_synchronisation_closes_the_journal() -> None:
    """After an error of fsync nobody knows what is on the disk: the journal is closed."""
    disk = MemoryDisk()
    writer = JournalWriter(MemoryFile(disk, bytearray()), "j", "always")
    disk.sync_fails = True
    writer.append(RECORDS[0])
    assert writer.failure == "Input/output error"


@pytest.mark.parametrize(("sync", "syncs"), [("always", 9), ("interval", 2), ("never", 0)])
def test_sync_policies(sync: SyncPolicy, syncs: int) -> None:
    """`always` syncs header and each record, `interval` once an interval, `never` not at all."""
    disk = MemoryDisk()
    now_s = 0.0
    journals = Journals(Path("/j"), sync, disk, lambda: now_s)
    writer = journals.create("a")
    assert writer is not None
    for _ in range(8):
        writer.append(RECORDS[0])
        now_s += SYNC_INTERVAL_S / 4
        journals.tick()
    assert disk.syncs == syncs


def test_only_the_owner_can_read_journals(tmp_path: Path) -> None:
    """A journal has the secret name of its session: mode 0600 in folders of mode 0700."""
    journals = Journals(tmp_path / "deep" / "journals")
    journals.create("a")
    folder = tmp_path / "deep" / "journals"
    modes = {each: stat.S_IMODE(each.stat().st_mode) for each in (folder, *folder.rglob("*"))}
    assert all(mode == (0o700 if each.is_dir() else 0o600) for each, mode in modes.items())
    assert (folder / "open" / f"a{SUFFIX}") in modes


def test_a_new_folder_above_the_journals_has_the_usual_permissions(tmp_path: Path) -> None:
    """Results lie there, which others may read."""
    Journals(tmp_path / "out" / ".journal")
    (tmp_path / "usual").mkdir()
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_two_servers_cannot_use_one_folder(tmp_path: Path) -> None:
    """A second server is refused as long as the first one runs."""
    first = Journals(tmp_path)
    with pytest.raises(
        JournalError, match=r"another server keeps its journals here.*journal.folder"
    ):
        Journals(tmp_path, storage=Disk(lock_timeout_s=0.1))
    assert first.open_names() == []


def test_a_journal_is_no_folder_of_journals(tmp_path: Path) -> None:
    """A journal in place of the folder is named, with the command that reads one journal."""
    path = tmp_path / "a.journal"
    path.touch()
    with pytest.raises(JournalError, match=r"a\.journal: expected a folder .*`hpcosim replay"):
        Journals(path)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    """A file in the place of the folder above is named."""
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="journals cannot be kept here: Not a directory"):
        Journals(tmp_path / "file" / "journals")


def test_a_finished_journal_is_moved(tmp_path: Path) -> None:
    """The journal of a session whose results are written goes to the ended ones, whole."""
    journals = Journals(tmp_path)
    writer = journals.create("a")
    assert writer is not None
    writer.append(RECORDS[0])
    journals.finish(writer)
    assert (journals.open_names(), journals.ended_names()) == ([], ["a"])
    file = journals.read("a", ended=True)
    assert [each.record for each in JournalReader(file)] == [RECORDS[0]]
    file.close()


def test_a_write_in_parts_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the operating system takes only in part is written in several calls."""
    import os

    write = os.write
    disk = Disk()
    file = disk.create(tmp_path / "a")
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:7]))
    file.append(b"twenty bytes of text")
    assert file.read(0, 100) == b"twenty bytes of text"
    file.close()
    with pytest.raises(OSError, match="File exists") as error:
        disk.create(tmp_path / "a")
    assert error.value.errno == errno.EEXIST
