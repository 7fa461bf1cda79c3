"""The conformance kit with servers: sound ones pass, and each fault names the broken rule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hpcosim_conformance import CommandError, Verdict, try_server
from hpcosim_conformance.servers.server_checks import CHECKS
from hpcosim_scenarios.running.library import Library
from hpcosim_server.journal.store import Journals
from hpcosim_server.service.service import Service
from support.broken_server import BrokenServer
from support.memory_disk import MemoryDisk
from support.paths import ROOT
from support.processes import SOON_S, Processes, Server

pytestmark = pytest.mark.slow

SCENARIO = ROOT / "scenarios" / "conformance.yaml"
SITE = ROOT / "scenarios" / "conformance-site.yaml"
NO_POWER = ROOT / "scenarios" / "demo.yaml"
TIMEOUTS_S = {"silent": 1.0}  # the kit waits until the timeout

# The fault, the check that finds it, and the rule that it breaks.
FAULTS: Sequence[tuple[str, str, str]] = (
    ("silent", "ping", "R-in-order"),
    ("text", "ping", "R-body"),
    ("no_fields", "ping", "R-body"),
    ("ping_opens", "ping", "R-ping"),
    ("any_version", "versions_refused", "R-versions"),
    ("one_sided", "versions_refused", "R-versions"),
    ("version_last", "version_before_all", "R-version-first"),
    ("first_version", "version_chosen", "R-versions"),
    ("one_session", "other_nonces", "R-nonce-differs"),
    ("no_options", "welcome", "R-options"),
    ("no_name", "welcome", "R-session-name"),
    ("old_session", "welcome", "R-seq"),
    ("any_scenario", "unknown_scenario", "R-unknown-scenario"),
    ("acts_on_policy", "policy", "R-policy"),
    ("no_nonce", "hello_again", "R-nonce"),
    ("two_nonces", "hello_again", "R-nonce-differs"),
    ("no_envelope", "frames_come_back", "R-envelope"),
    ("delimiter_always", "no_delimiter", "R-no-delimiter"),
    ("any_frames", "too_many_frames", "R-long-message"),
    ("tolerant", "bad_messages", "R-invalid-message"),
    ("known_decisions_only", "unknown_decisions", "R-unknown-decisions"),
    ("strict", "unknown_fields", "R-hello"),
    ("small", "too_large", "R-too-large"),
    ("many", "too_many_decisions", "R-too-many-decisions"),
    ("no_second_answer", "resend", "R-resend"),
    ("any_seq", "out_of_order", "R-out-of-order"),
    ("no_seq_in_errors", "out_of_order", "R-error-seq"),
    ("all_fatal", "out_of_order", "R-not-fatal"),
    ("never_heard_of", "unknown_session", "R-unknown-session"),
    ("stays_open", "bye", "R-bye"),
    ("no_snapshot", "coming_back", "R-coming-back"),
    ("short_history", "history", "R-history"),
    ("no_snapshot_in_history", "history", "R-history-snapshot"),
    ("secret_in_status", "status", "R-status"),
    ("no_beginning", "first_events", "R-first-events"),
    ("no_rejections", "rejected_decisions", "R-rejected"),
    ("one_rejection", "rejected_decisions", "R-rejected"),
    ("wrong_index", "rejected_decisions", "R-rejected"),
    ("near_alarms_only", "rejected_decisions", "R-others-stand"),
    ("no_starts", "decisions_in_turn", "R-in-turn"),
    ("wrong_code", "submit_job", "R-rejected"),
    ("no_rejections", "explain", "R-explain"),
    ("loud_explanations", "explain", "R-explain"),
    ("state_unknown", "reject_job", "R-in-turn"),
    ("no_power_path", "node_power", "R-power-states"),
    ("elsewhere", "allocation_of_a_sleeping_node", "R-allocated"),
    ("never_wakes", "allocation_of_a_sleeping_node", "R-wrong-power-state"),
    ("no_signals", "signals", "R-signals"),
    ("past_forecast", "signals", "R-forecast"),
    ("manages_always", "workload_manager", "R-workload-manager"),
    ("wrong_code", "partitions", "R-constraints"),
    ("no_devices", "devices", "R-gres-choice"),
    ("wrong_code", "devices", "R-gres"),
    ("wrong_code", "memory", "R-memory"),
    ("wrong_code", "licenses", "R-licenses"),
    ("wrong_code", "reservations", "R-reserved"),
    ("no_rejections", "not_eligible", "R-eligible"),
    ("forgets_eligible_jobs", "not_eligible", "R-job-eligible"),
    ("forgets_eligible_jobs", "dependencies", "R-job-eligible"),
    ("state_unknown", "dependencies", "R-never-eligible"),
    ("no_suspensions", "suspension", "R-suspended"),
    ("no_requeues", "requeue", "R-requeued"),
    ("wrong_code", "requeue", "R-requeued"),
    ("forgets_at_end", "rejection_at_end", "R-at-end"),
    ("no_requeues", "node_failure", "R-node-failed"),
    ("wrong_code", "node_failure", "R-node-unavailable"),
    ("ignores_profile", "basic_profile", "R-basic-profile"),
    ("one_clock", "sessions_apart", "R-apart"),
    ("late_alarms", "alarms", "R-alarm"),
    ("sleepless", "wake_on", "R-always-wakes"),
    ("deaf_to_thinking", "elapsed", "R-elapsed"),
    ("stamped", "same_again", "R-same-again"),
    ("other_seq", "same_again", "R-answered-seq"),
    ("falling_time", "same_again", "R-time"),
    ("early_now", "first_events", "R-time"),
    ("shuffled", "same_again", "R-time"),
    ("never_ends", "end", "R-end"),
    ("forgets_the_last", "end", "R-last-answer"),
    ("stuck_for_ever", "stuck", "R-fatal"),
)


AT_A_SITE = (
    "workload_manager",
    "partitions",
    "devices",
    "memory",
    "licenses",
    "reservations",
    "not_eligible",
    "dependencies",
    "suspension",
    "requeue",
    "node_failure",
    "basic_profile",
)
"""The checks that need the scenario `SITE`."""


def verdicts_of(fault: str, *only: str) -> list[Verdict]:
    """Return the verdicts for a server with a fault."""
    scenario = SITE if set(only).intersection(AT_A_SITE) else SCENARIO
    journals = Journals(Path("/journals"), "never", MemoryDisk())
    service = Service(Library([scenario]).open, journals=journals)
    with BrokenServer(service, fault) as server:
        timeout_s = TIMEOUTS_S.get(fault, SOON_S)
        return list(try_server(server.address, only, timeout_s=timeout_s))


@pytest.mark.parametrize(("fault", "check", "rule"), FAULTS)
def test_a_fault_fails_its_check(fault: str, check: str, rule: str) -> None:
    """A server with one fault fails the check for it, with the broken rule."""
    [verdict] = verdicts_of(fault, check)
    assert (verdict.outcome, verdict.rule.id) == ("failed", rule), verdict


def test_every_check_has_a_fault_that_it_finds() -> None:
    """Every check fails for at least one fault."""
    assert {check for _, check, _ in FAULTS} == {check.name for check in CHECKS}


def test_the_server_without_a_fault_passes() -> None:
    """The broken server passes all checks if it has no fault."""
    everywhere = [check.name for check in CHECKS if check.name not in AT_A_SITE]
    for checks in (everywhere, AT_A_SITE):
        assert [v for v in verdicts_of("none", *checks) if v.outcome != "passed"] == []


@pytest.mark.parametrize(
    "fault", ["ends_at_once", "nothing_happens", "everything_at_once", "no_starts", "shuffled"]
)
def test_senseless_replies_fail_checks_without_an_exception(fault: str) -> None:
    """Valid messages with senseless content fail checks; every check has a verdict."""
    verdicts = verdicts_of(fault)
    assert len(verdicts) == len(CHECKS)
    assert "failed" in {verdict.outcome for verdict in verdicts}


def test_a_silent_server_fails_only_the_first_check() -> None:
    """The other checks are not run if the server sends no reply."""
    assert [(v.check, v.outcome) for v in verdicts_of("silent")] == [("ping", "failed")]


def test_our_server_conforms(processes: Processes, tmp_path: Path) -> None:
    """`hpcosim serve` passes all checks that apply to its scenario, and continues to serve."""
    server = Server(processes, SCENARIO, SITE, NO_POWER, out=tmp_path / "out")
    power, site = {"allocation_of_a_sleeping_node", "signals"}, {*AT_A_SITE}
    site -= {"workload_manager", "suspension"}  # these need no special jobs
    not_there = {"conformance": site, "conformance-site": power, "demo": power | site}
    for scenario, not_tried in not_there.items():
        verdicts = list(try_server(server.address, scenario=scenario))
        assert [v for v in verdicts if v.outcome == "failed"] == []
        assert {v.check for v in verdicts if v.outcome == "not tried"} == not_tried
        assert len(verdicts) == len(CHECKS)
    assert server.process.poll() is None


def test_checks_end_when_the_server_is_lost(processes: Processes, tmp_path: Path) -> None:
    """A server that ends after one session fails a check; those after it are not tried."""
    server = Server(processes, SCENARIO, "--once", out=tmp_path / "out")
    outcomes = [verdict.outcome for verdict in try_server(server.address)]
    assert len(outcomes) == len(CHECKS)
    # A check that opens two sessions fails before; the first one has no request and does not count.
    lost = len(outcomes) - outcomes[::-1].index("failed")
    assert set(outcomes[:lost]) == {"passed", "failed"}
    assert set(outcomes[lost:]) == {"not tried"}


def test_an_unknown_check_is_an_error() -> None:
    """The error lists the existing checks."""
    with pytest.raises(CommandError, match="no check 'pong'; expected one of ping, "):
        try_server("tcp://127.0.0.1:1", ["pong"])
