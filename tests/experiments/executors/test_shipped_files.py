"""Input files that travel to other machines."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from hpcosim_experiments.executors import ExecutorError
from hpcosim_experiments.executors.shipped_files import packed, unpacked


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unpack into a folder of the test."""
    folder = tmp_path / "there"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_files_are_unpacked_once(tmp_path: Path) -> None:
    """The second time, the archive is not asked for; the paths are the same."""
    path = tmp_path / "a"
    path.write_bytes(b"\x00text")
    archive = packed([path])
    here = unpacked(archive.digest, archive.folder, lambda: archive.content)
    assert here.local(path).read_bytes() == b"\x00text"
    assert unpacked(archive.digest, archive.folder, lambda: pytest.fail("unpacked twice")) == here


def test_many_processes_unpack_at_once(tmp_path: Path, temporary: Path) -> None:
    """All get the complete files, and nothing else is left."""
    paths = [tmp_path / f"file-{number}" for number in range(20)]
    for path in paths:
        path.write_text(path.name)
    archive = packed(paths)

    def sizes(_: int) -> list[int]:
        here = unpacked(archive.digest, archive.folder, lambda: archive.content)
        return [here.local(path).stat().st_size for path in paths]

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(sizes, range(40)))
    assert found == [[len(path.name) for path in paths]] * 40
    (own,) = temporary.iterdir()
    assert [path.name for path in own.iterdir()] == [archive.digest]


def test_equal_files_are_equal_archives(tmp_path: Path) -> None:
    """The order of the files has no effect; their contents have."""
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("1")
    second.write_text("2")
    archive = packed([first, second])
    assert packed([second, first, second]) == archive
    second.write_text("3")
    assert packed([first, second]).digest != archive.digest


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """The message names the file."""
    with pytest.raises(ExecutorError, match=r"none: cannot read the input file: No such file"):
        packed([tmp_path / "none"])


@pytest.mark.parametrize("name", ["../outside", "a/../../outside", "/outside"])
def test_a_path_that_leaves_the_folder_is_an_error(name: str, temporary: Path) -> None:
    """Nothing is written."""
    content = msgspec.msgpack.encode({name: b"text"})
    with pytest.raises(ExecutorError, match="leaves its folder"):
        unpacked("digest", "/", lambda: content)
    assert not [path for path in temporary.rglob("*") if path.is_file()]


def test_only_the_user_can_read_unpacked_files(tmp_path: Path, temporary: Path) -> None:
    """The folder of the user has no access for others, and is not a link."""
    path = tmp_path / "a"
    path.write_text("1")
    archive = packed([path])
    unpacked(archive.digest, archive.folder, lambda: archive.content)
    (own,) = temporary.iterdir()
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    own.rename(temporary / "other")
    own.symlink_to(temporary / "other")
    with pytest.raises(ExecutorError, match=f"{own}: expected a folder of this user"):
        unpacked("digest", archive.folder, lambda: archive.content)
