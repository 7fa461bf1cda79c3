"""The commands of a server with keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.commands import command, invoke
from support.processes import Processes, Server


@pytest.mark.slow
def test_commands_with_keys(processes: Processes, tmp_path: Path) -> None:
    """`ping` and `schedule` reach a server with keys only with their own keys."""
    done = invoke("keygen", str(tmp_path / "keys"))
    assert done.status == 0
    assert len(done.out.splitlines()) == 4
    keys = tmp_path / "keys"
    server = Server(
        processes, tmp_path / "tiny.yaml", "--keys", str(keys / "server"), out=tmp_path / "out"
    )
    client = ("--connect", server.address, "--keys", str(keys / "client"))
    assert invoke("ping", *client).status == 0
    stranger = command("ping", server.address, "--timeout-s", "0.5")
    assert stranger.status == 1
    assert "name them with --keys" in stranger.err
    assert invoke("keygen", str(tmp_path / "others")).status == 0
    own = ("--keys", str(tmp_path / "others" / "client"))
    foreign = (*own, "--server-key", str(keys / "client" / "server.key"))
    stranger = command("schedule", "fcfs", *client[:2], *foreign, "--hello-timeout-s", "3")
    assert stranger.status == 1
    assert "does not admit this client" in stranger.err
    assert invoke("status", *client).status == 0
    assert command("schedule", "fcfs", *client).status == 0
    server.process.terminate()
    assert server.end() == 0


def test_missing_keys_are_bad_input(tmp_path: Path) -> None:
    """A folder without keys is an error that names the command to make them."""
    done = invoke("ping", "--keys", str(tmp_path))
    assert done.status == 2
    assert "hpcosim keygen" in done.error


def test_a_file_is_no_folder_for_keys(tmp_path: Path) -> None:
    """`keygen FILE` says that it expects a folder, and leaves the file as it is."""
    path = tmp_path / "keys"
    path.write_text("mine")
    done = invoke("keygen", str(path))
    assert done.status == 2
    assert f"{path}: expected a folder for the keys" in done.error
    assert path.read_text() == "mine"


def test_the_key_of_a_server_alone_is_bad_input(tmp_path: Path) -> None:
    """`--server-key` without `--keys` would be ignored, so it is an error."""
    done = invoke("ping", "--server-key", str(tmp_path / "server.key"))
    assert done.status == 2
    assert "needs the client's own keys, too (--keys" in done.error
