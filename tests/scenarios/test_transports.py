"""Runs over every transport: lost messages, killed processes, and misbehaving clients."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgpack
import msgspec
import pytest
import zmq

from hpcosim_client import Connection, ServerGoneError, Timeouts, View
from hpcosim_client import run as schedule
from hpcosim_protocol import Events, decode_server_message
from hpcosim_scenarios.errors import RunError
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_scenarios.running.run import Transport, run_scenario
from hpcosim_schedulers import describe, make_policy
from hpcosim_server.service.service import Service
from support.processes import (
    SOON_S,
    WELL_INTO_A_RUN,
    Processes,
    Results,
    Server,
    alive,
    anonymous,
    children,
    eventually,
    read,
    waits,
)

pytestmark = pytest.mark.slow

FILES = ("jobs.csv", "metrics.json", "nodes.csv", "run.json", "schedule.csv")


class Raw:
    """A client that uses pyzmq and msgpack, and no package of hpcosim."""

    made: ClassVar[list[Raw]] = []

    def __init__(self, address: str, kind: int = zmq.REQ) -> None:
        self.made.append(self)
        self.context = zmq.Context()
        self.socket = self.context.socket(kind)
        self.socket.linger = 0
        self.socket.rcvtimeo = int(1000 * SOON_S)
        self.socket.connect(address)

    def ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Send a message and return the reply."""
        self.socket.send(msgpack.packb({"type": kind, **fields}))
        answer: dict[str, Any] = msgpack.unpackb(self.socket.recv())
        return answer

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()
        self.context.term()


@pytest.fixture(autouse=True)
def every_raw_client_goes() -> Iterator[None]:
    """Close the sockets of a test, also of one that failed."""
    yield
    while Raw.made:
        Raw.made.pop().close()


@pytest.fixture(scope="module")
def expected(folder: Path) -> Callable[[str], Results]:
    """Return a function that returns the results of `small` with a scheduler, in one process."""
    known: dict[str, Results] = {}

    def results(policy: str) -> Results:
        if policy not in known:
            out = folder / "expected" / policy
            run_scenario(folder / "small.yaml", scheduler=policy, transport="inproc", out=out)
            known[policy] = read(out)
            assert sorted(known[policy]) == sorted(FILES)
        return known[policy]

    return results


@pytest.fixture
def server(processes: Processes, folder: Path, tmp_path: Path) -> Server:
    """A server of `small` and `long`."""
    return Server(processes, folder / "small.yaml", folder / "long.yaml", out=tmp_path / "out")


@pytest.fixture
def peer(server: Server) -> Iterator[Raw]:
    """A raw client of the server."""
    raw = Raw(server.address)
    yield raw
    raw.close()


# One result


@pytest.mark.parametrize("transport", ["inproc", "ipc", "tcp"])
def test_every_transport_gives_the_same_bytes(
    folder: Path,
    tmp_path: Path,
    expected: Callable[[str], Results],
    transport: Transport,
) -> None:
    """The results of a scenario, seed and scheduler are the same bytes on every transport."""
    out = tmp_path / "out"
    metrics, where = run_scenario(folder / "small.yaml", transport=transport, out=out)
    assert where == out
    assert read(out) == expected("easy")
    assert metrics == json.loads((out / "metrics.json").read_bytes())
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


NAPPER = """
def napper(view):
    view.set_alarm(view.now_s + 30.0)
"""


@pytest.mark.parametrize("transport", ["inproc", "ipc", "tcp"])
def test_a_scheduler_that_only_wakes_ends_on_every_transport(
    folder: Path, tmp_path: Path, transport: Transport
) -> None:
    """The error names the jobs that wait and the setting, and the results up to then are there."""
    policy = tmp_path / "napper.py"
    policy.write_text(NAPPER)
    with pytest.raises(RunError, match=r"jobs? waits? .*stuck_after_wakeups is 20"):
        run_scenario(
            folder / "small.yaml",
            scheduler=f"{policy}:napper",
            transport=transport,
            out=tmp_path / "out",
            overrides={"stuck_after_wakeups": 20},
        )
    assert not json.loads((tmp_path / "out" / "run.json").read_bytes())["complete"]


