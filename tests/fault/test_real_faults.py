"""Real processes: many clients, kills of either side, hostile messages, full disks."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zmq

from hpcosim_client import make_policy
from hpcosim_client.connection import Connection, Timeouts
from hpcosim_client.loop import play
from hpcosim_client.zmq_link import ZmqLink
from hpcosim_protocol import decode_server_message
from support.fault.mutator import damaged
from support.full_disk import files_up_to
from support.paths import ROOT
from support.processes import (
    HPCOSIM,
    SCENARIO,
    SOON_S,
    Processes,
    Results,
    Server,
    anonymous,
    eventually,
    read,
)

pytestmark = [pytest.mark.fault, pytest.mark.slow]

JOBS = 150
LONG_S = 500.0
"""Timeout of a swarm of clients, s."""
HOSTILE = 100_000
SERVER_ENDS = 20
"""Number of times that a server is killed, or stopped, and started again."""
IN_FLIGHT = 50
"""Hostile messages that wait for a reply at the same time."""


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario of some hundred jobs."""
    path = tmp_path_factory.mktemp("fault") / "busy.yaml"
    path.write_text(SCENARIO.format(name="busy", jobs=JOBS))
    return path


@pytest.fixture(scope="module")
def undisturbed(scenario: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The results of an undisturbed run."""
    processes = Processes(tmp_path_factory.mktemp("undisturbed"))
    try:
        server = Server(processes, scenario, out=tmp_path_factory.mktemp("out"))
        (session,) = swarm(server.address, clients=1)["sessions"]
        return server.results(session)
    finally:
        processes.end()


@pytest.fixture
def ports() -> str:
    """The address of a port that is free now."""
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        port = socket.bind_to_random_port("tcp://127.0.0.1")
    return f"tcp://127.0.0.1:{port}"


def start_swarm(address: str, **options: float) -> subprocess.Popen[str]:
    """Start schedulers as processes; see `support.fault.swarm`."""
    words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    return subprocess.Popen(
        [sys.executable, "-m", "support.fault.swarm", address, *words],
        cwd=ROOT / "tests",
        stdout=subprocess.PIPE,
        text=True,
    )


def end_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for a swarm, which must have met no error."""
    try:
        out, _ = process.communicate(timeout=LONG_S)
    finally:
        process.kill()
    answer: dict[str, Any] = json.loads(out)
    assert answer["errors"] == []
    return answer


def swarm(address: str, **options: float) -> dict[str, Any]:
    """Run schedulers to their ends."""
    return end_of(start_swarm(address, **options))


def memory_mb(pid: int) -> float:
    """Return the largest memory that a process had so far, MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def check_results(server: Server, sessions: list[str], undisturbed: Results) -> None:
    """Check that each session has the results of an undisturbed run."""
    assert len(set(sessions)) == len(sessions)
    for session in sessions:
        assert server.results(session) == undisturbed


def has_results(out: Path, pattern: str, expected: Results) -> bool:
    """Return whether a session has these results; those of a stopped session are replaced."""
    return any(read(folder) == expected for folder in out.glob(pattern))


def test_200_sessions_at_once(
    processes: Processes, scenario: Path, undisturbed: Results, tmp_path: Path
) -> None:
    """200 schedulers at the same time have the results of one that is alone."""
    server = Server(processes, scenario, "--max-sessions", "200", out=tmp_path / "out")
    answer = swarm(server.address, clients=200)
    assert len(answer["sessions"]) == 200
    check_results(server, answer["sessions"], undisturbed)


def test_500_kills_of_clients_lose_no_result(
    processes: Processes, scenario: Path, undisturbed: Results, tmp_path: Path
) -> None:
    """Schedulers that are killed at random instants and come back have the same results."""
    server = Server(processes, scenario, "--max-sessions", "1000", out=tmp_path / "out")
    kills, sessions = 0, 0
    for seed in range(50):
        answer = swarm(server.address, clients=20, kills=500 - kills, mean_s=0.3, seed=seed)
        kills += answer["kills"]
        sessions += len(answer["sessions"])
        check_results(server, answer["sessions"], undisturbed)
        if kills >= 500:
            break
    assert kills >= 500
    print(f"{kills} kills, {sessions} sessions")  # noqa: T201 - seen with -s


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_that_ends_at_random_instants_loses_no_result(
    processes: Processes,
    scenario: Path,
    undisturbed: Results,
    tmp_path: Path,
    ports: str,
    number: signal.Signals,
) -> None:
    """A server that is started again restores its sessions; the clients do not notice."""
    out, chance = tmp_path / "out", random.Random(4)

    def start() -> subprocess.Popen[str]:
        resume = ("--out", out, "--resume", out / ".journal")
        return processes.start("serve", scenario, "--bind", ports, *resume)

    server, ends, sessions = start(), 0, []
    while ends < SERVER_ENDS:
        clients = start_swarm(ports, clients=8)
        while clients.poll() is None:
            time.sleep(chance.uniform(1.0, 2.5))  # a random instant, not a wait for something
            if ends < SERVER_ENDS and clients.poll() is None:
                server.send_signal(number)
                server.communicate()
                ends += 1
                server = start()
        sessions += end_of(clients)["sessions"]
    for session in sessions:
        assert eventually(partial(has_results, out, f"*-{session[:8]}", undisturbed))
    assert len(set(sessions)) == len(sessions) >= 8
    print(f"{ends} ends by {number.name}, {len(sessions)} sessions")  # noqa: T201 - seen with -s


class RecordingLink(ZmqLink):
    """A link that keeps the messages of its client."""

    def __init__(self, address: str) -> None:
        super().__init__(address, 5.0)
        self.sent: list[bytes] = []

    def send(self, data: bytes) -> None:
        """See `Link`."""
        self.sent.append(data)
        super().send(data)


def play_on(address: str, link: ZmqLink | None, between: Callable[[], None]) -> str:
    """Run one scheduler, with something else between its decisions; return its session."""
    with Connection(address, Timeouts(), link) as connection:
        welcome = connection.hello(client="easy", policy={"name": "easy"})

        def send(*message: Any) -> Any:
            between()
            return connection.decide(*message)

        play(make_policy("easy"), welcome.platform, send, seed=welcome.seed)
        return welcome.session


def test_100_000_hostile_messages_do_no_harm(
    processes: Processes, scenario: Path, undisturbed: Results, tmp_path: Path
) -> None:
    """Each damaged message gets a reply; memory is bounded; a client beside has its results."""
    server = Server(processes, scenario, out=tmp_path / "out")
    link = RecordingLink(server.address)
    play_on(server.address, link, lambda: None)
    chance, before_mb = random.Random(1), memory_mb(server.process.pid)
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        socket.rcvtimeo = int(SOON_S * 1000)
        socket.connect(server.address)
        left = HOSTILE

        def pester() -> None:
            nonlocal left
            burst = min(left, max(IN_FLIGHT, HOSTILE // JOBS))
            for start in range(0, burst, IN_FLIGHT):
                count = min(IN_FLIGHT, burst - start)
                for _ in range(count):
                    socket.send(damaged(chance.choice(link.sent), chance))
                for _ in range(count):
                    decode_server_message(socket.recv())
            left -= burst

        session = play_on(server.address, None, pester)
        while left:
            pester()
    assert server.results(session) == undisturbed
    assert server.log("internal_error") == []
    assert memory_mb(server.process.pid) < before_mb + 200


def test_a_disk_that_becomes_full_ends_no_session(
    scenario: Path, undisturbed: Results, tmp_path: Path, ports: str
) -> None:
    """Journals stop, and the results that fit are written; what does not fit is a failure."""
    out = tmp_path / "out"
    words: list[str | Path] = ["serve", scenario, "--bind", ports, "--out", out, "--sessions", "4"]
    words += ["--journal", out / ".journal"]
    server = subprocess.Popen(
        [*HPCOSIM, *map(str, words)],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=files_up_to(20000),
    )
    try:
        answer = swarm(ports, clients=4)
        _, log = server.communicate(timeout=SOON_S)
    finally:
        server.kill()
    assert len(answer["sessions"]) == 4
    events = [json.loads(line)["event"] for line in log.splitlines()]
    assert events.count("journal_failed") == 4
    written = events.count("results_written")
    assert written + events.count("results_not_written") == 4
    assert server.returncode == (written < 4)
    for folder in out.glob("busy-*"):
        assert anonymous(read(folder)) == anonymous(undisturbed)
