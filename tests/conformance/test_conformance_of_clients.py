"""The conformance kit with clients: sound ones pass, and each fault names the broken rule."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from hpcosim_conformance import CommandError, Verdict, try_client
from hpcosim_conformance.clients.client_checks import SCRIPTS
from support.other_languages import LANGUAGES, client_in
from support.paths import ROOT
from support.processes import SOON_S, alive, eventually

pytestmark = pytest.mark.slow

SUPPORT = ROOT / "tests" / "support"
BROKEN = [sys.executable, str(SUPPORT / "broken_client.py")]
HPCOSIM = [sys.executable, "-m", "hpcosim.cli"]
CLIENTS = {
    "sound": [*BROKEN, "none"],  # the broken client without a fault
    "minimal": [sys.executable, str(ROOT / "scheduler_client" / "minimal.py")],
    "easy": [sys.executable, str(SUPPORT / "easy_client.py")],
}
# The broken client ends the delay: it resends after 0.6 s or exits. The others wait.
BROKEN_DELAY_S, DELAY_S = SOON_S, 1.0
# With these faults the kit waits until the timeout. The second one includes a whole session on a
# busy machine.
TIMEOUTS_S = {"silent": 1.0, "stays": 5.0}

# The fault, the check that finds it, and the rule that it breaks.
FAULTS: Sequence[tuple[str, str, str]] = (
    ("silent", "simulation", "R-hello"),
    ("dies_at_once", "simulation", "R-hello"),
    ("other_version", "simulation", "R-hello"),
    ("trailing_byte", "simulation", "R-body"),
    ("seven_frames", "simulation", "R-frames"),
    ("large_policy", "simulation", "R-policy-limits"),
    ("no_session", "simulation", "R-session-name"),
    ("decides_at_once", "simulation", "R-first-request"),
    ("skips_a_seq", "simulation", "R-seq"),
    ("leaves_early", "simulation", "R-in-order"),
    ("asks_for_history", "simulation", "R-history-only"),
    ("never_satisfied", "simulation", "R-in-order"),
    ("counts_from_one", "simulation", "R-allocation"),
    ("overbooks", "simulation", "R-bad-allocation"),
    ("first_processor", "simulation", "R-stuck"),
    ("one_of_a_group", "simulation", "R-stuck"),
    ("numbers_as_text", "simulation", "R-invalid-message"),
    ("unknown_kind", "simulation", "R-not-lost"),
    ("own_decisions", "simulation", "R-unknown-decisions"),
    ("goes_on", "simulation", "R-end"),
    ("stays", "simulation", "R-exit-status"),
    ("ends_badly", "simulation", "R-exit-status"),
    ("type_first", "type_last", "R-body"),
    ("plain_text", "session_name", "R-session-name"),
    ("needs_snapshot", "defaults_left_out", "R-defaults"),
    ("known_fields_only", "defaults_written_out", "R-defaults"),
    ("floats_only", "integers_for_floats", "R-numbers"),
    ("rounds_numbers", "large_numbers", "R-numbers"),
    ("one_form", "number_widths", "R-widths"),
    ("known_fields_only", "unknown_fields", "R-unknown-fields"),
    ("known_events_only", "unknown_events", "R-unknown-events"),
    ("any_placement", "placements", "R-count-cores"),
    ("small_buffer", "many_at_once", "R-batch"),
    ("deaf_to_rejections", "rejected_decision", "R-rejected-job-waits"),
    ("job_allocated", "wake_on", "R-no-job-allocated"),
    ("signal_changed", "simulation", "R-no-signal-changed"),
    ("past_alarms", "alarms", "R-bad-time"),
    ("explains_badly", "explain", "R-reason"),
    ("explains", "simulation", "R-explain-option"),
    ("explains", "explain_without_option", "R-explain-option"),
    ("keeps_waiting_jobs", "cancelled_job", "R-waiting-job-ends"),
    ("needs_no_eligibility", "not_eligible", "R-eligible"),
    ("deaf_to_requeues", "requeued_job", "R-requeued"),
    ("suspends", "workload_manager_without_option", "R-workload-manager-option"),
    ("impatient", "late_welcome", "R-waits"),
    ("no_nonce", "late_welcome", "R-nonce"),
    ("other_nonce", "late_welcome", "R-nonce"),
    ("impatient", "late_answer", "R-waits"),
    ("other_request", "late_answer", "R-resend"),
    ("takes_any_answer", "late_answer", "R-drop"),
    ("gives_up_when_held", "held_answer", "R-held"),
    ("needs_metrics", "metrics", "R-metrics"),
    ("deaf_to_errors", "versions_refused", "R-versions"),
    ("deaf_to_errors", "fatal_error", "R-fatal"),
    ("deaf_to_errors", "session_lost", "R-minimal"),
    ("error_is_success", "fatal_error", "R-exit-status"),
    ("any_version", "impossible_version", "R-impossible-answer"),
    ("swallows_garbage", "impossible_bytes", "R-impossible-answer"),
    ("swallows_garbage", "impossible_nothing", "R-impossible-answer"),
    ("swallows_garbage", "impossible_half", "R-impossible-answer"),
    ("swallows_garbage", "impossible_list", "R-impossible-answer"),
    ("swallows_garbage", "impossible_no_type", "R-impossible-answer"),
    ("reads_on", "impossible_trailing_byte", "R-impossible-answer"),
    ("lenient", "impossible_goodbye", "R-impossible-answer"),
    ("lenient", "impossible_no_events", "R-impossible-answer"),
    ("lenient", "impossible_no_cores", "R-impossible-answer"),
)


def verdicts_of(command: Sequence[str], *only: str) -> list[Verdict]:
    """Return the verdicts for a client."""
    timeout_s = TIMEOUTS_S.get(command[-1], SOON_S)
    delay_s = BROKEN_DELAY_S if command[:2] == BROKEN else DELAY_S
    return list(try_client(with_address(command), only, timeout_s=timeout_s, delay_s=delay_s))


def with_address(command: Sequence[str]) -> str:
    """Return a command line that ends with `{address}`."""
    return f"{shlex.join(command)} {{address}}"


@pytest.mark.parametrize(("fault", "check", "rule"), FAULTS)
def test_a_fault_fails_its_check(fault: str, check: str, rule: str) -> None:
    """A client with one fault fails the check for it, with the broken rule."""
    [verdict] = verdicts_of([*BROKEN, fault], check)
    assert (verdict.outcome, verdict.rule.id) == ("failed", rule), verdict


def test_every_check_has_a_fault_that_it_finds() -> None:
    """Every check fails for at least one fault."""
    assert {check for _, check, _ in FAULTS} == {script.name for script in SCRIPTS}


@pytest.mark.parametrize("check", [script.name for script in SCRIPTS])
@pytest.mark.parametrize("client", CLIENTS)
def test_clients_in_python_conform(client: str, check: str) -> None:
    """The Python clients pass every check."""
    [verdict] = verdicts_of(CLIENTS[client], check)
    assert verdict.outcome == "passed", verdict


def test_the_command_that_schedules_conforms() -> None:
    """`hpcosim schedule` exits with the right status, also after an error or invalid bytes."""
    command = [*HPCOSIM, "schedule", "easy", "--connect"]
    verdicts = verdicts_of(command, "simulation", "fatal_error", "impossible_bytes")
    assert [verdict.outcome for verdict in verdicts] == ["passed"] * 3, verdicts


def test_the_command_explains_only_if_the_server_allows_it() -> None:
    """`hpcosim schedule --explain` sends explanations to a server that knows them, and no other."""
    command = [*HPCOSIM, "schedule", "easy", "--explain", "--connect"]
    checks = ("simulation", "explain", "explain_without_option")
    verdicts = verdicts_of(command, *checks)
    assert [(verdict.outcome, verdict.what) for verdict in verdicts] == [("passed", "")] * 3


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build folder of the client in C, shared by all tests."""
    return tmp_path_factory.mktemp("build")


