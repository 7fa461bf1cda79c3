"""The live view of real servers and runs: results, broken viewers, signals, wrong usage."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from hpcosim_view.run.folder import read_folder
from hpcosim_view.run.frame import Frame, append, decode_frame
from support.commands import command as hpcosim
from support.live_sessions import scenario_in
from support.processes import (
    SOON_S,
    Processes,
    Server,
    eventually,
    folder,
    processes,
    read,
)

__all__ = ["folder", "processes"]
pytestmark = pytest.mark.slow


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """The scenario `live`."""
    return scenario_in(tmp_path)


@pytest.fixture
def plain(scenario: Path, tmp_path: Path) -> dict[str, bytes]:
    """The results of a run without viewers."""
    out = tmp_path / "plain"
    assert hpcosim("run", scenario, "--transport", "inproc", "--out", out).status == 0
    return read(out)


def live_server(processes: Processes, scenario: Path, out: Path, *options: str) -> Server:
    """Return a server with a live view at a free port, which ends after one session."""
    return Server(processes, scenario, "--once", "--http", "127.0.0.1:0", *options, out=out)


def url_of(server: Server) -> str:
    """Return the URL of the page of a server."""
    url: str = eventually(lambda: server.log("live_page"))[0]["url"]
    return url.rstrip("/")


def label_of(url: str) -> str:
    """Return the label of the only session, once it is open."""
    sessions = eventually(lambda: httpx.get(f"{url}/api/sessions").json()["sessions"])
    label: str = sessions[0]["label"]
    return label


def frames_of(lines: Iterator[str]) -> Iterator[tuple[int, Frame]]:
    """Yield the number and the frame of each event with a frame."""
    number = 0
    for line in lines:
        if line.startswith("id: "):
            number = int(line[4:])
        elif line.startswith("data: ") and len(line) > 20:
            yield number, decode_frame(base64.b64decode(line[6:]))
        elif line.startswith("event: end"):
            return


@contextmanager
def stuck_viewer(url: str, label: str) -> Iterator[socket.socket]:
    """Connect a viewer that reads nothing."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port)) as connection:
        path = f"/api/sessions/{label}/frames"
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
        yield connection


def test_viewers_change_no_result(
    processes: Processes, scenario: Path, tmp_path: Path, plain: dict[str, bytes]
) -> None:
    """Viewers that read, get stuck, or come back leave the results as they are."""
    server = live_server(processes, scenario, tmp_path / "out", "--speed", "100")
    url = url_of(server)
    client = processes.start("schedule", "easy", "--connect", server.address)
    label = label_of(url)
    pace = f"{url}/api/sessions/{label}/pace"
    frames = []
    with stuck_viewer(url, label), stuck_viewer(url, label) as leaving:
        with httpx.stream("GET", f"{url}/api/sessions/{label}/frames", timeout=SOON_S) as stream:
            number, first = next(frames_of(stream.iter_lines()))
            frames.append(first)
        leaving.close()
        httpx.post(pace, json={"speed": None})
        headers = {"last-event-id": str(number)}
        path = f"{url}/api/sessions/{label}/frames"
        with httpx.stream("GET", path, headers=headers, timeout=SOON_S) as stream:
            frames += [frame for _, frame in frames_of(stream.iter_lines())]
        assert client.wait(SOON_S) == 0
    assert server.end() == 0
    results = read(tmp_path / "out")
    assert {name: results[name] for name in plain if name != "run.json"} == {
        name: plain[name] for name in plain if name != "run.json"
    }
    seen, written = append(frames), read_folder(tmp_path / "out")
    for name in ("job.id", "job.submit_s", "start.time_s", "end.time_s", "end.state"):
        assert seen.columns[name].tolist() == written.columns[name].tolist()


@pytest.mark.parametrize("transport", ["ipc", "tcp", "inproc"])
def test_a_watched_run_has_the_same_results(
    scenario: Path, tmp_path: Path, plain: dict[str, bytes], transport: str
) -> None:
    """A run with a live view and a pace writes the same bytes, and prints its address."""
    options = ("--watch", "--speed", "20000", "--transport", transport)
    done = hpcosim("run", scenario, *options, "--out", tmp_path / "out")
    assert done.status == 0, done.err
    assert "live view: http://127.0.0.1:" in done.err
    assert "?token=" in done.err
    assert read(tmp_path / "out") == plain


