"""Servers of one and of several processes, with broken peers, logs and few descriptors."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcosim_client import Connection
from hpcosim_client import run as schedule
from hpcosim_schedulers import make_policy
from support.games import EAGER, FILES, Game, memory_mb, new_server, process_of
from support.processes import HPCOSIM, SOON_S, Server, eventually, read
from support.raw_zmtp import MORE, RawPeer, claimed_identity, frame

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["1", "3"])
def server(
    request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server of one process, and one with workers."""
    where = tmp_path_factory.mktemp("server")
    with new_server(folder, where, "--workers", request.param) as server:
        yield server


# Peers that misbehave


def test_claimed_routing_identities_do_no_harm(server: Server) -> None:
    """Fifty peers claim the identities that libzmq gives out next; ordinary clients go on."""
    game = Game(server)
    game.step(10)
    claims = [RawPeer(server.address, claimed_identity(20 + number)) for number in range(50)]
    clients = [Connection(server.address, EAGER) for _ in range(100)]
    for client in clients:
        client.ping()
        client.close()
    assert game.step()
    for claim in claims:
        claim.close()
    assert server.process.poll() is None
    assert {*server.results(game.label)} == FILES


@pytest.mark.parametrize("size", [0, 2**20], ids=["empty frames", "frames of 1 MiB"])
def test_endless_frames_neither_stall_others_nor_fill_memory(server: Server, size: int) -> None:
    """The connection of a message without end is closed, and a session goes on meanwhile."""
    game = Game(server)
    bad = RawPeer(server.address)
    piece = frame(bytes(size), MORE) * (1 if size else 2**16)
    stop, closed = threading.Event(), list[RawPeer]()

    def pester() -> None:
        nonlocal bad
        while not stop.is_set():
            if not bad.send(piece):
                closed.append(bad)
                bad.close()
                bad = RawPeer(server.address)

    thread = threading.Thread(target=pester)
    thread.start()
    try:
        eventually(lambda: len(closed) > 2)
        assert game.step()
    finally:
        stop.set()
        thread.join(SOON_S)
        bad.close()
    assert {*server.results(game.label)} == FILES
    door = server.process.pid
    if server.log("process_started"):
        door = process_of(server, "front")
    assert memory_mb(door) < 200


def test_a_client_that_does_not_read_delays_no_other(server: Server) -> None:
    """Its replies are dropped while a session is played to the end."""
    deaf, game = RawPeer(server.address), Game(server)
    deaf.socket.settimeout(0.2)
    deaf.send(frame(b"no message") * 50_000)
    assert game.step()
    deaf.close()


# Logs and descriptors


def serve(*arguments: str | Path, **how: object) -> subprocess.Popen[bytes]:
    """Start a server."""
    words = [*HPCOSIM, "serve", *map(str, arguments)]
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, **how)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("workers", ["1", "3"])
def test_a_log_that_nobody_reads_delays_nothing(folder: Path, tmp_path: Path, workers: str) -> None:
    """Sessions run to their end while the pipe is full, and after its reader has gone."""
    address = f"ipc://{tmp_path}/x.sock"
    options = ("--bind", address, "--out", tmp_path / "out", "--workers", workers)
    server = serve(folder / "small.yaml", *options, stderr=subprocess.PIPE)
    assert server.stderr is not None
    try:
        fill(server.pid)
        schedule(make_policy("fcfs"), address, timeouts=EAGER)
        server.stderr.close()
        schedule(make_policy("fcfs"), address, timeouts=EAGER)
        server.terminate()
        assert server.wait(SOON_S) == 0
        assert len(list((tmp_path / "out").glob("[!.]*"))) == 2
    finally:
        server.kill()
        server.wait()
        server.stderr.close()


def fill(pid: int) -> None:
    """Fill the pipe of a process's standard error."""
    descriptor = os.open(f"/proc/{pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK)
    try:
        while True:
            os.write(descriptor, bytes(2**12))
    except BlockingIOError:
        pass
    finally:
        os.close(descriptor)


def test_idle_connections_take_no_descriptor_of_the_results(folder: Path, tmp_path: Path) -> None:
    """With 256 descriptors and 400 idle connections, sessions are played and written."""
    address = f"ipc://{tmp_path}/x.sock"
    options = ("--bind", address, "--out", tmp_path / "out", "--workers", "1")
    limited = ("prlimit", "--nofile=256:256")
    words = [*limited, *HPCOSIM, "serve", str(folder / "small.yaml"), *map(str, options)]
    server = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    idle: list[RawPeer] = []
    try:
        schedule(make_policy("fcfs"), address, timeouts=EAGER)
        idle.extend(RawPeer(address) for _ in range(400))
        schedule(make_policy("fcfs"), address, timeouts=EAGER)
        server.terminate()
        assert server.wait(SOON_S) == 0
        for path in (tmp_path / "out").glob("[!.]*"):
            assert {*read(path)} == FILES
    finally:
        for peer in idle:
            peer.close()
        server.kill()
        server.wait()
