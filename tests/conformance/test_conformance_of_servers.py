"""The conformance kit and servers: ours passes, and each fault is caught by the rule it breaks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hpcosim_conformance import rules
from hpcosim_conformance.kit import try_server
from hpcosim_conformance.rules import Rule
from hpcosim_conformance.server_checks import CHECKS
from hpcosim_conformance.verdict import Verdict
from hpcosim_scenarios.errors import CommandError
from hpcosim_scenarios.running.library import Library
from hpcosim_server.service.service import Service
from support.broken_server import BrokenServer
from support.paths import ROOT
from support.processes import SOON_S, Processes, Server

SCENARIO = ROOT / "scenarios" / "conformance.yaml"
NO_POWER = ROOT / "scenarios" / "demo.yaml"
WAIT_S = 5.0

# The fault, the check that finds it, and the rule it breaks.
FAULTS: Sequence[tuple[str, str, Rule]] = (
    ("silent", "ping", rules.IN_ORDER),
    ("text", "ping", rules.BODY),
    ("no_fields", "ping", rules.BODY),
    ("ping_opens", "ping", rules.PING),
    ("any_version", "versions_refused", rules.VERSIONS),
    ("one_sided", "versions_refused", rules.VERSIONS),
    ("version_last", "version_before_all", rules.VERSION_FIRST),
    ("first_version", "version_chosen", rules.VERSIONS),
    ("one_session", "other_nonces", rules.NONCE_DIFFERS),
    ("no_options", "welcome", rules.OPTIONS),
    ("no_name", "welcome", rules.NAMES),
    ("old_session", "welcome", rules.SEQ),
    ("any_scenario", "unknown_scenario", rules.NO_SCENARIO),
    ("no_nonce", "hello_again", rules.NONCE),
    ("two_nonces", "hello_again", rules.NONCE_DIFFERS),
    ("no_envelope", "frames_come_back", rules.ENVELOPE),
    ("delimiter_always", "no_delimiter", rules.NO_DELIMITER),
    ("any_frames", "too_many_frames", rules.DROPPED),
    ("tolerant", "bad_messages", rules.INVALID),
    ("known_decisions_only", "unknown_decisions", rules.UNKNOWN_DECISIONS),
    ("strict", "unknown_fields", rules.HELLO),
    ("small", "too_large", rules.TOO_LARGE),
    ("many", "too_many_decisions", rules.TOO_MANY),
    ("no_second_answer", "resend", rules.RESEND),
    ("any_seq", "out_of_order", rules.OUT_OF_ORDER),
    ("no_seq_in_errors", "out_of_order", rules.ERROR_SEQ),
    ("all_fatal", "out_of_order", rules.NOT_FATAL),
    ("never_heard_of", "unknown_session", rules.UNKNOWN_SESSION),
    ("stays_open", "bye", rules.BYE),
    ("no_snapshot", "coming_back", rules.COMING_BACK),
    ("no_beginning", "first_events", rules.BEGAN),
    ("no_rejections", "rejected_decisions", rules.REJECTION),
    ("one_rejection", "rejected_decisions", rules.REJECTION),
    ("wrong_index", "rejected_decisions", rules.REJECTION),
    ("near_alarms_only", "rejected_decisions", rules.OTHERS_STAND),
    ("no_starts", "decisions_in_turn", rules.IN_TURN),
    ("wrong_code", "submit_job", rules.REJECTION),
    ("state_unknown", "reject_job", rules.IN_TURN),
    ("no_power_path", "node_power", rules.POWER),
    ("elsewhere", "allocation_of_a_sleeping_node", rules.ALLOCATED),
    ("never_wakes", "allocation_of_a_sleeping_node", rules.NO_WAKING),
    ("one_clock", "sessions_apart", rules.APART),
    ("late_alarms", "alarms", rules.ALARM),
    ("sleepless", "wake_on", rules.ALWAYS_WAKES),
    ("deaf_to_thinking", "elapsed", rules.ELAPSED),
    ("stamped", "same_again", rules.SAME_AGAIN),
    ("other_seq", "same_again", rules.ANSWERED),
    ("falling_time", "same_again", rules.TIME),
    ("early_now", "first_events", rules.TIME),
    ("shuffled", "same_again", rules.TIME),
    ("never_ends", "end", rules.END),
    ("forgets_the_last", "end", rules.LAST_ANSWER),
    ("stuck_for_ever", "stuck", rules.FATAL),
)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """What starts processes for a test, and ends them."""
    processes = Processes(tmp_path)
    yield processes
    processes.end()


def tried(fault: str, *only: str) -> list[Verdict]:
    """Return what the kit makes of a server with a fault."""
    with BrokenServer(Service(Library([SCENARIO]).open), fault) as server:
        return list(try_server(server.address, only, wait_s=WAIT_S))


@pytest.mark.parametrize(("fault", "check", "rule"), FAULTS, ids=lambda value: str(value)[:24])
def test_a_fault_is_caught_by_the_rule_it_breaks(fault: str, check: str, rule: Rule) -> None:
    """A server with one fault fails the check that is about it, and the rule is named."""
    [verdict] = tried(fault, check)
    assert (verdict.outcome, verdict.rule) == ("failed", rule), verdict


def test_every_check_has_a_fault_that_it_finds() -> None:
    """No check is there that was never seen to fail."""
    assert {check for _, check, _ in FAULTS} == {check.name for check in CHECKS}


def test_the_server_that_has_no_fault_passes() -> None:
    """What the broken ones are made from is sound: it is the fault that is found."""
    assert [v for v in tried("none") if v.outcome != "passed"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", ["ends_at_once", "nothing_happens", "everything_at_once", "no_starts", "shuffled"]
)
def test_whatever_a_server_says_there_are_verdicts(fault: str) -> None:
    """Messages of the right types and of no sense fail checks; they do not bring down the kit."""
    verdicts = tried(fault)
    assert len(verdicts) == len(CHECKS)
    assert "failed" in {verdict.outcome for verdict in verdicts}


@pytest.mark.slow
def test_nothing_else_is_tried_where_nobody_answers() -> None:
    """A silent server fails one check, not all of them after a wait each."""
    assert [(v.check, v.outcome) for v in tried("silent")] == [("ping", "failed")]


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [SCENARIO, NO_POWER], ids=["conformance", "demo"])
def test_our_server_conforms(scenario: Path, processes: Processes, tmp_path: Path) -> None:
    """`hpcosim serve` passes all that its scenario allows to try, and goes on serving."""
    server = Server(processes, scenario, out=tmp_path / "out")
    command = [sys.executable, "-m", "hpcosim_cli", "conformance", "--server", server.address]
    done = subprocess.run(
        [*command, "--json"], capture_output=True, text=True, timeout=SOON_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["conforms"] is True
    assert len(document["checks"]) == len(CHECKS)
    others = {c["check"] for c in document["checks"] if c["outcome"] != "passed"}
    assert others == ({"allocation_of_a_sleeping_node"} if scenario == NO_POWER else set())
    assert server.process.poll() is None


def test_a_check_that_is_not_known_is_an_error() -> None:
    """It is refused with those there are."""
    with pytest.raises(CommandError, match="there is no check 'pong'; there are ping, "):
        try_server("tcp://127.0.0.1:1", ["pong"])
