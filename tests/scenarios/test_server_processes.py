"""Servers of several processes: killed processes, numbers of sessions, and signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcosim_client import Connection, ServerRefusedError
from hpcosim_protocol.keys import make_keys, read_client_keys
from support.games import EAGER, FILES, Game, new_server, process_of
from support.processes import (
    HPCOSIM,
    WELL_INTO_A_RUN,
    Server,
    alive,
    children,
    eventually,
    read,
    waits,
)

pytestmark = pytest.mark.slow

# Processes that are killed


def test_sessions_survive_the_front(workers: Server) -> None:
    """Clients go on through the next front, and a new client is served."""
    game = Game(workers)
    game.step(10)
    first = process_of(workers, "front")
    os.kill(first, signal.SIGKILL)
    assert game.step()
    assert {*workers.results(game.label)} == FILES
    assert Game(workers).step()
    assert process_of(workers, "front") != first
    assert [entry["how"] for entry in workers.log("process_ended")] == ["SIGKILL"]


def kill_worker_of(server: Server, game: Game) -> str:
    """Kill the worker that has a session; return its name."""
    name = f"worker {int(game.welcome.session[-4:], 16)}"
    os.kill(process_of(server, name), signal.SIGKILL)
    return name


def test_a_killed_worker_restores_its_sessions(workers: Server) -> None:
    """The worker runs again and goes on, from the journals; another session is not concerned."""
    game, other = Game(workers), Game(workers)
    assert game.welcome.session[-4:] != other.welcome.session[-4:]
    for _ in range(2):
        game.step(5)
        other.step(5)
        kill_worker_of(workers, game)
    assert game.step()
    assert other.step()
    for each in (game, other):
        run = json.loads(workers.results(each.label)["run.json"])
        assert run["complete"]
    assert [entry["sessions"] for entry in workers.log("process_ended")] == [1, 1]
    workers.process.terminate()
    assert workers.end() == 0


def test_sessions_with_keys_survive_the_front_and_their_worker(
    folder: Path, tmp_path: Path
) -> None:
    """Each session still belongs to the key that opened it."""
    for name in ("one", "two"):
        make_keys(tmp_path / "keys", name)
    one, two = (read_client_keys(tmp_path / "keys" / name) for name in ("one", "two"))
    options = ("--workers", "3", "--keys", str(tmp_path / "keys/server"))
    with new_server(folder, tmp_path, *options) as server:
        game, other = Game(server, keys=one), Game(server, keys=two)
        assert game.welcome.session[-4:] != other.welcome.session[-4:]
        game.step(5)
        os.kill(process_of(server, "front"), signal.SIGKILL)
        game.step(5)
        other.step(5)
        kill_worker_of(server, game)
        thief = Connection(server.address, EAGER, keys=two)
        with pytest.raises(ServerRefusedError, match="unknown session"):
            thief.hello(client="thief", session=game.welcome.session)
        thief.close()
        assert game.step()
        assert other.step()
        server.process.terminate()
        assert server.end() == 0


def test_without_journals_a_killed_worker_loses_its_own_sessions(
    folder: Path, tmp_path: Path
) -> None:
    """Its clients are told, other sessions go on, and the server fails when all are over."""
    with new_server(
        folder, tmp_path, "--set", "journal.keep=false", "--workers", "3", "--sessions", "2"
    ) as server:
        lost, kept = Game(server), Game(server)
        kill_worker_of(server, lost)
        with pytest.raises(ServerRefusedError, match="unknown session"):
            lost.step()
        assert kept.step()
        assert server.end() == 1


def test_the_other_processes_end_with_the_supervisor(workers: Server) -> None:
    """The results so far are written."""
    game = Game(workers)
    game.step(10)
    pids = [entry["pid"] for entry in workers.log("process_started")]
    workers.process.kill()
    eventually(lambda: not any(map(alive, pids)))
    assert {*workers.results(game.label)} == FILES


# Numbers of sessions


def test_sessions_are_counted_over_all_workers(folder: Path, tmp_path: Path) -> None:
    """The server ends with the last one, and refuses another while it runs."""
    with new_server(folder, tmp_path, "--workers", "3", "--sessions", "3") as server:
        games = [Game(server) for _ in range(3)]
        assert len({game.welcome.session[-4:] for game in games}) == 3
        with pytest.raises(ServerRefusedError, match="all the sessions it was started for"):
            Game(server)
        assert all(game.step() for game in games)
        assert server.end() == 0
        assert len(list(server.out.glob("[!.]*"))) == 3


def test_open_sessions_are_bounded_over_all_workers(folder: Path, tmp_path: Path) -> None:
    """A hello above the limit is refused, naming it; more sessions than workers share them."""
    with new_server(folder, tmp_path, "--workers", "2", "--set", "limits.max_sessions=3") as server:
        games = [Game(server) for _ in range(3)]
        with pytest.raises(
            ServerRefusedError, match=r"3 sessions are open, .* \(limits.max_sessions\)"
        ):
            Game(server)
        assert games[0].step()
        assert Game(server).step()


# Signals


@pytest.fixture
def obeyed_hangups() -> Iterator[None]:
    """Let processes that begin obey SIGHUP, also if these tests run under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("obeyed_hangups")
@pytest.mark.parametrize("options", [["--workers", "1"], ["--workers", "2"]], ids=["one", "two"])
def test_stop_signals_write_results_and_others_are_ignored(
    folder: Path, tmp_path: Path, options: list[str]
) -> None:
    """SIGUSR1 changes nothing; SIGHUP stops the server in order."""
    with new_server(folder, tmp_path, *options) as server:
        game = Game(server, "long")
        server.process.send_signal(signal.SIGUSR1)
        game.step(10)
        server.process.send_signal(signal.SIGHUP)
        with pytest.raises(ServerRefusedError, match="stopped by SIGHUP"):
            game.step()
        assert server.end() == 0
        assert {*server.results(game.label)} == FILES


def test_a_second_signal_ends_all_processes_at_once(workers: Server) -> None:
    """A worker that simulates for long is not waited for."""
    game = Game(workers)
    pids = [entry["pid"] for entry in workers.log("process_started")]
    worker = process_of(workers, f"worker {int(game.welcome.session[-4:], 16)}")
    os.kill(worker, signal.SIGSTOP)  # it is busy
    workers.process.terminate()
    workers.process.terminate()  # a copy, as of `timeout`
    time.sleep(0.2)
    assert alive(worker)

    def has_ended() -> bool:
        workers.process.terminate()
        return workers.process.poll() is not None

    eventually(has_ended)
    assert workers.end() == -signal.SIGTERM
    eventually(lambda: not any(map(alive, pids)))


def test_a_run_whose_command_is_killed_writes_its_results(folder: Path, tmp_path: Path) -> None:
    """The server and the scheduler notice that `hpcosim run` is gone, and end."""
    out = tmp_path / "out"
    command = [*HPCOSIM, "run", str(folder / "long.yaml"), "--out", str(out)]
    run = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    found = eventually(lambda: len(children(run.pid)) == 2 and children(run.pid))
    try:
        eventually(lambda: waits(found["schedule"]) > WELL_INTO_A_RUN)
        run.kill()
        run.wait()
        eventually(lambda: not any(map(alive, found.values())))
        assert {*read(out)} == FILES
    finally:
        for pid in found.values():
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