@pytest.mark.parametrize(
    "overrides",
    [
        {"workload.load": 1.25, "seed": 8},
        {"kill_at_walltime": True, "workload.placement": "one_node"},
        {"platform.nodes": None},
        {"workload.load": 1e-5},
        {"workload.load": 1e-7},
    ],
    ids=str,
)
def test_overrides_mean_the_same_over_every_transport(
    folder: Path, tmp_path: Path, overrides: dict[str, Any]
) -> None:
    """An override gives the same results, or the same error, on every transport."""
    outcomes: list[object] = []
    transports: tuple[Transport, Transport] = ("inproc", "ipc")
    for transport in transports:
        out = tmp_path / transport
        try:
            run_scenario(folder / "small.yaml", transport=transport, out=out, overrides=overrides)
            outcomes.append(read(out))
        except Exception as error:
            outcomes.append(type(error))
    assert outcomes[0] == outcomes[1]


def test_two_schedulers_on_one_server_get_what_each_would_get_alone(
    server: Server, expected: Callable[[str], Results]
) -> None:
    """Concurrent sessions of one server do not affect each other."""
    names = ("easy", "sjf", "easy", "conservative")
    barrier = threading.Barrier(len(names), timeout=SOON_S)
    failures: list[BaseException] = []

    def client(name: str) -> None:
        policy = make_policy(name)
        together = iter(range(20))  # the first batches at least

        def decide(view: View) -> None:
            if next(together, None) is not None:
                barrier.wait()
            policy(view)

        try:
            schedule(decide, server.address, name=name, scenario="small")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=client, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON_S)
    assert not failures
    eventually(lambda: len(server.log("results_written")) == len(names))
    results = [(path.name.split("-")[1], read(path)) for path in server.out.glob("[!.]*")]
    assert sorted(name for name, _ in results) == sorted(names)
    for name, files in results:
        assert anonymous(files) == anonymous(expected(name))


def test_a_scheduler_is_told_whether_allocations_wake_nodes(
    processes: Processes, folder: Path, tmp_path: Path
) -> None:
    """The view has the rule, in one process and over a wire."""
    path = tmp_path / "off.yaml"
    path.write_text((folder / "small.yaml").read_text() + "wake_on_allocation: false\n")
    server = Server(processes, path, out=tmp_path / "out")
    policy, told = make_policy("fcfs"), set[bool]()

    def decide(view: View) -> None:
        told.add(view.wake_on_allocation)
        policy(view)

    schedule(decide, server.address)
    library = Library([path])
    run_in_process(open_scenario(library.first, library.first_jobs, "fcfs"), decide)
    assert told == {False}


def play_by_hand(peer: Raw) -> str:
    """Schedule `small` first come first served without hpcosim's client; return the session."""
    welcome = peer.ask("hello", versions=[1], client="fcfs", scenario="small")
    capacity = [
        sum(processor["cores"] for processor in group["processors"])
        for group in welcome["platform"]["nodes"]
        for _ in range(group["count"])
    ]
    free, queue = list(capacity), []
    places: dict[int, list[tuple[int, int]]] = {}
    decisions: list[dict[str, Any]] = []
    for seq in range(1, 1000):
        answer = peer.ask("decisions", session=welcome["session"], seq=seq, decisions=decisions)
        assert answer["seq"] == seq
        if answer["type"] == "simulation_ended":
            return str(welcome["session"])
        decisions = []
        for event in answer["events"]:
            if event["type"] == "job_submitted":
                queue.append(event)
            elif event["type"] == "job_completed":
                for node, cores in places.pop(event["job_id"]):
                    free[node] += cores
        while queue and sum(free) >= queue[0]["cores"]:
            job, place = queue.pop(0), []
            left = job["cores"]
            for node in range(len(free)):
                cores = min(left, free[node])
                if cores:
                    place.append((node, cores))
                    free[node] -= cores
                    left -= cores
            places[job["job_id"]] = place
            nodes, tasks = [node for node, _ in place], [cores for _, cores in place]
            decisions.append(
                {"type": "allocate_job", "job_id": job["job_id"], "nodes": nodes, "cores": tasks}
            )
    raise AssertionError("the simulation does not end")


