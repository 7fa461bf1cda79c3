"""All checks of a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from hpcosim_conformance import rules
from hpcosim_conformance import server_message_checks as messages
from hpcosim_conformance import server_time_checks as times
from hpcosim_conformance.probe import Probe
from hpcosim_conformance.rules import Rule
from hpcosim_conformance.verdict import BrokenRuleError, NotTriedError, Verdict
from hpcosim_conformance.visit import Bench


class Check(NamedTuple):
    """A check of a server: what it does, and the rule that it is about."""

    made: Callable[[Bench], None]
    rule: Rule

    @property
    def name(self) -> str:
        """What it is called."""
        return self.made.__name__


CHECKS: Sequence[Check] = (
    Check(messages.ping, rules.PING),
    Check(messages.versions_refused, rules.VERSIONS),
    Check(messages.version_before_all, rules.VERSION_FIRST),
    Check(messages.version_chosen, rules.VERSIONS),
    Check(messages.welcome, rules.HELLO),
    Check(messages.unknown_scenario, rules.NO_SCENARIO),
    Check(messages.hello_again, rules.NONCE),
    Check(messages.other_nonces, rules.NONCE_DIFFERS),
    Check(messages.frames_come_back, rules.ENVELOPE),
    Check(messages.no_delimiter, rules.NO_DELIMITER),
    Check(messages.too_many_frames, rules.DROPPED),
    Check(messages.bad_messages, rules.INVALID),
    Check(messages.unknown_decisions, rules.UNKNOWN_DECISIONS),
    Check(messages.unknown_fields, rules.UNKNOWN_FIELDS),
    Check(messages.too_large, rules.TOO_LARGE),
    Check(messages.too_many_decisions, rules.TOO_MANY),
    Check(messages.resend, rules.RESEND),
    Check(messages.out_of_order, rules.OUT_OF_ORDER),
    Check(messages.unknown_session, rules.UNKNOWN_SESSION),
    Check(messages.bye, rules.BYE),
    Check(messages.coming_back, rules.COMING_BACK),
    Check(times.first_events, rules.BEGAN),
    Check(times.rejected_decisions, rules.REJECTION),
    Check(times.decisions_in_turn, rules.IN_TURN),
    Check(times.reject_job, rules.IN_TURN),
    Check(times.submit_job, rules.DYNAMIC),
    Check(times.node_power, rules.POWER),
    Check(times.allocation_of_a_sleeping_node, rules.ALLOCATED),
    Check(times.alarms, rules.ALARM),
    Check(times.wake_on, rules.NOT_LOST),
    Check(times.elapsed, rules.ELAPSED),
    Check(times.same_again, rules.SAME_AGAIN),
    Check(times.sessions_apart, rules.APART),
    Check(times.end, rules.END),
    Check(times.stuck, rules.STUCK),
)


def check_server(
    address: str, scenario: str, wait_s: float, only: Sequence[str] = ()
) -> Iterator[Verdict]:
    """Yield what comes of each check of a server.

    Args:
        address: where it listens.
        scenario: which of its scenarios; empty: its first.
        wait_s: how long an answer may take.
        only: names of checks; empty: all.

    Raises:
        CommandError: the address is none.
    """
    for check in CHECKS:
        if only and check.name not in only:
            continue
        verdict = _made(check, address, scenario, wait_s)
        yield verdict
        if check.made is messages.ping and verdict.outcome == "failed":
            break  # nobody is there, or nobody who speaks this protocol


def _made(check: Check, address: str, scenario: str, wait_s: float) -> Verdict:
    with Probe(address, wait_s) as probe:  # one for each, so that no late answer is another's
        try:
            check.made(Bench(probe, scenario))
        except BrokenRuleError as broken:
            return Verdict(check.name, "failed", broken.rule, broken.what)
        except NotTriedError as why:
            return Verdict(check.name, "not tried", check.rule, str(why))
    return Verdict(check.name, "passed", check.rule)
