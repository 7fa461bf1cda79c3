"""The checks of a client. Each is a script, played to a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec
import zmq

from hpcosim_conformance.clients import answers
from hpcosim_conformance.clients.answers import Map
from hpcosim_conformance.clients.connection import ClientConnection
from hpcosim_conformance.clients.conversation import Conversation
from hpcosim_conformance.clients.program import started, words_of
from hpcosim_conformance.clients.script import Script
from hpcosim_conformance.clients.small_scenarios import (
    EVERY_PLACEMENT,
    LARGE_NUMBERS,
    MANY_AT_ONCE,
    TWO_AT_ONCE,
)
from hpcosim_conformance.encodings import integers_for_floats, widest
from hpcosim_conformance.errors import BrokenRuleError
from hpcosim_conformance.rules import rules
from hpcosim_conformance.verdict import Verdict, run_checks

MIDDLE = 2  # the number of an answer in the middle of a session


def _stops(
    name: str, rule: str, number: int, answer: Map | bytes | Callable[[Map], Map | bytes]
) -> Script:
    """Return the script in which the answer of a number makes the client stop."""
    alter = answer if callable(answer) else lambda _: answer
    return Script(name, rule, alter=alter, stops_at=number)


def _impossible(name: str, answer: Map | bytes | Callable[[Map], Map | bytes]) -> Script:
    return _stops(f"impossible_{name}", "R-impossible-answer", MIDDLE, answer)


SCRIPTS: Sequence[Script] = (
    Script("simulation", "R-in-order"),
    # What a client reads
    Script("type_last", "R-body", alter=answers.type_last),
    Script("session_name", "R-session-name", alter=answers.long_session_name),
    Script("defaults_left_out", "R-defaults", alter=answers.defaults_left_out),
    Script("defaults_written_out", "R-defaults", alter=answers.defaults_written_out),
    Script("integers_for_floats", "R-numbers", alter=integers_for_floats),
    Script("large_numbers", "R-numbers", LARGE_NUMBERS),
    Script("number_widths", "R-widths", pack=widest),
    Script("unknown_fields", "R-unknown-fields", alter=answers.unknown_fields),
    Script("unknown_events", "R-unknown-events", alter=answers.unknown_events),
    # What it decides
    Script("placements", "R-placements", EVERY_PLACEMENT),
    Script("many_at_once", "R-batch", MANY_AT_ONCE),
    Script("rejected_decision", "R-rejected-job-waits", TWO_AT_ONCE, rejects_once=True),
    Script("wake_on", "R-no-job-allocated", alter=answers.no_wake_on_allocation),
    Script("alarms", "R-bad-time"),
    # Delayed answers
    Script("late_welcome", "R-nonce", withheld=frozenset({0})),
    Script("late_answer", "R-resend", withheld=frozenset({MIDDLE})),
    # The end
    Script("metrics", "R-metrics", alter=answers.no_metrics),
    _stops("versions_refused", "R-versions", 0, answers.error("unsupported_version")),
    _stops("fatal_error", "R-fatal", MIDDLE, answers.error("shutting_down", fatal=True)),
    _stops("session_lost", "R-minimal", MIDDLE, answers.error("unknown_session", seq=MIDDLE)),
    # Answers that can't be
    _stops("impossible_version", "R-impossible-answer", 0, lambda answer: answer | {"version": 7}),
    _impossible("bytes", b"\xc1 what is this?"),
    _impossible("nothing", b""),
    _impossible("half", answers.half),
    _impossible("trailing_byte", answers.trailing_byte),
    _impossible("list", msgspec.msgpack.encode(["events", 2, 0.0, []])),
    _impossible("no_type", msgspec.msgpack.encode({"seq": MIDDLE, "events": []})),
    _impossible("goodbye", {"type": "goodbye"}),
    _impossible("no_events", answers.without_events),
    _impossible("no_cores", answers.job_without_cores),
)


def try_client(
    command: str, only: Sequence[str] = (), *, timeout_s: float = 20.0, delay_s: float = 7.0
) -> Iterator[Verdict]:
    """Return the verdict of each check of a client, as the checks are made.

    Args:
        command: the client's command line, split as by a shell; `{address}` stands for the
            server's address.
        only: names of checks; empty: all.
        timeout_s: timeout for each request of the client, s.
        delay_s: delay of the answers that the checks of late answers delay, s.

    Raises:
        CommandError: the command line is wrong, or there is no such check.
    """
    words = words_of(command)
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
