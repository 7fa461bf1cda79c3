"""The checks of a client, each a script played to a program of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
import zmq

from hpcosim_conformance import awkward, rules
from hpcosim_conformance.conversation import Conversation
from hpcosim_conformance.door import Door
from hpcosim_conformance.rules import Rule
from hpcosim_conformance.script import Map, Script, Waits
from hpcosim_conformance.subject import Subject
from hpcosim_conformance.unusual import narrowest, unusual
from hpcosim_conformance.verdict import BrokenRuleError, Verdict
from hpcosim_conformance.worlds import (
    EVERY_PLACEMENT,
    LARGE_NUMBERS,
    MANY_AT_ONCE,
    TWO_AT_ONCE,
)

IN_THE_MIDDLE = 2


def _instead(
    number: int, answer: Map | bytes | Callable[[Map], bytes]
) -> Callable[..., Map | bytes]:
    """Return what sends this instead of the answer of that number."""

    def alter(current: int, real: Map) -> Map | bytes:
        if current != number:
            return real
        return answer(real) if callable(answer) else answer

    return alter


def _stops(
    name: str, rule: Rule, number: int, answer: Map | bytes | Callable[[Map], bytes]
) -> Script:
    """Return the script in which an answer is such that the client has to stop."""
    return Script(name, rule, alter=_instead(number, answer), last=number)


def _impossible(name: str, answer: Map | bytes | Callable[[Map], bytes]) -> Script:
    return _stops(f"impossible_{name}", rules.IMPOSSIBLE, IN_THE_MIDDLE, answer)


SIMULATION = Script("simulation", rules.IN_ORDER)
"""The plain case. With a client that does not get through this, nothing else can be tried."""

SCRIPTS: Sequence[Script] = (
    SIMULATION,
    # What a client reads
    Script("type_last", rules.BODY, alter=awkward.type_last),
    Script("session_name", rules.NAMES, alter=awkward.long_session_name),
    Script("defaults_left_out", rules.DEFAULTS, alter=awkward.defaults_left_out),
    Script("defaults_written_out", rules.DEFAULTS, alter=awkward.defaults_written_out),
    Script("integers_for_floats", rules.NUMBERS, alter=lambda number, answer: narrowest(answer)),
    Script("large_numbers", rules.NUMBERS, LARGE_NUMBERS),
    Script("number_widths", rules.WIDTHS, pack=unusual),
    Script("unknown_fields", rules.UNKNOWN_FIELDS, alter=awkward.unknown_fields),
    Script("unknown_events", rules.UNKNOWN_EVENTS, alter=awkward.unknown_events),
    # What it decides
    Script("placements", rules.PLACEMENTS, EVERY_PLACEMENT),
    Script("many_at_once", rules.BATCH, MANY_AT_ONCE),
    Script("rejected_decision", rules.WAITS_ON, TWO_AT_ONCE, rejects_once=True),
    Script("wake_on", rules.NO_JOB_ALLOCATED, alter=awkward.no_wake_on_allocation),
    Script("alarms", rules.ALARM_TIME),
    # Lost and late
    Script("late_welcome", rules.NONCE, withheld=frozenset({0})),
    Script("late_answer", rules.RESEND, withheld=frozenset({IN_THE_MIDDLE})),
    # The end
    Script("metrics", rules.METRICS, alter=awkward.no_metrics),
    _stops("versions_refused", rules.VERSIONS, 0, awkward.error("unsupported_version", False, 0)),
    _stops("fatal_error", rules.FATAL, IN_THE_MIDDLE, awkward.error("shutting_down", True, 0)),
    _stops(
        "session_lost",
        rules.STOPS,
        IN_THE_MIDDLE,
        awkward.error("unknown_session", False, IN_THE_MIDDLE),
    ),
    # Answers that can't be
    Script("impossible_version", rules.IMPOSSIBLE, alter=awkward.a_version_not_offered, last=0),
    _impossible("bytes", b"\xc1 what is this?"),
    _impossible("nothing", b""),
    _impossible("half", awkward.half),
    _impossible("trailing_byte", lambda answer: msgspec.msgpack.encode(answer) + b"\x00"),
    _impossible("list", msgspec.msgpack.encode(["events", 2, 0.0, []])),
    _impossible("no_type", msgspec.msgpack.encode({"seq": IN_THE_MIDDLE, "events": []})),
    _impossible("goodbye", {"type": "goodbye"}),
    _impossible("no_events", awkward.without_events),
    _impossible("no_cores", awkward.job_without_cores),
)


def check_client(words: Sequence[str], waits: Waits, only: Sequence[str] = ()) -> Iterator[Verdict]:
    """Yield what comes of each check of a client.

    Args:
        words: the client's command, `{address}` for the server's.
        waits: how long it may take.
        only: names of checks; empty: all.

    Raises:
        CommandError: it can't be started.
    """
    for script in SCRIPTS:
        if only and script.name not in only:
            continue
        verdict = _played(script, words, waits)
        yield verdict
        if script is SIMULATION and verdict.outcome == "failed":
            break  # what else it does wrong can't be told from this


def _played(script: Script, words: Sequence[str], waits: Waits) -> Verdict:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.linger = 0
        socket.bind("tcp://127.0.0.1:*")
        address = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        with Subject(words, address) as subject:
            try:
                note = Conversation(script, Door(socket, subject), subject, waits).hold()
            except BrokenRuleError as broken:
                said = subject.last_words()
                return Verdict(script.name, "failed", broken.rule, broken.what, said)
            return Verdict(script.name, "passed", script.rule, note)
