"""Commands that connect to a server or listen at an address."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcosim_client import Connection
from support.commands import (
    command,
    invoke,
)
from support.processes import Processes, Server, eventually


@pytest.mark.slow
def test_ping_without_a_server_fails() -> None:
    """Without a server, the status is 1 after the timeout."""
    done = invoke("ping", "--connect", "tcp://127.0.0.1:9", "--timeout-s", "0.3")
    assert done.status == 1
    assert "no server answers at tcp://127.0.0.1:9" in done.error


@pytest.mark.slow
def test_ping_of_a_server_succeeds(processes: Processes, tmp_path: Path) -> None:
    """With a server, the status is 0, nothing is printed, and the server goes on."""
    server = Server(processes, tmp_path / "tiny.yaml", out=tmp_path / "out")
    for words in (["--connect"], []):  # the option and the argument
        done = invoke("ping", *words, server.address)
        assert (done.status, done.out, done.err) == (0, "", "")
    assert server.process.poll() is None
    server.process.terminate()
    assert server.end() == 0


@pytest.mark.slow
def test_status_without_a_server_fails() -> None:
    """Without a server, the status is 1 after the timeout."""
    done = invoke("status", "--connect", "tcp://127.0.0.1:9", "--timeout-s", "0.3")
    assert done.status == 1
    assert "no server answers at tcp://127.0.0.1:9" in done.error


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_status_of_a_server_shows_its_sessions(
    processes: Processes, tmp_path: Path, workers: str
) -> None:
    """With a healthy server, the status is 0, and its sessions are in the table and the JSON."""
    server = Server(processes, tmp_path / "tiny.yaml", "--workers", workers, out=tmp_path / "out")
    with Connection(server.address) as connection:
        session = connection.hello(client="mine").session

        def told() -> bool:  # workers tell the front every second
            shown = json.loads(invoke("status", server.address, "--json").out)
            return bool(shown["healthy"] and shown["sessions"])

        eventually(told)
        done = invoke("status", "--connect", server.address)
        assert (done.status, done.err) == (0, "")
        assert session[:8] in done.out
        assert session not in done.out
        assert "mine" in done.out
        assert "1 open of at most 64" in done.out


@pytest.mark.slow
def test_a_named_session_is_summarized_and_found_by_its_name(
    processes: Processes, tmp_path: Path
) -> None:
    """The command prints how it ended; the name is part of that of the results folder."""
    options = ("--sessions", "2")
    server = Server(processes, tmp_path / "tiny.yaml", *options, out=tmp_path / "out")
    plain = invoke("schedule", "easy", "--connect", server.address)
    named = invoke("schedule", "fcfs", "--name", "student 7", "--connect", server.address)
    assert server.end() == 0
    assert plain.out.startswith("easy on tiny: 20 jobs, 20 completed, ")
    first, second = named.out.splitlines()
    assert first.startswith("student 7 on tiny: 20 jobs, 20 completed, ")
    assert " s" in first.partition("mean wait ")[2]
    label = second.removeprefix("session ").partition(";")[0]
    folder = tmp_path / "out" / f"tiny-student_7-{label}"
    described = json.loads((folder / "run.json").read_text())
    assert (described["scheduler"], described["policy"]["name"]) == ("student 7", "fcfs")


@pytest.mark.parametrize("words", ["ping --connect", "status --connect", "schedule fcfs --connect"])
@pytest.mark.parametrize("address", ["nonsense", "", "tcp://", "tcp://127.0.0.1", "carrier://x"])
def test_invalid_address(words: str, address: str) -> None:
    """An address without a known transport, or without a port, is bad input with an example."""
    done = invoke(*words.split(), address)
    assert done.status == 2
    assert repr(address) in done.error
    assert "such as tcp://127.0.0.1:28080" in done.error


@pytest.mark.slow
@pytest.mark.parametrize("address", ["tcp://127.0.0.1", "ipc://" + "x" * 200])
def test_an_address_that_cannot_be_listened_at_is_an_error(address: str) -> None:
    """A server that cannot bind reports its address in one line."""
    done = command("serve", "tiny.yaml", "--bind", address)
    assert done.status == 1
    assert f"cannot listen at {address}" in done.error
