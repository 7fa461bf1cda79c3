"""The conformance kit and clients: ours pass, and each fault is caught by the rule it breaks."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hpcosim_conformance import rules
from hpcosim_conformance.client_checks import SCRIPTS
from hpcosim_conformance.kit import try_client
from hpcosim_conformance.rules import Rule
from hpcosim_conformance.verdict import Verdict, conforms, report
from hpcosim_scenarios.errors import CommandError
from support.other_languages import LANGUAGES, client_in
from support.paths import ROOT
from support.processes import SOON_S, alive, eventually

SPEC = (ROOT / "protocol" / "README.md").read_text(encoding="utf-8")
BROKEN = [sys.executable, str(ROOT / "tests" / "support" / "broken_client.py")]
HPCOSIM = [sys.executable, "-m", "hpcosim_cli", "schedule"]
WAIT_S, LATE_S = 10.0, 1.0  # the broken ones resend after 0.3 s

# The fault, the check that finds it, and the rule it breaks.
FAULTS: Sequence[tuple[str, str, Rule]] = (
    ("silent", "simulation", rules.HELLO),
    ("dies_at_once", "simulation", rules.HELLO),
    ("other_version", "simulation", rules.HELLO),
    ("trailing_byte", "simulation", rules.BODY),
    ("seven_frames", "simulation", rules.FRAMES),
    ("no_session", "simulation", rules.NAMES),
    ("decides_at_once", "simulation", rules.FIRST),
    ("skips_a_seq", "simulation", rules.SEQ),
    ("leaves_early", "simulation", rules.IN_ORDER),
    ("never_satisfied", "simulation", rules.IN_ORDER),
    ("counts_from_one", "simulation", rules.ALLOCATION),
    ("overbooks", "simulation", rules.MISFIT),
    ("first_processor", "simulation", rules.IN_ORDER),
    ("one_of_a_group", "simulation", rules.IN_ORDER),
    ("numbers_as_text", "simulation", rules.INVALID),
    ("unknown_kind", "simulation", rules.NOT_LOST),
    ("own_decisions", "simulation", rules.UNKNOWN_DECISIONS),
    ("goes_on", "simulation", rules.END),
    ("stays", "simulation", rules.EXIT_STATUS),
    ("ends_badly", "simulation", rules.EXIT_STATUS),
    ("type_first", "type_last", rules.BODY),
    ("plain_text", "session_name", rules.NAMES),
    ("needs_snapshot", "defaults_left_out", rules.DEFAULTS),
    ("known_fields_only", "defaults_written_out", rules.DEFAULTS),
    ("floats_only", "integers_for_floats", rules.NUMBERS),
    ("rounds_numbers", "large_numbers", rules.NUMBERS),
    ("one_form", "number_widths", rules.WIDTHS),
    ("known_fields_only", "unknown_fields", rules.UNKNOWN_FIELDS),
    ("known_events_only", "unknown_events", rules.UNKNOWN_EVENTS),
    ("any_placement", "placements", rules.COUNTS),
    ("small_buffer", "many_at_once", rules.BATCH),
    ("deaf_to_rejections", "rejected_decision", rules.WAITS_ON),
    ("job_allocated", "wake_on", rules.NO_JOB_ALLOCATED),
    ("past_alarms", "alarms", rules.ALARM_TIME),
    ("impatient", "late_welcome", rules.WAITS),
    ("no_nonce", "late_welcome", rules.NONCE),
    ("other_nonce", "late_welcome", rules.NONCE),
    ("impatient", "late_answer", rules.WAITS),
    ("other_request", "late_answer", rules.RESEND),
    ("takes_any_answer", "late_answer", rules.DROP),
    ("needs_metrics", "metrics", rules.METRICS),
    ("deaf_to_errors", "versions_refused", rules.VERSIONS),
    ("deaf_to_errors", "fatal_error", rules.FATAL),
    ("deaf_to_errors", "session_lost", rules.STOPS),
    ("error_is_success", "fatal_error", rules.EXIT_STATUS),
    ("any_version", "impossible_version", rules.IMPOSSIBLE),
    ("swallows_garbage", "impossible_bytes", rules.IMPOSSIBLE),
    ("swallows_garbage", "impossible_nothing", rules.IMPOSSIBLE),
    ("swallows_garbage", "impossible_half", rules.IMPOSSIBLE),
    ("swallows_garbage", "impossible_list", rules.IMPOSSIBLE),
    ("swallows_garbage", "impossible_no_type", rules.IMPOSSIBLE),
    ("reads_on", "impossible_trailing_byte", rules.IMPOSSIBLE),
    ("lenient", "impossible_goodbye", rules.IMPOSSIBLE),
    ("lenient", "impossible_no_events", rules.IMPOSSIBLE),
    ("lenient", "impossible_no_cores", rules.IMPOSSIBLE),
)


def tried(command: Sequence[str], *only: str) -> list[Verdict]:
    """Return what the kit makes of a client."""
    return list(try_client(with_address(command), only, wait_s=WAIT_S, late_s=LATE_S))


def with_address(command: Sequence[str]) -> str:
    """Return a command line with a place for the address at its end."""
    return f"{shlex.join(command)} {{address}}"


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "check", "rule"), FAULTS, ids=lambda value: str(value)[:24])
def test_a_fault_is_caught_by_the_rule_it_breaks(fault: str, check: str, rule: Rule) -> None:
    """A client with one fault fails the check that is about it, and the rule is named."""
    [verdict] = tried([*BROKEN, fault], check)
    assert (verdict.outcome, verdict.rule) == ("failed", rule), verdict


def test_every_check_has_a_fault_that_it_finds() -> None:
    """No check is there that was never seen to fail."""
    assert {check for _, check, _ in FAULTS} == {script.name for script in SCRIPTS}


@pytest.mark.slow
def test_the_client_that_has_no_fault_passes() -> None:
    """What the broken ones are made from is sound: it is the fault that is found."""
    assert [v for v in tried([*BROKEN, "none"]) if v.outcome != "passed"] == []


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the client in C is built, once for all tests."""
    return tmp_path_factory.mktemp("build")


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_clients_in_other_languages_conform(language: str, build: Path) -> None:
    """Those of `scheduler_client/` pass every check."""
    verdicts = list(try_client(with_address(client_in(language, build)), late_s=LATE_S))
    assert [v for v in verdicts if v.outcome != "passed"] == []
    assert len(verdicts) == len(SCRIPTS)


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_clients_in_other_languages_resend(language: str, build: Path) -> None:
    """They ask again after 5 s, a hello and decisions alike, and drop what comes twice."""
    command = with_address(client_in(language, build))
    checks = [["late_welcome"], ["late_answer"]]
    with ThreadPoolExecutor() as pool:
        tries = [pool.submit(lambda only: list(try_client(command, only)), c) for c in checks]
    verdicts = [verdict for each in tries for verdict in each.result()]
    assert [(v.outcome, v.what) for v in verdicts] == [("passed", "")] * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        [*HPCOSIM, "easy", "--connect"],
        [sys.executable, str(ROOT / "scheduler_client" / "minimal.py")],
    ],
    ids=["easy", "minimal"],
)
def test_clients_of_ours_conform(command: list[str]) -> None:
    """The Python clients pass every check."""
    verdicts = list(try_client(with_address(command), late_s=LATE_S))
    assert [v for v in verdicts if v.outcome != "passed"] == []


