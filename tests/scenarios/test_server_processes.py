"""Servers of several processes: broken peers, killed processes, and signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from hpcosim_client import Connection, ServerRefusedError, Timeouts, View, make_policy
from hpcosim_client import run as schedule
from support.processes import (
    HPCOSIM,
    SOON_S,
    WELL_INTO_A_RUN,
    Processes,
    Server,
    alive,
    children,
    eventually,
    read,
    waits,
)
from support.raw_zmtp import MORE, RawPeer, claimed_identity, frame

pytestmark = pytest.mark.slow

EAGER = Timeouts(resend_s=0.2, reply_s=SOON_S, hello_s=SOON_S)
FILES = {"jobs.csv", "metrics.json", "nodes.csv", "run.json", "schedule.csv"}


class Game:
    """A session that is played step by step."""

    all: ClassVar[list[Game]] = []

    def __init__(self, server: Server, scenario: str = "small") -> None:
        self.all.append(self)
        self.connection = Connection(server.address, EAGER)
        self.welcome = self.connection.hello(client="easy", scenario=scenario)
        self._view, self._policy = View(self.welcome.platform), make_policy("easy")

    @property
    def label(self) -> str:
        """The public label of the session."""
        return self.welcome.session[:8]

    def step(self, count: int = 1000) -> bool:
        """Decide so often, or to the end; return whether the simulation is over."""
        for _ in range(count):
            answer = self.connection.decide(self._view.decisions)
            if answer.ended:
                return True
            self._view.apply(answer.now_s, answer.events)
            self._policy(self._view)
        return False


@pytest.fixture(autouse=True)
def every_game_is_closed() -> Iterator[None]:
    """Close the connections of a test, also of one that failed."""
    yield
    while Game.all:
        Game.all.pop().connection.close()


def process_of(server: Server, name: str) -> int:
    """Return the number of the process that the log calls by a name."""
    started = [entry for entry in server.log("process_started") if entry["process"] == name]
    return int(started[-1]["pid"])


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process, MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@contextmanager
def new_server(folder: Path, where: Path, *options: str) -> Iterator[Server]:
    """A server of `small` and `long`."""
    processes = Processes(where)
    try:
        yield Server(
            processes, folder / "small.yaml", folder / "long.yaml", *options, out=where / "out"
        )
    finally:
        processes.end()


@pytest.fixture(scope="module", params=["1", "3"])
def server(
    request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server of one process, and one with workers."""
    where = tmp_path_factory.mktemp("server")
    with new_server(folder, where, "--workers", request.param) as server:
        yield server


@pytest.fixture
def workers(folder: Path, tmp_path: Path) -> Iterator[Server]:
    """A server with workers."""
    with new_server(folder, tmp_path, "--workers", "3") as server:
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


def test_without_journals_a_killed_worker_loses_its_own_sessions(
    folder: Path, tmp_path: Path
) -> None:
    """Its clients are told, other sessions go on, and the server fails when all are over."""
    with new_server(
        folder, tmp_path, "--no-journal", "--workers", "3", "--sessions", "2"
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
    """A hello above the limit is refused; more sessions than workers share them."""
    with new_server(folder, tmp_path, "--workers", "2", "--max-sessions", "3") as server:
        games = [Game(server) for _ in range(3)]
        with pytest.raises(ServerRefusedError, match="3 sessions are open, the maximum"):
            Game(server)
        assert games[0].step()
        assert Game(server).step()


# Signals


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
    time.sleep(0.2)
    assert alive(worker)
    workers.process.terminate()
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
    idle: list[Connection] = []
    try:
        schedule(make_policy("fcfs"), address, timeouts=EAGER)
        idle.extend(Connection(address, EAGER) for _ in range(400))
        schedule(make_policy("fcfs"), address, timeouts=EAGER)
        server.terminate()
        assert server.wait(SOON_S) == 0
        for path in (tmp_path / "out").glob("[!.]*"):
            assert {*read(path)} == FILES
    finally:
        for connection in idle:
            connection.close()
        server.kill()
        server.wait()


def test_a_live_view_needs_one_process() -> None:
    """`--http` with another number of workers is an error in one line."""
    words = [*HPCOSIM, "serve", "demo", "--http", "127.0.0.1:0", "--workers", "2"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "error: --http shows sessions of one process; expected --workers 1, got 2\n"
    )
