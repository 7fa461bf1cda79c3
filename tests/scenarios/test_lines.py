"""Lines for a reader that may not read."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from hpcosim_scenarios.running.status import Lines


def lost_line(count: int) -> bytes:
    """Return the line that reports lost lines."""
    return b"lost %d\n" % count


def read_all(descriptor: int) -> bytes:
    """Return what is in a pipe."""
    os.set_blocking(descriptor, False)
    data = b""
    try:
        while piece := os.read(descriptor, 2**16):
            data += piece
    except BlockingIOError:
        pass
    return data


def test_a_full_pipe_loses_lines_and_counts_them(pipe: tuple[int, int]) -> None:
    """A line after the reader has read again says how many are lost; none is cut."""
    lines = Lines(pipe[1], lost_line)
    for number in range(1000):
        lines.write(b"%0999d\n" % number)
    kept = read_all(pipe[0]).splitlines()
    assert [int(line) for line in kept] == list(range(len(kept)))
    lines.write(b"again\n")
    assert read_all(pipe[0]) == b"lost %d\nagain\n" % (1000 - len(kept))


def test_a_line_that_is_written_in_part_is_finished_first(pipe: tuple[int, int]) -> None:
    """A line longer than the pipe does not run into the next one."""
    lines = Lines(pipe[1])
    lines.write(b"x" * 100_000 + b"\n")
    data = read_all(pipe[0])
    assert 0 < len(data) < 100_000
    lines.write(b"next\n")
    lines.write(b"more\n")
    assert data + read_all(pipe[0]) == b"x" * 100_000 + b"\nnext\nmore\n"


def test_a_reader_that_has_gone_is_no_error(pipe: tuple[int, int]) -> None:
    """Lines are lost, and the descriptor of others is not changed."""
    lines = Lines(pipe[1])
    os.close(pipe[0])
    lines.write(b"one\n")
    assert os.get_blocking(pipe[1])


def test_files_sockets_and_closed_descriptors_take_lines(tmp_path: Path) -> None:
    """A file is appended to where its descriptor stands; a closed one takes nothing."""
    with (tmp_path / "log").open("wb", buffering=0) as file:
        file.write(b"before\n")
        Lines(file.fileno()).write(b"after\n")
    assert (tmp_path / "log").read_bytes() == b"before\nafter\n"
    one, other = socket.socketpair()
    with one, other:
        lines = Lines(one.fileno())
        lines.write(b"line\n")
        assert other.recv(100) == b"line\n"
        for _ in range(1000):
            lines.write(bytes(10_000))
    Lines(987_654).write(b"nowhere\n")