def test_nothing_else_is_tried_of_a_client_that_fails_the_plain_case() -> None:
    """One that never says hello fails one check, not all of them for the wrong reason."""
    verdicts = tried([*BROKEN, "dies_at_once"])
    assert [(v.check, v.outcome) for v in verdicts] == [("simulation", "failed")]
    assert "ended with status 4" in verdicts[0].what


def test_what_a_failing_client_printed_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Its last lines stand under the failure, without what would act on a terminal."""
    report(tried([*BROKEN, "dies_at_once"]), as_json=False)
    out = capsys.readouterr().out
    assert "    | \\x1b[31mno such library\n" in out
    assert "section 2.1, In order:" in out
    assert out.endswith("0 passed, 1 failed\n")


@pytest.mark.slow
def test_verdicts_are_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """Every check has its outcome and its rule."""
    verdicts = report(tried([*BROKEN, "stays"], "simulation", "type_last"), as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["conforms"] is conforms(verdicts) is False
    [check] = document["checks"]
    assert check["check"] == "simulation"
    assert check["rule"] == rules.EXIT_STATUS._asdict()


def test_what_a_client_started_is_ended_with_it() -> None:
    """A child that outlives its client does not outlive the check."""
    [verdict] = tried([*BROKEN, "leaves_a_child"], "simulation")
    found = re.search(r"child (\d+)", verdict.output)
    assert found is not None
    eventually(lambda: not alive(int(found[1])))


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("scheduler tcp://127.0.0.1:1", "does not say where"),
        ("'scheduler {address}", "is no command"),
        ("/no/such/scheduler {address}", "can't be started: No such file"),
    ],
)
def test_a_command_that_cannot_be_is_the_users_fault(command: str, why: str) -> None:
    """It is an error in a line, not a failed check."""
    with pytest.raises(CommandError, match=why):
        list(try_client(command))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (["--client", f"{shlex.join([*BROKEN, 'none'])} {{address}}"], 0, "1 passed, 0 failed"),
        (
            ["--client", f"{shlex.join([*BROKEN, 'ends_badly'])} {{address}}"],
            1,
            "0 passed, 1 failed",
        ),
        (["--client", "/no/such {address}"], 2, "error: /no/such can't be started: No such file"),
        (["--client", "x {address}", "--server", "tcp://127.0.0.1:1"], 2, "error: name either"),
        ([], 2, "error: name either a --client or a --server"),
        (["--client", "x {address}", "--only", "nothing"], 2, "error: there is no check 'nothing'"),
    ],
    ids=["sound", "broken", "no program", "both", "neither", "no check"],
)
def test_the_command_ends_with_a_status(options: list[str], status: int, said: str) -> None:
    """0: no rule was broken; 1: one was; 2: it could not be tried, and a line says why."""
    only = [] if "--only" in options else ["--only", "simulation"]
    command = [*HPCOSIM[:-1], "conformance", *options, *only]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SOON_S)
    assert done.returncode == status
    assert said in (done.stderr if status == 2 else done.stdout)
    assert len(done.stderr.splitlines()) == (status == 2)


def test_rules_are_quoted_from_the_specification() -> None:
    """Every rule stands in the section it names, in these words."""
    for name, rule in vars(rules).items():
        if not isinstance(rule, Rule):
            continue
        heading = rf"^#+ {re.escape(rule.section)}\.? {re.escape(rule.title)}\n"
        found = re.search(heading + r"(.*?)(?=^##? |^### |\Z)", SPEC, re.MULTILINE | re.DOTALL)
        assert found, f"{name}: there is no section {rule.section} {rule.title}"
        assert rule.text in " ".join(found[1].split()), name


def test_the_page_on_writing_a_client_says_what_to_do_about_each_check() -> None:
    """Every check stands in its table, those of what can't be under one name."""
    page = (ROOT / "protocol" / "WRITING_A_CLIENT.md").read_text(encoding="utf-8")
    names = {re.sub(r"^impossible_.*", "impossible_...", script.name) for script in SCRIPTS}
    assert {name for name in names if f"`{name}`" not in page} == set()