def test_a_client_of_nothing_but_pyzmq_and_msgpack_works(
    server: Server, peer: Raw, expected: Callable[[str], Results]
) -> None:
    """A plain REQ socket and another msgpack library get the results of our client."""
    assert anonymous(server.results(play_by_hand(peer))) == anonymous(expected("fcfs"))


# Peers that misbehave


def send_frames(address: str, frames: list[bytes], kind: int = zmq.DEALER) -> None:
    """Send a message of these frames and close the socket."""
    raw = Raw(address, kind)
    raw.socket.linger = 1000
    raw.socket.send_multipart(frames)
    raw.close()


def send_bytes(address: str, data: bytes) -> None:
    """Send bytes that are not ZeroMQ and close the connection."""
    host, port = address.removeprefix("tcp://").split(":")
    with socket.create_connection((host, int(port)), SOON_S) as connection:
        connection.sendall(data)


def say_hello_and_vanish(address: str) -> None:
    """Open a session and send nothing more."""
    send_frames(address, [b"", msgpack.packb({"type": "hello", "versions": [1]})])


MISCHIEF: dict[str, Callable[[str], None]] = {
    "one frame": lambda address: send_frames(address, [b"hello"]),
    "one empty frame": lambda address: send_frames(address, [b""]),
    "two empty frames": lambda address: send_frames(address, [b"", b""]),
    "seven empty frames": lambda address: send_frames(address, [b""] * 7),
    "twenty frames": lambda address: send_frames(address, [b"x"] * 20),
    "ten thousand frames": lambda address: send_frames(address, [b"x"] * 10_000),
    "an empty message": lambda address: send_frames(address, [b""], zmq.REQ),
    "a message of 17 MiB": lambda address: send_frames(address, [b"", bytes(17 * 2**20)]),
    "a message of 65 MiB": lambda address: send_frames(address, [b"", bytes(65 * 2**20)]),
    "nothing": lambda address: Raw(address).close(),
    "a hello": say_hello_and_vanish,
    "no bytes": lambda address: send_bytes(address, b""),
    "half a greeting": lambda address: send_bytes(address, b"\xff\x00\x00\x00"),
    "a web browser": lambda address: send_bytes(address, b"GET / HTTP/1.1\r\n\r\n"),
    "noise": lambda address: send_bytes(address, bytes(range(256)) * 100),
}