def test_the_pace_slows_the_run_down(scenario: Path, tmp_path: Path) -> None:
    """At 2000 simulated seconds a second, a run of 2617 s takes 1.3 s at least."""
    began_s = time.monotonic()
    options = ("--watch", "--speed", "2000", "--transport", "inproc")
    assert hpcosim("run", scenario, *options, "--out", tmp_path / "out").status == 0
    assert time.monotonic() - began_s > 2617 / 2000


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_paused_server_ends_at_once(
    processes: Processes, scenario: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """A signal ends a paused session, writes its results, and its scheduler learns of it."""
    server = live_server(processes, scenario, tmp_path / "out", "--speed", "1")
    url = url_of(server)
    client = processes.start("schedule", "easy", "--connect", server.address)
    label = label_of(url)
    httpx.post(f"{url}/api/sessions/{label}/pace", json={"paused": True})
    server.process.send_signal(number)
    server.end()
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["ended_because"] == f"stopped by {number.name}"
    assert client.wait(SOON_S) != 0


def test_viewers_and_schedulers_learn_that_a_server_was_killed(
    processes: Processes, scenario: Path, tmp_path: Path
) -> None:
    """After SIGKILL a stream breaks off, the scheduler ends with an error, no result is half."""
    server = live_server(processes, scenario, tmp_path / "out", "--speed", "100")
    url = url_of(server)
    client = processes.start("schedule", "easy", "--connect", server.address, "--timeout-s", "2")
    path = f"{url}/api/sessions/{label_of(url)}/frames"
    with httpx.stream("GET", path, timeout=SOON_S) as stream:
        frames = frames_of(stream.iter_lines())
        next(frames)
        server.process.kill()
        with pytest.raises(httpx.RemoteProtocolError):
            list(frames)
    assert client.wait(SOON_S) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("transport", ["ipc", "inproc"])
def test_a_paused_run_ends_at_once(
    processes: Processes, scenario: Path, tmp_path: Path, transport: str
) -> None:
    """SIGTERM ends a watched run that is paused, and its results are written."""
    options = ("--watch", "--speed", "1", "--transport", transport)
    run = processes.start("run", scenario, *options, "--out", tmp_path / "out")
    assert run.stderr is not None
    line = next(line for line in run.stderr if "live view" in line)
    url = urlsplit(line.split()[-1])
    with httpx.Client(base_url=f"{url.scheme}://{url.netloc}") as client:
        assert client.get(f"/?{url.query}").status_code == 303
        sessions = eventually(lambda: client.get("/api/sessions").json()["sessions"])
        client.post(f"/api/sessions/{sessions[0]['label']}/pace", json={"paused": True})
        run.terminate()
        assert run.wait(SOON_S) == 128 + signal.SIGTERM
    about = json.loads((tmp_path / "out" / "run.json").read_text())
    assert about["ended_because"] == "stopped by SIGTERM"


def test_the_log_has_the_token_only_if_it_is_generated(
    processes: Processes, scenario: Path, tmp_path: Path
) -> None:
    """A given token stays out of the log and is needed also on the loopback interface."""
    token = "a-token-of-20-letters"
    server = live_server(processes, scenario, tmp_path / "out", "--set", f"live.token={token}")
    url = url_of(server)
    assert token not in "".join(server.lines)
    assert httpx.get(f"{url}/healthz").status_code == 401
    headers = {"authorization": f"Bearer {token}"}
    assert httpx.get(f"{url}/healthz", headers=headers).status_code == 200


def test_a_port_in_use_is_one_clear_line(scenario: Path, tmp_path: Path) -> None:
    """A server or run that cannot listen ends before the simulation starts."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = hpcosim("serve", scenario, "--http", address, "--out", tmp_path / "out")
    assert done.status == 1
    (line,) = done.err.splitlines()
    assert line.startswith(f"error: cannot listen at {address}: ")
    assert "Address already in use; choose another port" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("serve", "demo", "--http", "8080"), "expected HOST:PORT, such as 127.0.0.1:8080"),
        (("serve", "demo", "--http", "127.0.0.1:99999"), "a port is at most 65535"),
        (("serve", "demo", "--http", "::1:80"), "expected HOST:PORT"),
        (("serve", "demo", "--speed", "60"), "--speed needs --http"),
        (("serve", "demo", "--http", "127.0.0.1:0", "--speed", "0"), "expected a number from"),
        (
            ("serve", "demo", "--http", "127.0.0.1:0", "--set", "live.token=x"),
            "live.token: expected",
        ),
        (("serve", "demo", "--set", f"live.token={'x' * 20}"), "live.token needs --http HOST:PORT"),
        (
            ("serve", "demo", "--http", "127.0.0.1:0", "--set", 'live.token=""'),
            "live.token: expected text of length >= 1, got ''",
        ),
        (
            ("serve", "demo", "--http", "127.0.0.1:0", "--set", "live.token=x"),
            "no token on 127.0.0.1",
        ),
        (("run", "demo", "--watch", "--speed", "1e13"), "from 1e-06 to 1e+12, auto or max"),
        (("run", "demo", "--speed", "60"), "--speed needs --watch"),
        (("run", "demo", "--watch", "--speed", "fast"), "got 'fast'"),
    ],
)
def test_wrong_usage_is_explained(options: tuple[str, ...], what: str) -> None:
    """Wrong options end with status 2 and say what was expected."""
    done = hpcosim(*options)
    assert done.status == 2
    assert what in " ".join(done.err.replace("│", " ").split())


def test_a_missing_extra_is_explained(tmp_path: Path) -> None:
    """Without the packages of the extra, the message says how to install them."""
    (tmp_path / "uvicorn.py").write_text("raise ImportError('missing')")
    done = hpcosim("run", "demo", "--watch", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.status == 2
    assert done.error == "the live view needs uvicorn: pip install 'hpcosim[live]'"
