"""Real processes: many clients, kills of either side, hostile messages, full disks."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zmq

from hpcosim_client.connection import Connection, Timeouts
from hpcosim_client.loop import play
from hpcosim_client.zmq_link import ZmqLink
from hpcosim_protocol import decode_server_message
from hpcosim_schedulers import make_policy
from support.fault.mutator import damaged
from support.fault.real import (
    check_results,
    end_of,
    has_results,
    memory_mb,
    of_run,
    open_journals,
    start_swarm,
    swarm,
)
from support.full_disk import files_up_to
from support.processes import (
    HPCOSIM,
    SOON_S,
    Processes,
    Results,
    Server,
    anonymous,
    eventually,
    output,
    read,
)

pytestmark = pytest.mark.slow

Note = Callable[[str, object], None]
BURSTS = 150
"""Least number of parts in which hostile messages come, each between two of a client beside."""
IN_FLIGHT = 50
"""Hostile messages that wait for a reply at the same time."""


@pytest.mark.fault
def test_200_sessions_at_once(
    processes: Processes,
    scenario: Path,
    undisturbed: Results,
    tmp_path: Path,
    record_property: Note,
) -> None:
    """200 schedulers at the same time have the results of one that is alone."""
    server = Server(processes, scenario, "--set", "limits.max_sessions=200", out=tmp_path / "out")
    answer = swarm(processes, server.address, clients=200)
    assert len(answer["sessions"]) == 200
    check_results(server, answer["sessions"], undisturbed)
    record_property("fault", {"sessions": 200})


@pytest.mark.fault
def test_500_kills_of_clients_lose_no_result(
    processes: Processes,
    scenario: Path,
    undisturbed: Results,
    tmp_path: Path,
    record_property: Note,
) -> None:
    """Schedulers that are killed at random instants and come back have the same results."""
    server = Server(processes, scenario, "--set", "limits.max_sessions=1000", out=tmp_path / "out")
    kills, sessions = 0, 0
    for seed in range(50):
        answer = swarm(
            processes, server.address, clients=20, kills=500 - kills, mean_s=0.3, seed=seed
        )
        kills += answer["kills"]
        sessions += len(answer["sessions"])
        check_results(server, answer["sessions"], undisturbed)
        if kills >= 500:
            break
    assert kills >= 500
    record_property("fault", {"kills": kills, "sessions": sessions})


@pytest.mark.parametrize(
    ("number", "wanted"),
    [
        (signal.SIGKILL, 3),
        (signal.SIGTERM, 1),
        pytest.param(signal.SIGKILL, 200, marks=pytest.mark.fault),
        pytest.param(signal.SIGTERM, 50, marks=pytest.mark.fault),
    ],
)
def test_a_server_that_ends_at_random_instants_loses_no_result(
    processes: Processes,
    long_scenario: Path,
    long_undisturbed: Results,
    tmp_path: Path,
    ports: str,
    record_property: Note,
    number: signal.Signals,
    wanted: int,
) -> None:
    """A server that is started again restores its sessions; the clients do not notice."""
    out, chance = tmp_path / "out", random.Random(4)
    resume = ("--bind", ports, "--out", out, "--resume", out / ".journal")
    server = processes.start("serve", long_scenario, *resume)
    ends, interrupted, sessions = 0, 0, list[str]()
    while interrupted < wanted:
        clients = start_swarm(processes, ports, clients=4, seed=ends)
        while clients.poll() is None:
            # Otherwise a busy machine ends each server before it has a session.
            eventually(partial(has_session, out, clients))
            if chance.random() < 0.5:
                eventually(partial(listens, ports))
            time.sleep(chance.uniform(0.2, 1.2))  # a random instant, not a wait for something
            if interrupted < wanted and clients.poll() is None:
                interrupted += open_journals(out) > 0
                server.send_signal(number)
                output(server)
                ends += 1
                server = processes.start("serve", long_scenario, *resume)
        sessions += end_of(clients)["sessions"]
    for session in sessions:
        assert eventually(partial(has_results, out, f"*-{session[:8]}", long_undisturbed))
    assert len(set(sessions)) == len(sessions) >= 4
    record_property(
        "fault",
        {
            f"ends by {number.name}": ends,
            "with open sessions": interrupted,
            "sessions": len(sessions),
        },
    )


def has_session(out: Path, clients: subprocess.Popen[str]) -> bool:
    """Return whether a session is open, or all clients have ended."""
    return open_journals(out) > 0 or clients.poll() is not None


def listens(address: str) -> bool:
    """Return whether a server accepts connections."""
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    with suppress(OSError), socket.create_connection((host, int(port))):
        return True
    return False


class RecordingLink(ZmqLink):
    """A link that keeps the messages of its client."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
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


@pytest.mark.parametrize(
    ("workers", "hostile"),
    [
        (0, 2_000),
        pytest.param(0, 100_000, marks=pytest.mark.fault),
        pytest.param(1, 20_000, marks=pytest.mark.fault),
    ],
    ids=["short", "workers", "one process"],
)
def test_hostile_messages_do_no_harm(
    processes: Processes,
    scenario: Path,
    undisturbed: Results,
    tmp_path: Path,
    record_property: Note,
    workers: int,
    hostile: int,
) -> None:
    """Each damaged message gets a reply; memory is bounded; a client beside has its results."""
    options = ("--workers", str(workers)) if workers else ()
    server = Server(processes, scenario, *options, out=tmp_path / "out")
    link = RecordingLink(server.address)
    play_on(server.address, link, lambda: None)
    chance, before_mb = random.Random(1), memory_mb(server.process.pid)
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        socket.rcvtimeo = int(SOON_S * 1000)
        socket.connect(server.address)
        left = hostile

        def pester() -> None:
            nonlocal left
            burst = min(left, max(IN_FLIGHT, hostile // BURSTS))
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
    check_results(server, [session], undisturbed)
    assert server.log("internal_error") == server.log("process_ended") == []
    record_property("fault", {"messages": hostile})
    assert memory_mb(server.process.pid) < before_mb + 200


def test_a_disk_that_becomes_full_ends_no_session(
    processes: Processes, scenario: Path, undisturbed: Results, tmp_path: Path, ports: str
) -> None:
    """Journals stop, and the results that fit are written; what does not fit is a failure."""
    out = tmp_path / "out"
    words: list[str | Path] = ["serve", scenario, "--bind", ports, "--out", out, "--sessions", "4"]
    words += ["--set", f"journal.folder={out / '.journal'}"]
    server = processes.start_command(
        [*HPCOSIM, *map(str, words)], stderr=subprocess.PIPE, preexec_fn=files_up_to(20000)
    )
    answer = swarm(processes, ports, clients=4)
    _, log = output(server)
    assert len(answer["sessions"]) == 4
    events = [json.loads(line)["event"] for line in log.splitlines()]
    assert events.count("journal_failed") == 4
    written = events.count("results_written")
    assert written + events.count("results_not_written") == 4
    assert server.returncode == (written < 4)
    for folder in out.glob("busy-*"):
        assert of_run(anonymous(read(folder))) == of_run(anonymous(undisturbed))