@pytest.fixture(scope="module")
def pestered(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for all misbehaving clients, one after the other."""
    where = tmp_path_factory.mktemp("pestered")
    processes = Processes(where)
    try:
        yield Server(processes, folder / "small.yaml", out=where / "out")
    finally:
        processes.end()


@pytest.mark.parametrize("mischief", MISCHIEF.values(), ids=MISCHIEF.keys())
def test_a_peer_that_misbehaves_does_no_harm(
    pestered: Server, expected: Callable[[str], Results], mischief: Callable[[str], None]
) -> None:
    """A session gets the same results while another client sends invalid data."""
    policy = make_policy("easy")
    session = ""
    with Connection(pestered.address) as connection:
        welcome = connection.hello(client="easy")
        session = welcome.session
        view = View(welcome.platform)
        for turn in range(1000):
            if turn == 10:
                mischief(pestered.address)
            answer = connection.decide(view.decisions)
            if answer.ended:
                break
            view.apply(answer.now_s, answer.events)
            policy(view)
    assert anonymous(pestered.results(session)) == anonymous(expected("easy"))
    assert pestered.process.poll() is None


def test_a_dealer_gets_its_answers_in_order(server: Server) -> None:
    """A client that does not wait gets a reply to each message, in their order."""
    raw = Raw(server.address, zmq.DEALER)
    for number in range(50):
        raw.socket.send_multipart(
            [b"", msgpack.packb({"type": "hello", "versions": [100 + number]})]
        )
    for number in range(50):
        delimiter, body = raw.socket.recv_multipart()
        assert delimiter == b""
        assert f"the client supports {100 + number};" in msgpack.unpackb(body)["message"]
    raw.close()


def test_a_client_that_answers_twice_is_heard_once(
    server: Server, expected: Callable[[str], Results]
) -> None:
    """Each request that is sent twice without waiting gets two replies and is executed once."""
    raw = Raw(server.address, zmq.DEALER)
    policy = make_policy("easy")
    with Connection(server.address) as connection:
        welcome = connection.hello(client="easy")
    view = View(welcome.platform)
    for seq in range(1, 1000):
        request = {"type": "decisions", "session": welcome.session, "seq": seq}
        decisions = [msgspec.to_builtins(decision) for decision in view.decisions]
        body = msgpack.packb(request | {"decisions": decisions})
        raw.socket.send_multipart([b"", body])
        raw.socket.send_multipart([b"", body])
        first, second = (raw.socket.recv_multipart()[-1] for _ in range(2))
        assert first == second
        answer = decode_server_message(first)
        if not isinstance(answer, Events):
            break
        view.apply(answer.now_s, answer.events)
        policy(view)
    raw.close()
    assert anonymous(server.results(welcome.session)) == anonymous(expected("easy"))


def test_a_job_of_absurdly_many_cores_does_not_kill_the_server(server: Server, peer: Raw) -> None:
    """A submitted job with more cores than an integer column can hold is rejected."""
    session = peer.ask("hello", versions=[1], scenario="small")["session"]
    job = {"type": "submit_job", "job_id": 10**6, "cores": 2**63, "run_s": 1.0}
    answer = peer.ask("decisions", session=session, seq=1, decisions=[job])
    assert answer.get("code") != "internal_error"
    assert peer.ask("hello", versions=[1], scenario="small")["type"] == "welcome"
    assert server.process.poll() is None


# Lost messages


Loses = Callable[[int, bytes], bool]
"""Tells from an answer's number and its request whether the answer is lost."""


def every(count: int) -> Loses:
    """Lose one reply in every `count`; 0: none."""
    return lambda number, _: count > 0 and number % count == 0


def the_first_to(word: bytes) -> Loses:
    """Lose the first reply to a request that contains a word."""
    still = iter([True])
    return lambda _, request: word in request and next(still, False)


class Post(threading.Thread):
    """A service behind a proxy that loses, repeats and delays replies.

    Args:
        service: the service.
        loses: which answers are lost.
        double: every request is handed in twice, and both answers are delivered.
    """

    def __init__(self, service: Service, loses: Loses, *, double: bool = False) -> None:
        super().__init__(daemon=True)
        self._service = service
        self._loses, self._double = loses, double
        self._over = threading.Event()
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.rcvtimeo = 20
        self._socket.linger = 500
        self.address = f"tcp://127.0.0.1:{self._socket.bind_to_random_port('tcp://127.0.0.1')}"
        self.lost = 0

    def run(self) -> None:
        """Forward messages."""
        count = 0
        while not self._over.is_set():
            try:
                *envelope, body = self._socket.recv_multipart()
            except zmq.Again:
                continue
            for _ in range(2 if self._double else 1):
                count += 1
                answer = self._service.answer(body)
                self._service.tidy()
                if self._loses(count, body):
                    self.lost += 1
                else:
                    self._socket.send_multipart([*envelope, answer])
        self._socket.close()
        self._context.term()

    def __enter__(self) -> Post:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(SOON_S)


@pytest.mark.parametrize(("lose", "double"), [(3, False), (2, False), (0, True), (5, True)])
def test_answers_that_are_lost_or_come_twice_change_nothing(
    folder: Path, tmp_path: Path, expected: Callable[[str], Results], lose: int, double: bool
) -> None:
    """A client repeats requests without a reply, and the results are the same."""
    service = Service(Library([folder / "small.yaml"]).open, None, tmp_path / "out")
    with Post(service, every(lose), double=double) as post:
        timeouts = Timeouts(resend_s=0.02, reply_s=SOON_S)
        metrics = schedule(
            make_policy("easy"),
            post.address,
            name="easy",
            description=describe("easy"),
            timeouts=timeouts,
        )
    service.close("over")
    assert post.lost > 10 or not lose
    (results,) = (tmp_path / "out").glob("[!.]*")
    assert anonymous(read(results)) == anonymous(expected("easy"))
    assert metrics == json.loads(expected("easy")["metrics.json"])


def test_a_hello_whose_answer_is_lost_opens_one_session(folder: Path, tmp_path: Path) -> None:
    """A repeated hello opens no second session."""
    service = Service(Library([folder / "small.yaml"]).open, None, tmp_path / "out")
    with Post(service, the_first_to(b"unlucky")) as post:
        for client in ("lucky", "unlucky"):
            with Connection(post.address, Timeouts(0.02, SOON_S)) as connection:
                connection.hello(client=client)
    assert post.lost == 1
    service.close("over")
    assert len(list((tmp_path / "out").glob("[!.]*"))) == 2


def test_a_bye_whose_answer_is_lost_is_no_error(folder: Path) -> None:
    """A repeated bye gets a goodbye."""
    service = Service(Library([folder / "small.yaml"]).open)
    with (
        Post(service, the_first_to(b"bye")) as post,
        Connection(post.address, Timeouts(0.02, SOON_S)) as connection,
    ):
        connection.hello(client="leaver")
        connection.bye()
    assert post.lost == 1
    assert not service.stop("over")  # no session is left that would be cut short


# Those who die


def test_nobody_there_is_found_out_in_time() -> None:
    """A client without a server gives up after its timeout, not before."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
        began_s = time.monotonic()
        with (
            pytest.raises(ServerGoneError, match=r"no server answers at .*: waited 0\.5 s"),
            Connection(address, Timeouts(0.1, 0.5)) as connection,
        ):
            connection.hello(client="lonely")
        assert time.monotonic() - began_s >= 0.5


def test_a_server_that_dies_is_gone_for_the_client(server: Server) -> None:
    """A client gives up on a server that was killed after its timeout, not before."""
    policy = make_policy("fcfs")
    killed_s: list[float] = []

    def decide(view: View) -> None:
        policy(view)
        if view.now_s > 10_000.0 and not killed_s:
            server.process.kill()
            server.process.wait()
            killed_s.append(time.monotonic())

    with pytest.raises(ServerGoneError, match="no reply from the server"):
        schedule(decide, server.address, scenario="long", timeouts=Timeouts(0.2, 1.0))
    assert time.monotonic() - killed_s[0] >= 0.9


def test_a_server_that_dies_ends_the_schedule_command(server: Server, processes: Processes) -> None:
    """`hpcosim schedule` fails with one line if the server was killed."""
    client = processes.start(
        "schedule", "fcfs", "--connect", server.address, "--scenario", "long", "--timeout-s", "1"
    )
    eventually(lambda: any(entry["jobs_over"] for entry in server.log("progress")))
    server.process.kill()
    out, err = client.communicate(timeout=SOON_S)
    assert client.returncode == 1
    assert out == ""
    assert err == f"error: no reply from the server at {server.address}: waited 1 s\n"


def in_the_middle_of(run: subprocess.Popen[str], processes: Processes) -> dict[str, int]:
    """Wait until `hpcosim run` has simulated for a while; return its processes by subcommand."""
    both: dict[str, int] = eventually(lambda: len(found := children(run.pid)) == 2 and found)
    processes.watch(*both.values())
    eventually(lambda: waits(both["schedule"]) > WELL_INTO_A_RUN)
    return both


@pytest.mark.parametrize("victim", ["schedule", "serve"])
@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_a_process_that_dies_fails_the_run(
    processes: Processes, folder: Path, tmp_path: Path, victim: str, transport: str
) -> None:
    """If the scheduler or the server is killed: one error, exit 1, results so far are written."""
    run = processes.start(
        "run", folder / "long.yaml", "--transport", transport, "--out", tmp_path / "out"
    )
    both = in_the_middle_of(run, processes)
    os.kill(both[victim], signal.SIGKILL)
    out, err = run.communicate(timeout=SOON_S)
    assert run.returncode == 1
    assert out == ""
    *warnings, error = err.splitlines()
    named = [f"warning: incomplete results: {tmp_path / 'out'}"]
    assert warnings == (named if victim == "schedule" else [])
    assert error.startswith("error: ")
    assert "Traceback" not in err
    assert not any(map(alive, both.values()))
    if victim == "schedule":  # the server was there to write
        about = json.loads((tmp_path / "out" / "run.json").read_text())
        assert not about["complete"]
        metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
        assert metrics["jobs_completed"] > 0
        assert sorted(read(tmp_path / "out")) == sorted(FILES)
    else:
        assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".out*"))


def test_a_run_fails_if_its_server_is_stopped(processes: Processes, folder: Path) -> None:
    """If only the server of a run is stopped: the results so far, the reason and exit status 1."""
    run = processes.start("run", folder / "long.yaml", "--transport", "ipc")
    os.kill(in_the_middle_of(run, processes)["serve"], signal.SIGTERM)
    _, err = run.communicate(timeout=SOON_S)
    assert run.returncode == 1
    incomplete, error = err.splitlines()
    assert incomplete == "warning: incomplete results: results/long-easy"
    assert "stopped by SIGTERM" in error


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)],
)
def test_a_run_that_is_stopped_leaves_nothing_running(
    processes: Processes, folder: Path, tmp_path: Path, number: signal.Signals, status: int
) -> None:
    """A run stopped by a signal ends both processes, writes the results so far, and names them."""
    run = processes.start("run", folder / "long.yaml", "--out", tmp_path / "out")
    both = in_the_middle_of(run, processes)
    run.send_signal(number)
    _, err = run.communicate(timeout=SOON_S)
    assert run.returncode in (status, 128 + number)
    assert err.splitlines() == [
        f"warning: incomplete results: {tmp_path / 'out'}",
        f"error: stopped by {number.name}",
    ]
    about = json.loads((tmp_path / "out" / "run.json").read_text())
    assert about["ended_because"] == f"stopped by {number.name}"
    assert not any(map(alive, both.values()))
    assert sorted(read(tmp_path / "out")) == sorted(FILES)


def test_a_scheduler_that_hangs_is_dropped_with_results(
    processes: Processes, folder: Path, tmp_path: Path
) -> None:
    """After the idle timeout a session ends, its results are written, and its failure is logged."""
    server = Server(
        processes,
        folder / "small.yaml",
        "--once",
        "--set",
        "limits.idle_timeout_s=0.3",
        out=tmp_path / "out",
    )
    raw = Raw(server.address)
    session = raw.ask("hello", versions=[1], client="sleepy")["session"]
    raw.ask("decisions", session=session, seq=1)
    assert server.end() == 1
    raw.close()
    about = json.loads((tmp_path / "out" / "run.json").read_text())
    assert about["ended_because"] == "no message from the client for more than 0.3 s"
    assert not about["complete"]
    assert sorted(read(tmp_path / "out")) == sorted(FILES)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_told_to_stop_writes_what_it_has(
    server: Server, peer: Raw, number: signal.Signals
) -> None:
    """On a signal the server writes the results of open sessions and exits with 0."""
    sessions = [peer.ask("hello", versions=[1])["session"] for _ in range(3)]
    peer.ask("decisions", session=sessions[0], seq=1)
    server.process.send_signal(number)
    assert server.end() == 0
    for session in sessions:
        about = json.loads(server.results(session)["run.json"])
        assert about["ended_because"] == f"stopped by {number.name}"
    assert server.log("stopped")


def test_a_server_with_once_that_is_stopped_exits_with_0(
    processes: Processes, folder: Path, tmp_path: Path
) -> None:
    """A session that SIGTERM ends is no failure of the server."""
    server = Server(processes, folder / "small.yaml", "--once", out=tmp_path / "out")
    raw = Raw(server.address)
    raw.ask("hello", versions=[1])
    server.process.terminate()
    assert server.end() == 0
    raw.close()


def test_every_line_of_the_log_is_json_and_no_secret_is_in_it(server: Server, peer: Raw) -> None:
    """Every line of the log is JSON, and none has the name of a session."""
    session = play_by_hand(peer)
    peer.ask("decisions", session=session, seq=10_000)
    server.process.terminate()
    assert server.end() == 0
    entries = [json.loads(line) for line in server.lines]
    assert {"listening", "session_opened", "session_closed", "results_written", "stopped"} <= {
        entry["event"] for entry in entries
    }
    assert session not in "".join(server.lines)


def test_another_client_takes_over_the_session_of_one_that_died(
    server: Server, processes: Processes, expected: Callable[[str], Results]
) -> None:
    """`hpcosim schedule --session` continues a session with the same results."""
    policy = make_policy("easy")
    with Connection(server.address) as connection:
        welcome = connection.hello(client="easy")
        view = View(welcome.platform)
        for _ in range(15):
            answer = connection.decide(view.decisions)
            view.apply(answer.now_s, answer.events)
            policy(view)
    heir = processes.start(
        "schedule", "easy", "--connect", server.address, "--session", welcome.session
    )
    out, errors = heir.communicate(timeout=SOON_S)
    assert ("40 jobs" in out, errors) == (True, "")
    assert heir.returncode == 0
    assert anonymous(server.results(welcome.session)) == anonymous(expected("easy"))


def test_a_second_session_does_not_spoil_the_results_of_a_server_for_one(
    processes: Processes,
    folder: Path,
    tmp_path: Path,
    expected: Callable[[str], Results],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server with --once rejects a second client."""
    server = Server(processes, folder / "small.yaml", "--once", out=tmp_path / "out")
    owner, stranger = Raw(server.address), Raw(server.address)
    answers = []
    ask = owner.ask

    def ask_both(kind: str, **fields: Any) -> dict[str, Any]:
        answer = ask(kind, **fields)
        if kind == "hello":
            answers.append(stranger.ask("hello", versions=[1], client="stranger"))
        return answer

    monkeypatch.setattr(owner, "ask", ask_both)
    play_by_hand(owner)
    assert [answer["code"] for answer in answers] == ["too_many_sessions"]
    server.end()
    owner.close()
    stranger.close()
    assert anonymous(read(tmp_path / "out")) == anonymous(expected("fcfs"))


def test_an_address_that_is_taken_is_an_error(
    server: Server, processes: Processes, folder: Path
) -> None:
    """A second server at an address fails with one line."""
    second = processes.start("serve", folder / "small.yaml", "--bind", server.address)
    _, err = second.communicate(timeout=SOON_S)
    assert second.returncode == 1
    assert err.startswith(f"error: cannot listen at {server.address}: Address already in use")
    assert len(err.splitlines()) == 1


def test_a_finished_session_is_answered_before_the_server_ends(
    processes: Processes, folder: Path, tmp_path: Path, expected: Callable[[str], Results]
) -> None:
    """The client of a --once server gets the last reply before the server ends."""
    for number in range(3):
        out = tmp_path / str(number)
        server = Server(processes, folder / "small.yaml", "--once", out=out)
        client = processes.start("schedule", "easy", "--connect", server.address)
        said, errors = client.communicate(timeout=SOON_S)
        assert ("40 jobs" in said, errors) == (True, "")
        assert (client.returncode, server.end()) == (0, 0)
        assert read(out) == expected("easy")
