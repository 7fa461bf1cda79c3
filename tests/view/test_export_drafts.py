"""Files that appear together, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcosim_view.drafts import Drafts
from hpcosim_view.errors import ExportError, NoRegularFileError, NotWrittenError


def contents(folder: Path) -> dict[str, str]:
    """Return the text of all files below a folder, and its folders."""
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else "folder"
        for path in folder.rglob("*")
    }


def test_files_appear_together(tmp_path: Path) -> None:
    """No file is there before the block ends; then all are, in new folders."""
    with Drafts() as drafts:
        drafts.add(tmp_path / "a" / "b" / "x").write_text("1")
        drafts.add(tmp_path / "y").write_text("2")
        assert not (tmp_path / "y").exists()
    assert contents(tmp_path) == {"a": "folder", "a/b": "folder", "a/b/x": "1", "y": "2"}


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ValueError])
def test_a_block_that_fails_leaves_nothing(tmp_path: Path, stop: type[BaseException]) -> None:
    """Drafts and new folders are removed, and old files are as before."""
    (tmp_path / "y").write_text("old")

    def fail() -> None:
        with Drafts(force=True) as drafts:
            drafts.add(tmp_path / "a" / "x").write_text("1")
            drafts.add(tmp_path / "y").write_text("2")
            raise stop

    with pytest.raises(stop):
        fail()
    assert contents(tmp_path) == {"y": "old"}


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    """The error has the name of the file, not of its draft."""

    def fail() -> None:
        with Drafts() as drafts:
            raise OSError(28, "No space left on device", str(drafts.add(tmp_path / "x")))

    with pytest.raises(NotWrittenError, match=r"/x: cannot be written: No space"):
        fail()
    assert contents(tmp_path) == {}


def test_files_are_replaced_only_by_force(tmp_path: Path) -> None:
    """A file that exists is an error without `force`, and so is a folder of its name."""
    (tmp_path / "x").write_text("old")
    with pytest.raises(ExportError, match="x exists; replace it with --force"), Drafts() as drafts:
        drafts.add(tmp_path / "x")
    with Drafts(force=True) as drafts:
        drafts.add(tmp_path / "x").write_text("new")
    assert contents(tmp_path) == {"x": "new"}
    (tmp_path / "d").mkdir()
    with pytest.raises(NoRegularFileError, match="d is a folder"), Drafts(force=True) as drafts:
        drafts.add(tmp_path / "d")


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    """What is no regular file, such as a device, is never replaced."""
    (tmp_path / "x").write_text("old")
    (tmp_path / "link").symlink_to("x")
    with Drafts(force=True) as drafts:
        drafts.add(tmp_path / "link").write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "x").read_text() == "new"
    (tmp_path / "null").symlink_to("/dev/null")
    with (
        pytest.raises(NoRegularFileError, match="not a regular file"),
        Drafts(force=True) as drafts,
    ):
        drafts.add(tmp_path / "null")


def test_two_outputs_in_one_file_are_an_error(tmp_path: Path) -> None:
    """The second would replace the first."""

    def write() -> None:
        with Drafts() as drafts:
            drafts.add(tmp_path / "x").write_text("1")
            drafts.add(tmp_path / "x")

    with pytest.raises(ExportError, match="is written twice"):
        write()
    assert contents(tmp_path) == {}