@pytest.mark.parametrize("language", LANGUAGES)
def test_clients_in_other_languages_conform(language: str, build: Path) -> None:
    """The clients in C and JavaScript pass every check."""
    verdicts = verdicts_of(client_in(language, build))
    assert [v for v in verdicts if v.outcome != "passed"] == []
    assert len(verdicts) == len(SCRIPTS)


@pytest.mark.parametrize("check", ["late_welcome", "late_answer"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_clients_in_other_languages_resend(language: str, check: str, build: Path) -> None:
    """The clients resend hello and decisions after 5 s and drop duplicate replies."""
    [verdict] = try_client(with_address(client_in(language, build)), [check], delay_s=SOON_S)
    assert (verdict.outcome, verdict.what) == ("passed", "")


def test_a_client_that_fails_the_basic_check_fails_only_this_one() -> None:
    """The other checks are not run if the client sends no hello."""
    verdicts = verdicts_of([*BROKEN, "dies_at_once"])
    assert [(v.check, v.outcome) for v in verdicts] == [("simulation", "failed")]
    assert "ended with status 4" in verdicts[0].what


def test_children_of_a_client_are_killed() -> None:
    """A child process of a client ends with the check."""
    [verdict] = verdicts_of([*BROKEN, "leaves_a_child"], "simulation")
    found = re.search(r"child (\d+)", verdict.output)
    assert found is not None
    eventually(lambda: not alive(int(found[1])))


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("scheduler tcp://127.0.0.1:1", "lacks {address}"),
        ("'scheduler {address}", "not a valid command line"),
        ("/no/such/scheduler {address}", "cannot start /no/such/scheduler: No such file"),
    ],
)
def test_an_invalid_command_line_is_an_error(command: str, reason: str) -> None:
    """An invalid --client raises CommandError, with the reason."""
    with pytest.raises(CommandError, match=reason):
        list(try_client(command))


def test_the_tutorial_lists_every_check() -> None:
    """The table of checks has every check; those of invalid replies share one name."""
    page = (ROOT / "protocol" / "WRITING_A_CLIENT.md").read_text(encoding="utf-8")
    names = {re.sub(r"^impossible_.*", "impossible_...", script.name) for script in SCRIPTS}
    assert {name for name in names if f"`{name}`" not in page} == set()
