"""Scripts that are schedulers: connecting, their options, and errors in one line."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from hpcosim_client import (
    AddressError,
    Connection,
    ServerGoneError,
    ServerRefusedError,
    Timeouts,
    View,
    connection,
    main,
    script,
)
from hpcosim_protocol import Error
from support.processes import Processes, Server

SCENARIO = """name: tiny
platform: {nodes: [{count: 4, processors: [{cores: 2, static_w: 10, dynamic_w: 0}]}]}
workload:
  synthetic: {model: poisson, jobs: 20, mean_interarrival_s: 60, cores: [1, 8], run_s: [10, 900]}
"""


def start_all_that_fit(view: View) -> None:
    """Start every job there is room for."""
    for job in view.queue.values():
        view.start(job)


@pytest.fixture
def closed_port() -> Iterator[str]:
    """The address of a port at which no server listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        yield f"tcp://127.0.0.1:{probe.getsockname()[1]}"


@pytest.mark.parametrize(
    ("address", "hint"),
    [
        ("localhost:28080", "did you mean tcp://localhost:28080?"),
        ("//127.0.0.1:28080", "did you mean tcp://127.0.0.1:28080?"),
        ("tcp://localhost", "expected tcp://HOST:PORT or ipc://PATH"),
        ("http://localhost:28080", "expected tcp://HOST:PORT or ipc://PATH"),
    ],
)
def test_an_invalid_address_is_explained(address: str, hint: str) -> None:
    """Without a scheme, the address with `tcp://` is proposed."""
    with pytest.raises(AddressError) as error:
        Connection(address)
    assert str(error.value).startswith(f"{address!r} is not an address")
    assert str(error.value).endswith(hint)


def test_an_absent_server_is_reported_before_the_timeout(
    closed_port: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the address and how long the client retries; then the client gives up."""
    monkeypatch.setattr(connection, "NOTICE_S", 0.01)
    timeouts = Timeouts(resend_s=0.05, hello_s=0.21)
    with (
        Connection(closed_port, timeouts) as client,
        pytest.raises(ServerGoneError, match=r"no server answers at .*: waited 0\.21 s"),
    ):
        client.hello(client="alone")
    assert caplog.messages == [f"no server answers at {closed_port}; retrying for 0.2 s"]


def test_a_script_without_a_server_ends_with_one_line(
    closed_port: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Exit status 1, no traceback."""
    with pytest.raises(SystemExit) as ended:
        main(start_all_that_fit, ["--connect", closed_port, "--timeout-s", "0.2"])
    assert ended.value.code == 1
    assert capfd.readouterr().err == f"error: no server answers at {closed_port}: waited 0.2 s\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--connect", "localhost:1"], "did you mean tcp://localhost:1?"),
        (["--set", "seed"], "expected FIELD=VALUE, got 'seed'"),
        (["--seed", "x"], "invalid int value: 'x'"),
    ],
)
def test_bad_options_of_a_script(
    arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2 and the reason."""
    with pytest.raises(SystemExit) as ended:
        main(start_all_that_fit, arguments)
    assert ended.value.code == 2
    assert message in capfd.readouterr().err


def test_ctrl_c_ends_a_script_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Exit status 130, as of a shell command."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(script, "run", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(start_all_that_fit, [])
    assert ended.value.code == 130
    assert capfd.readouterr().err == "error: stopped by SIGINT\n"


@pytest.mark.slow
def test_a_session_is_resumed_after_ctrl_c(
    processes: Processes,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Ctrl-C leaves the session open, and `--session` continues it to the end."""
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    server = Server(processes, tmp_path / "tiny.yaml", "--once", out=tmp_path / "out")

    def interrupted(view: View) -> None:
        start_all_that_fit(view)
        if view.now_s > 0:
            raise KeyboardInterrupt

    with pytest.raises(SystemExit):
        main(interrupted, ["--connect", server.address])
    found = re.fullmatch(
        r"session (\w{28}) stays open for 600 s; resume it with --session \1", caplog.messages[-1]
    )
    assert found
    capfd.readouterr()
    main(start_all_that_fit, ["--connect", server.address, "--session", found[1], "--json"])
    assert json.loads(capfd.readouterr().out)["jobs_completed"] == 20
    assert server.end() == 0


def test_a_label_is_no_identifier_of_a_session(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """If no session has a name of 8 characters, the error says what it is."""

    def reject(*_: object) -> NoReturn:
        raise ServerRefusedError(Error(code="unknown_session", message="unknown session"))

    monkeypatch.setattr(connection.Exchange, "reply_to", reject)
    for session, what in (("0123abcd", "0123abcd is a label of .* the full identifier"), ("x", "")):
        with pytest.raises(SystemExit):
            main(start_all_that_fit, ["--session", session])
        assert re.search(f"unknown_session: {what or 'unknown session'}", capfd.readouterr().err)


@pytest.mark.slow
def test_a_script_changes_the_scenario_and_prints_the_metrics(
    processes: Processes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`--set` and `--seed` reach the server; the function's name is recorded as the policy."""
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    server = Server(processes, tmp_path / "tiny.yaml", "--once", out=tmp_path / "out")
    changes = ["--set", "workload.synthetic.jobs=7", "--seed", "3", "--json"]
    main(start_all_that_fit, ["--connect", server.address, *changes])
    assert server.end() == 0
    metrics = json.loads(capfd.readouterr().out)
    assert metrics["jobs_completed"] == 7
    (run,) = tmp_path.glob("out/**/run.json")
    recorded = json.loads(run.read_text())
    assert recorded["seed"] == 3
    assert recorded["policy"] == {"name": "start_all_that_fit"}
