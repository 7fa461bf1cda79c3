"""The status of a server for the program that started it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpcosim_scenarios.errors import ScenariosError
from hpcosim_scenarios.running.status import StatusReader, writing_to
from hpcosim_server.service.status import Failure, Progress

SERVE = (sys.executable, "-m", "hpcosim.cli", "serve")
LEFT = Failure("client_left", "the client left")


def progress(jobs_over: int) -> Progress:
    """Return the progress of a session."""
    return Progress("abc", "small", "easy", 60.0 * jobs_over, jobs_over, 40)


def test_what_is_told_is_read(pipe: tuple[int, int]) -> None:
    """The last of several progresses is returned, and the first failure is kept."""
    reader, tell = StatusReader(pipe[0]), writing_to(pipe[1])
    for status in (progress(1), progress(2), LEFT, Failure("stopped", "too late")):
        tell(status)
    assert reader.read(0.0) == progress(2)
    assert reader.failure == LEFT
    assert reader.read(0.0) is None
    assert not reader.is_over


def test_a_line_that_comes_in_parts_is_read_once_it_is_whole(pipe: tuple[int, int]) -> None:
    """A part of a line is kept until the rest arrives."""
    reader = StatusReader(pipe[0])
    os.write(pipe[1], b'{"status":"failure","cause":"client_left",')
    assert reader.read(0.0) is None
    os.write(pipe[1], b'"why":"the client left"}\n')
    reader.read(0.0)
    assert reader.failure == LEFT


def test_what_a_dying_server_leaves_unfinished_is_dropped(pipe: tuple[int, int]) -> None:
    """The end of the pipe is reported; an incomplete line is ignored."""
    reader = StatusReader(pipe[0])
    os.write(pipe[1], b'{"status":"failu')
    os.close(pipe[1])
    assert reader.read(60.0) is None
    assert reader.is_over
    assert reader.failure is None


def test_a_server_outlives_its_reader(pipe: tuple[int, int]) -> None:
    """Status is dropped after the reader has closed its end."""
    tell = writing_to(pipe[1])
    os.close(pipe[0])
    with pytest.raises(BrokenPipeError):
        os.write(pipe[1], b"x")
    tell(progress(1))


def test_a_descriptor_that_is_not_open_is_an_error() -> None:
    """The error is raised before the server starts."""
    with pytest.raises(ScenariosError, match="expected an open file descriptor, got 987654"):
        writing_to(987654)


@pytest.mark.slow
def test_a_server_tells_why_it_does_not_start(pipe: tuple[int, int], tmp_path: Path) -> None:
    """`hpcosim serve --set status_fd=N` writes a failure, then exits with its status."""
    (tmp_path / "bad.yaml").write_text("name: bad\n")
    command = [*SERVE, str(tmp_path / "bad.yaml"), "--set", f"status_fd={pipe[1]}"]
    done = subprocess.run(command, pass_fds=pipe[1:], capture_output=True, text=True, check=False)
    reader = StatusReader(pipe[0])
    reader.read(0.0)
    assert done.returncode == 2
    assert reader.failure is not None
    assert reader.failure.cause == "bad_input"
    assert done.stderr == f"error: {reader.failure.why}\n"
