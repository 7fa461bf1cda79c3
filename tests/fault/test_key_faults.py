"""Real processes with keys: kills of either side, and a client that is not admitted."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from hpcosim_client import Connection
from hpcosim_client.connection import Timeouts
from hpcosim_client.errors import ServerGoneError
from hpcosim_client.loop import run as run_client
from hpcosim_protocol.keys import read_client_keys
from hpcosim_schedulers import make_policy
from support.fault.real import end_of, has_results, open_journals, start_swarm
from support.processes import HPCOSIM, SOON_S, Processes, Results, eventually, output

Note = Callable[[str, object], None]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the keys of a server, of a client, and of one that is not admitted."""
    folder = tmp_path_factory.mktemp("keys")
    for place in (folder, folder / "other"):
        words = ("keygen", str(place), "--name", "client")
        subprocess.run([*HPCOSIM, *words], check=True, capture_output=True)
    wrong = folder / "other" / "client"
    (wrong / "server.key").write_text((folder / "client" / "server.key").read_text())
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("client_kills", "wanted"), [(3, 2), pytest.param(100, 30, marks=pytest.mark.fault)]
)
def test_kills_of_clients_and_servers_with_keys_lose_no_result(
    processes: Processes,
    long_scenario: Path,
    long_undisturbed: Results,
    tmp_path: Path,
    ports: str,
    keys: Path,
    record_property: Note,
    client_kills: int,
    wanted: int,
) -> None:
    """Clients with the right key go on; one with a key that is not admitted gets nothing."""
    out, chance = tmp_path / "out", random.Random(5)
    words = ("--bind", ports, "--out", out, "--resume", out / ".journal", "--keys", keys / "server")
    server = processes.start("serve", long_scenario, *words)
    ends, kills, refused, sessions = 0, 0, 0, list[str]()
    while ends < wanted or kills < client_kills:
        options = {"kills": min(client_kills, 10), "mean_s": 2.0, "seed": ends}
        clients = start_swarm(processes, ports, clients=4, keys=keys / "client", **options)
        while clients.poll() is None:
            refused += is_refused(ports, keys / "other" / "client", chance.uniform(0.5, 1.5))
            if ends < wanted and open_journals(out):
                server.kill()
                output(server)
                ends += 1
                server = processes.start("serve", long_scenario, *words)
        answer = end_of(clients)
        sessions += answer["sessions"]
        kills += answer["kills"]
    for session in sessions:
        assert eventually(partial(has_results, out, f"*-{session[:8]}", long_undisturbed))
    assert len(set(sessions)) == len(sessions) >= 4
    counts = {"kills of servers": ends, "kills of clients": kills, "clients refused": refused}
    record_property("fault", {**counts, "sessions": len(sessions)})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("short", "held"), [(150, 70), pytest.param(2_000, 100, marks=pytest.mark.fault)]
)
def test_a_client_with_many_connections_keeps_no_other_out(
    processes: Processes, scenario: Path, ports: str, tmp_path: Path, short: int, held: int
) -> None:
    """One key opens more connections than there are, short ones and open ones; another is served.

    The server has 256 descriptors, which is room for 64 clients with keys.
    """
    for name in ("greedy", "modest"):
        words = ("keygen", str(tmp_path / "keys"), "--name", name)
        subprocess.run([*HPCOSIM, *words], check=True, capture_output=True)
    own = tmp_path / "keys" / "server"
    serve = ("serve", scenario, "--bind", ports, "--keys", own, "--out", tmp_path / "out")
    server = processes.start_command(["prlimit", "--nofile=256:256", *HPCOSIM, *map(str, serve)])
    greedy, modest = (read_client_keys(tmp_path / "keys" / name) for name in ("greedy", "modest"))
    with ExitStack() as stack:
        for number in range(short + held):
            connection = Connection(ports, Timeouts(resend_s=1.0), keys=greedy)
            connection.ping()
            if number < short:
                connection.close()
            else:
                stack.callback(connection.close)
        with Connection(ports, Timeouts(resend_s=1.0, hello_s=10.0), keys=modest) as connection:
            connection.ping()
    server.terminate()
    assert server.wait(SOON_S) == 0


def is_refused(address: str, keys: Path, within_s: float) -> bool:
    """Try to open a session with a key that is not admitted, for a time."""
    timeouts = Timeouts(resend_s=0.2, reply_s=within_s, hello_s=within_s)
    with pytest.raises(ServerGoneError):
        run_client(make_policy("easy"), address, keys=keys, timeouts=timeouts)
    return True
