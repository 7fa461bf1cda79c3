"""The checks of a server, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from hpcosim_conformance.errors import BrokenRuleError, NoServerError, NotTriedError
from hpcosim_conformance.servers import decisions, messages, site, timing
from hpcosim_conformance.servers.server_under_test import ServerUnderTest, connected
from hpcosim_conformance.verdict import Verdict, rules, run_checks
from hpcosim_protocol.keys import ClientKeys

KEEP_SERVING = "the server must run until it is stopped, without --once and --sessions"


class Check(NamedTuple):
    """A check of a server.

    Attributes:
        rule: id of the rule that the check tests. It can also find other broken rules.
        run: runs the check; raises BrokenRuleError or NotTriedError.
    """

    name: str
    rule: str
    run: Callable[[ServerUnderTest], None]


CHECKS: Sequence[Check] = (
    Check("ping", "R-ping", messages.ping),
    Check("versions_refused", "R-versions", messages.versions_refused),
    Check("version_before_all", "R-version-first", messages.version_before_all),
    Check("version_chosen", "R-versions", messages.version_chosen),
    Check("welcome", "R-hello", messages.welcome),
    Check("unknown_scenario", "R-unknown-scenario", messages.unknown_scenario),
    Check("policy", "R-policy", messages.policy),
    Check("hello_again", "R-nonce", messages.hello_again),
    Check("other_nonces", "R-nonce-differs", messages.other_nonces),
    Check("frames_come_back", "R-envelope", messages.frames_come_back),
    Check("no_delimiter", "R-no-delimiter", messages.no_delimiter),
    Check("too_many_frames", "R-long-message", messages.too_many_frames),
    Check("bad_messages", "R-invalid-message", messages.bad_messages),
    Check("unknown_decisions", "R-unknown-decisions", messages.unknown_decisions),
    Check("unknown_fields", "R-unknown-fields", messages.unknown_fields),
    Check("too_large", "R-too-large", messages.too_large),
    Check("too_many_decisions", "R-too-many-decisions", messages.too_many_decisions),
    Check("resend", "R-resend", messages.resend),
    Check("out_of_order", "R-out-of-order", messages.out_of_order),
    Check("unknown_session", "R-unknown-session", messages.unknown_session),
    Check("bye", "R-bye", messages.bye),
    Check("coming_back", "R-coming-back", messages.coming_back),
    Check("history", "R-history", messages.history),
    Check("status", "R-status", messages.status),
    Check("first_events", "R-first-events", decisions.first_events),
    Check("rejected_decisions", "R-rejected", decisions.rejected_decisions),
    Check("decisions_in_turn", "R-in-turn", decisions.decisions_in_turn),
    Check("reject_job", "R-in-turn", decisions.reject_job),
    Check("submit_job", "R-submit-job", decisions.submit_job),
    Check("explain", "R-explain", decisions.explain),
    Check("node_power", "R-power-states", timing.node_power),
    Check("allocation_of_a_sleeping_node", "R-allocated", timing.allocation_of_a_sleeping_node),
    Check("signals", "R-signals", timing.signals),
    Check("workload_manager", "R-workload-manager", site.workload_manager),
    Check("partitions", "R-constraints", site.partitions),
    Check("devices", "R-gres", site.devices),
    Check("memory", "R-memory", site.memory),
    Check("licenses", "R-licenses", site.licenses),
    Check("reservations", "R-reserved", site.reservations),
    Check("not_eligible", "R-eligible", decisions.not_eligible),
    Check("dependencies", "R-job-eligible", decisions.dependencies),
    Check("suspension", "R-suspended", decisions.suspension),
    Check("requeue", "R-requeued", decisions.requeue),
    Check("rejection_at_end", "R-at-end", decisions.rejection_at_end),
    Check("node_failure", "R-node-failed", decisions.node_failure),
    Check("basic_profile", "R-basic-profile", decisions.basic_profile),
    Check("alarms", "R-alarm", timing.alarms),
    Check("wake_on", "R-not-lost", timing.wake_on),
    Check("elapsed", "R-elapsed", timing.elapsed),
    Check("same_again", "R-same-again", messages.same_again),
    Check("sessions_apart", "R-apart", messages.sessions_apart),
    Check("end", "R-end", timing.end),
    Check("stuck", "R-stuck", timing.stuck),
)


def try_server(
    address: str,
    only: Sequence[str] = (),
    *,
    scenario: str = "",
    timeout_s: float = 20.0,
    keys: ClientKeys | None = None,
) -> Iterator[Verdict]:
    """Run the checks of a server and yield a verdict after each.

    Args:
        only: names of the checks to run; empty: all checks.
        scenario: name of a scenario of the server; empty: its first scenario.
        timeout_s: timeout for each reply, wall s.
        keys: the keys for a server with keys; None: the server has none.

    Raises:
        CommandError: the address is invalid, or a check does not exist.
        NoServerError: there is no server at the address when the first check runs.
    """
    run = _Run(address, scenario, timeout_s, keys)
    return run_checks({check.name: partial(run.verdict, check) for check in CHECKS}, only)


@dataclass
class _Run:
    """A run of checks, which ends when the server is lost."""

    address: str
    scenario: str
    timeout_s: float
    keys: ClientKeys | None
    reached: bool = False
    lost: bool = False

    def verdict(self, check: Check) -> Verdict:
        if self.lost:
            return Verdict(check.name, "not tried", rules()[check.rule], "the server was lost")
        try:
            verdict = _verdict(check, self)
        except NoServerError as error:
            if not self.reached:
                raise
            self.lost = True
            return Verdict(check.name, "failed", rules()["R-in-order"], f"{error}; {KEEP_SERVING}")
        self.reached = True
        return verdict


def _verdict(check: Check, run: _Run) -> Verdict:
    # Each check has its own connection, so that it cannot receive a late reply to another check.
    with connected(run.address, run.scenario, run.timeout_s, run.keys) as server:
        try:
            check.run(server)
        except BrokenRuleError as broken:
            return Verdict(check.name, "failed", rules()[broken.rule_id], broken.what)
        except NotTriedError as reason:
            return Verdict(check.name, "not tried", rules()[check.rule], str(reason))
        return Verdict(check.name, "passed", rules()[check.rule])
