"""The live view of servers with several processes: results, and processes that are killed."""

from __future__ import annotations

import base64
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hpcosim_view.run.frame import decode_frame
from support.commands import command as hpcosim
from support.live_sessions import scenario_in
from support.processes import SOON_S, Processes, Server, eventually, processes, read

__all__ = ["processes"]
pytestmark = pytest.mark.slow


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """The scenario `live`."""
    return scenario_in(tmp_path)


def live_server(processes: Processes, scenario: Path, tmp_path: Path, *options: str) -> Server:
    """Return a server of two workers with a live view, which ends after two sessions."""
    options = ("--workers", "2", "--sessions", "2", "--http", "127.0.0.1:0", *options)
    return Server(processes, scenario, *options, out=tmp_path / "out")


def url_of(server: Server) -> str:
    """Return the URL of the page of a server."""
    url: str = eventually(lambda: server.log("live_page"))[0]["url"]
    return url.rstrip("/")


def sessions_of(url: str, count: int = 1) -> list[dict[str, Any]]:
    """Return the sessions that the page shows, once there are so many."""

    def listed() -> list[dict[str, Any]]:
        try:
            found: list[dict[str, Any]] = httpx.get(f"{url}/api/sessions").json()["sessions"]
        except httpx.TransportError:  # the page is about to be served again
            return []
        return found if len(found) >= count else []

    found: list[dict[str, Any]] = eventually(listed)
    return found


def pid_of(server: Server, process: str) -> int:
    """Return the number of a process, as it was started last."""
    started = eventually(
        lambda: [e for e in server.log("process_started") if e["process"] == process]
    )
    return int(started[-1]["pid"])


def kill(server: Server, process: str) -> None:
    """Kill a process, and wait until it runs again."""
    pid = pid_of(server, process)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: pid_of(server, process) != pid)


def maximum_speed(url: str, label: str) -> None:
    """Let a session run as fast as possible."""
    assert httpx.post(f"{url}/api/sessions/{label}/pace", json={"speed": None}).is_success


def frames_of(lines: Iterator[str]) -> Iterator[int]:
    """Yield the number of started jobs in each frame of a stream; negative: it begins again."""
    for line in lines:
        if line.startswith("event: restart"):
            yield -1
        elif line.startswith("event: end"):
            return
        elif line.startswith("data: ") and len(line) > 20:
            yield len(decode_frame(base64.b64decode(line[6:])).columns["start.job"])


def same_results(out: Path, scheduler: str, scenario: Path, folder: Path) -> bool:
    """Return whether a session has the bytes of a run without a server."""
    plain = folder / f"plain-{scheduler}"
    options = ("--set", f"scheduler.name={scheduler}", "--transport", "inproc")
    run = hpcosim("run", scenario, *options, "--out", plain)
    assert run.status == 0, run.err
    (session,) = out.glob(f"live-{scheduler}-*")
    expected, found = read(plain), read(session)
    return all(found[name] == expected[name] for name in expected if name != "run.json")


def test_viewers_of_workers_change_no_result(
    processes: Processes, scenario: Path, tmp_path: Path
) -> None:
    """Two sessions in two workers, one watched, one not, write the bytes of runs without a page."""
    server = live_server(processes, scenario, tmp_path, "--speed", "500")
    url = url_of(server)
    names = ("easy", "fcfs")
    clients = [processes.start("schedule", name, "--connect", server.address) for name in names]
    labels = {each["scheduler"]: each["label"] for each in sessions_of(url, 2)}
    assert len(set(labels.values())) == 2
    path = f"{url}/api/sessions/{labels['easy']}/frames"
    with httpx.stream("GET", path, timeout=SOON_S) as stream:
        frames = frames_of(stream.iter_lines())
        started = next(frames)
        for label in labels.values():
            maximum_speed(url, label)
        assert started + sum(frames) == 30
    assert [client.wait(SOON_S) for client in clients] == [0, 0]
    assert server.end() == 0
    for name in names:
        assert same_results(tmp_path / "out", name, scenario, tmp_path)


