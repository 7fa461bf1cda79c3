"""The file of a bridge's journal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcosim_slurm.bridge.run import began_now, course_of
from hpcosim_slurm.errors import JournalError
from hpcosim_slurm.journal import Journal, read
from hpcosim_slurm.worlds.cluster_copy import ShadowWorld
from hpcosim_slurm.worlds.site import Site
from support.commands import invoke


def test_a_file_without_a_whole_line_is_left_as_it_is(tmp_path: Path) -> None:
    """It may be any file, named by mistake; a cut journal of one record cannot be continued."""
    path = tmp_path / "notes"
    path.write_text("important")
    with pytest.raises(JournalError, match="has no whole line"):
        course_of(path, began_now(Site(), "shadow", "test", 0.0), ShadowWorld, lambda _: None)
    assert path.read_text() == "important"


def test_a_report_of_such_a_file_is_an_error_of_one_line(tmp_path: Path) -> None:
    """And leaves no folder."""
    path = tmp_path / "notes"
    path.write_text("important")
    found = invoke("slurm", "report", path, "--out", tmp_path / "out")
    assert found.status == 2
    assert found.err.startswith(f"error: {path}: expected a journal of `hpcosim slurm`")
    assert found.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_pipe_is_no_journal(tmp_path: Path) -> None:
    """Neither reading nor writing waits for its other end."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(OSError, match="not a regular file"):
        list(read(path, lambda _: None))
    with pytest.raises(OSError, match="No such device"):
        Journal(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(OSError, match="not a regular file"):
        Journal(path)
    os.close(reader)
