"""The report of the verdicts, and the command that prints it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from hpcosim.cli.main import app
from hpcosim_conformance import Verdict, conforms, report, rules
from hpcosim_conformance.servers import server_under_test
from support.paths import ROOT
from support.processes import SOON_S

NONCE = rules()["R-nonce"]
PASSED = Verdict("hello_again", "passed", NONCE)
FAILED = Verdict("hello_again", "failed", NONCE, "it opened two", "a line\n\x1b[31mred")
NOT_TRIED = Verdict("too_large", "not tried", NONCE, "max_message_bytes is 0")
BROKEN = [sys.executable, str(ROOT / "tests" / "support" / "broken_client.py")]


def client(fault: str) -> str:
    """Return the command line of a client with a fault."""
    return f"{shlex.join([*BROKEN, fault])} {{address}}"


def test_report_shows_the_rule_and_the_output_of_a_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A failure is followed by its rule and the output, with control characters escaped."""
    report([PASSED, FAILED, NOT_TRIED], as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "passed     hello_again",
        "failed     hello_again",
        "    it opened two",
        "    R-nonce, section 6, Resending and resuming:",
        f'    "{NONCE.text}"',
        "    | a line",
        "    | \\x1b[31mred",
        "not tried  too_large                      max_message_bytes is 0",
        "",
        "1 passed, 1 failed, 1 not tried",
    ]


def test_json_report(capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON report has the outcome and the rule of every check."""
    report([FAILED], as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["conforms"] is False
    assert document["checks"] == [FAILED._asdict() | {"rule": NONCE._asdict()}]


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [([PASSED, NOT_TRIED], True), ([NOT_TRIED], False), ([PASSED, FAILED], False)],
)
def test_a_peer_conforms_if_no_check_failed(verdicts: list[Verdict], expected: bool) -> None:
    """A peer conforms if at least one check passed and none failed."""
    assert conforms(verdicts) is expected


@pytest.mark.parametrize(
    ("options", "status", "output"),
    [
        (["--client", client("none")], 0, "1 passed, 0 failed"),
        (
            ["--client", "/no/such {address}"],
            2,
            "error: --client: cannot start /no/such: No such file",
        ),
        (["--client", "x {address}", "--server", "ipc://x"], 2, "error: expected exactly one of"),
        ([], 2, "error: expected exactly one of --client and --server"),
        (["--client", "x {address}", "--scenario", "demo"], 2, "error: --scenario applies only to"),
        (["--client", "x {address}", "--only", "nothing"], 2, "error: --only: no check 'nothing'"),
    ],
    ids=["sound", "no program", "both", "neither", "scenario", "no check"],
)
def test_exit_status_of_the_command(options: list[str], status: int, output: str) -> None:
    """The exit status is 0 if no rule was broken and 2, with one line, for an invalid command."""
    done = CliRunner().invoke(app, ["conformance", "--only", "simulation", *options])
    assert done.exit_code == status, done.output
    assert output in (done.stderr if status else done.stdout)
    assert len(done.stderr.splitlines()) == (status != 0)


def test_the_command_without_a_server_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a server the command prints one line, as `hpcosim ping`, and exits with 1."""
    monkeypatch.setattr(server_under_test, "CONNECT_S", 0.2)
    done = CliRunner().invoke(app, ["conformance", "--server", "ipc:///tmp/no-hpcosim-server"])
    what = "error: no server answers at ipc:///tmp/no-hpcosim-server: waited 0.2 s"
    assert (done.exit_code, done.stderr.splitlines()) == (1, [what])


@pytest.mark.slow
def test_the_command_exits_with_status_1_if_a_rule_is_broken() -> None:
    """The report is on standard output, and standard error is empty."""
    words = ["conformance", "--client", client("ends_badly"), "--only", "simulation"]
    command = [sys.executable, "-m", "hpcosim.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SOON_S)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.endswith("0 passed, 1 failed\n")
