"""The checks of a client. Each runs a script with a new process of the client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec
import zmq

from hpcosim_conformance.clients import replies
from hpcosim_conformance.clients.connection import ClientConnection, split_command, started
from hpcosim_conformance.clients.conversation import Conversation
from hpcosim_conformance.clients.replies import Map
from hpcosim_conformance.clients.script import (
    CANCELLED,
    EVERY_PLACEMENT,
    LARGE_NUMBERS,
    MANY_AT_ONCE,
    NOT_ELIGIBLE,
    REQUEUED,
    TWO_AT_ONCE,
    Script,
)
from hpcosim_conformance.encodings import integers_for_floats, widest
from hpcosim_conformance.errors import BrokenRuleError
from hpcosim_conformance.verdict import Verdict, rules, run_checks

MIDDLE = 2  # number of a reply in the middle of a session


def _stops(
    name: str, rule: str, number: int, reply: Map | bytes | Callable[[Map], Map | bytes]
) -> Script:
    """Return a script in which the client must stop after the reply of a number."""
    alter = reply if callable(reply) else lambda _: reply
    return Script(name, rule, alter=alter, stops_at=number)


def _impossible(name: str, reply: Map | bytes | Callable[[Map], Map | bytes]) -> Script:
    return _stops(f"impossible_{name}", "R-impossible-answer", MIDDLE, reply)


SCRIPTS: Sequence[Script] = (
    Script("simulation", "R-in-order"),
    # Decoding
    Script("type_last", "R-body", alter=replies.type_last),
    Script("session_name", "R-session-name", alter=replies.long_session_name),
    Script("defaults_left_out", "R-defaults", alter=replies.defaults_left_out),
    Script("defaults_written_out", "R-defaults", alter=replies.defaults_written_out),
    Script("integers_for_floats", "R-numbers", alter=integers_for_floats),
    Script("large_numbers", "R-numbers", LARGE_NUMBERS),
    Script("number_widths", "R-widths", pack=widest),
    Script("unknown_fields", "R-unknown-fields", alter=replies.unknown_fields),
    Script("unknown_events", "R-unknown-events", alter=replies.unknown_events),
    # Decisions
    Script("placements", "R-placements", EVERY_PLACEMENT),
    Script("many_at_once", "R-batch", MANY_AT_ONCE),
    Script("rejected_decision", "R-rejected-job-waits", TWO_AT_ONCE, rejects_once=True),
    Script("wake_on", "R-no-job-allocated", alter=replies.no_wake_on_allocation),
    Script("alarms", "R-bad-time"),
    Script("explain", "R-reason", explains=True),
    Script("explain_without_option", "R-explain-option", alter=replies.no_explain),
    Script("cancelled_job", "R-waiting-job-ends", CANCELLED),
    # Workload managers
    Script("not_eligible", "R-eligible", NOT_ELIGIBLE),
    Script("requeued_job", "R-requeued", REQUEUED),
    Script(
        "workload_manager_without_option",
        "R-workload-manager-option",
        alter=replies.no_workload_manager,
        knows_workload_managers=False,
    ),
    # Delayed replies
    Script("late_welcome", "R-nonce", withheld=frozenset({0})),
    Script("late_answer", "R-resend", withheld=frozenset({MIDDLE})),
    Script("held_answer", "R-held", withheld=frozenset({MIDDLE}), holds=True),
    # The end
    Script("metrics", "R-metrics", alter=replies.no_metrics),
    _stops("versions_refused", "R-versions", 0, replies.error("unsupported_version")),
    _stops("fatal_error", "R-fatal", MIDDLE, replies.error("shutting_down", fatal=True)),
    _stops("session_lost", "R-minimal", MIDDLE, replies.error("unknown_session", seq=MIDDLE)),
    # Invalid replies
    _stops("impossible_version", "R-impossible-answer", 0, lambda reply: reply | {"version": 7}),
    _impossible("bytes", b"\xc1 what is this?"),
    _impossible("nothing", b""),
    _impossible("half", replies.half),
    _impossible("trailing_byte", replies.trailing_byte),
    _impossible("list", msgspec.msgpack.encode(["events", 2, 0.0, []])),
    _impossible("no_type", msgspec.msgpack.encode({"seq": MIDDLE, "events": []})),
    _impossible("goodbye", {"type": "goodbye"}),
    _impossible("no_events", replies.without_events),
    _impossible("no_cores", replies.job_without_cores),
)


def try_client(
    command: str, only: Sequence[str] = (), *, timeout_s: float = 20.0, delay_s: float = 7.0
) -> Iterator[Verdict]:
    """Run the checks of a client and yield a verdict after each.

    Args:
        command: command line of the client, split as by a shell; `{address}` is replaced by the
            address of the server.
        only: names of the checks to run; empty: all checks.
        timeout_s: timeout for each request of the client, wall s.
        delay_s: delay of a reply in the checks `late_welcome` and `late_answer`, wall s.

    Raises:
        CommandError: the command line is invalid, or a check does not exist.
    """
    words = split_command(command)
    checks = {
        script.name: partial(_played, script, words, timeout_s, delay_s) for script in SCRIPTS
    }
    return run_checks(checks, only)


def _played(script: Script, words: Sequence[str], timeout_s: float, delay_s: float) -> Verdict:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.linger = 0
        socket.bind("tcp://127.0.0.1:*")
        address = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        with started(words, address) as program:
            connection = ClientConnection(socket, program)
            try:
                note = Conversation(script, connection, timeout_s, delay_s).play()
            except BrokenRuleError as broken:
                rule, output = rules()[broken.rule_id], program.last_lines()
                return Verdict(script.name, "failed", rule, broken.what, output)
            return Verdict(script.name, "passed", rules()[script.rule], note)