def test_a_killed_page_and_a_killed_worker_show_their_sessions_again(
    processes: Processes, scenario: Path, tmp_path: Path
) -> None:
    """The page comes back with its address, the worker with its session; the result is the same."""
    server = live_server(processes, scenario, tmp_path, "--speed", "50")
    url = url_of(server)
    client = processes.start("schedule", "easy", "--connect", server.address)
    (session,) = sessions_of(url)
    label = session["label"]
    path = f"{url}/api/sessions/{label}/frames"
    kill(server, "live page")
    assert [each["label"] for each in sessions_of(url)] == [label]
    with httpx.stream("GET", path, timeout=SOON_S) as stream:
        frames = frames_of(stream.iter_lines())
        assert next(frames) >= 0
        kill(server, "worker 1")
        while next(frames) >= 0:
            pass
        maximum_speed(url, label)
        assert sum(frames) == 30
    assert client.wait(SOON_S) == 0
    eventually(lambda: list((tmp_path / "out").glob("live-easy-*/metrics.json")))
    metrics = httpx.get(f"{url}/metrics").text
    assert "hpcosim_sessions_open 0.0" in metrics
    eventually(lambda: "hpcosim_process_restarts_total 2.0" in httpx.get(f"{url}/metrics").text)
    assert httpx.get(f"{url}/healthz").text == "ok\n"
    server.process.terminate()
    server.end()
    assert same_results(tmp_path / "out", "easy", scenario, tmp_path)


def test_a_page_that_hangs_disturbs_no_session(
    processes: Processes, scenario: Path, tmp_path: Path
) -> None:
    """A watched session ends while the process of the page is stopped."""
    server = live_server(processes, scenario, tmp_path, "--speed", "100")
    url = url_of(server)
    client = processes.start("schedule", "easy", "--connect", server.address)
    (session,) = sessions_of(url)
    with httpx.stream("GET", f"{url}/api/sessions/{session['label']}/frames") as stream:
        next(frames_of(stream.iter_lines()))
        maximum_speed(url, session["label"])
        pid = pid_of(server, "live page")
        os.kill(pid, signal.SIGSTOP)
        try:
            assert client.wait(SOON_S) == 0
            eventually(lambda: list((tmp_path / "out").glob("live-easy-*/metrics.json")))
        finally:
            os.kill(pid, signal.SIGCONT)
    assert sessions_of(url)[0]["label"] == session["label"]
    server.process.terminate()
    server.end()
    assert same_results(tmp_path / "out", "easy", scenario, tmp_path)


def test_lost_sessions_are_in_the_status_and_in_the_figures(
    processes: Processes, scenario: Path, tmp_path: Path
) -> None:
    """Without a journal a killed worker loses its session: page, metrics and status say so."""
    server = live_server(
        processes, scenario, tmp_path, "--speed", "10", "--set", "journal.keep=false"
    )
    url = url_of(server)
    processes.start("schedule", "easy", "--connect", server.address)
    sessions_of(url)
    kill(server, "worker 1")
    eventually(lambda: "was killed" in sessions_of(url)[0]["ended_because"])
    lost = 'hpcosim_failures_total{cause="internal_error"} 1.0'
    eventually(lambda: lost in httpx.get(f"{url}/metrics").text)
    status = hpcosim("status", "--connect", server.address, "--json")
    told = json.loads(status.out)
    assert (told["failures"], told["restarts"]) == ({"internal_error": 1}, 1)
    assert "1 restart after a failure" in hpcosim("status", "--connect", server.address).out


def test_a_server_that_drains_is_not_healthy(
    processes: Processes, scenario: Path, tmp_path: Path
) -> None:
    """After SIGTERM, /healthz says so as long as a worker is busy; the server then ends."""
    server = live_server(processes, scenario, tmp_path)
    url = url_of(server)
    assert httpx.get(f"{url}/healthz").text == "ok\n"
    worker = pid_of(server, "worker 1")
    os.kill(worker, signal.SIGSTOP)
    try:
        server.process.terminate()
        eventually(lambda: httpx.get(f"{url}/healthz").status_code == 503)
        assert "draining" in httpx.get(f"{url}/healthz").text.splitlines()
    finally:
        os.kill(worker, signal.SIGCONT)
    assert server.end() == 0
