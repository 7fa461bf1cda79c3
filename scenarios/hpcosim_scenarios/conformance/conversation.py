"""A server played to a client: a real simulation behind, and a script that makes it awkward."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import zmq

from hpcosim_protocol import (
    AllocateJob,
    Bye,
    ClientMessage,
    Decisions,
    DecodeError,
    Error,
    Goodbye,
    Hello,
    SetAlarm,
    UnsupportedVersionError,
    decode_client_message,
    encode,
)
from hpcosim_scenarios.conformance import rules
from hpcosim_scenarios.conformance.rules import Rule
from hpcosim_scenarios.conformance.subject import Subject, ended
from hpcosim_scenarios.conformance.verdict import BrokenRuleError
from hpcosim_scenarios.conformance.worlds import PLAIN, World
from hpcosim_server.session import Session

Map = dict[str, Any]
MOST_FRAMES = 6  # as the client sends them
MOST_REQUESTS = 20_000
SLICE_MS = 20
QUIET_S = 0.3  # in which one that does not wait for its answer is found out
REFUSED_ONCE = "the conformance kit keeps this node busy, once"
# Rejections that only a client gets that does not keep to a rule, by that rule.
CARELESS: Mapping[str, Rule] = {
    "unknown_node": rules.ALLOCATION,
    "bad_allocation": rules.MISFIT,
    "node_busy": rules.COUNTS,
}


def as_it_is(number: int, answer: Map) -> Map:
    """Alter nothing."""
    return answer


@dataclass(frozen=True, slots=True)
class Script:
    """What is played to a client in one check.

    Attributes:
        name: of the check.
        rule: what it is about, and what is broken by a client that does not get through.
        world: what there is to schedule.
        alter: given the number of an answer (0: the welcome, else its `seq`) and the answer,
            returns what is sent instead, a message or bytes.
        last: the number of an answer after which the client has to stop; None: the simulation ends.
        pack: makes bytes of a message.
        withheld: numbers of answers that come late.
        rejects_once: the first allocation is rejected.
    """

    name: str
    rule: Rule
    world: World = PLAIN
    alter: Callable[[int, Map], Map | bytes] = as_it_is
    last: int | None = None
    pack: Callable[[Map], bytes] = msgspec.msgpack.encode
    withheld: frozenset[int] = frozenset()
    rejects_once: bool = False


@dataclass(frozen=True, slots=True)
class Waits:
    """How long a client may take.

    Attributes:
        silence_s: for its next request, or to end.
        late_s: by how much an answer that is withheld comes late.
        check_s: for a whole script.
    """

    silence_s: float = 20.0
    late_s: float = 7.0
    check_s: float = 300.0


class Request(NamedTuple):
    """A request, with the frames that go back before its answer."""

    envelope: list[bytes]
    message: ClientMessage


class Conversation:
    """One script, played to one client.

    Args:
        script: what.
        socket: a bound ROUTER.
        subject: the client.
        waits: how long it may take.
    """

    def __init__(
        self, script: Script, socket: zmq.Socket[bytes], subject: Subject, waits: Waits
    ) -> None:
        self._script, self._socket, self._subject, self._waits = script, socket, subject, waits
        self._hello: Hello | None = None
        self._session: Session | None = None
        self._name = ""  # of the session, as the client was told
        self._last: ClientMessage | None = None  # the request answered last
        self._answer = b""  # to it
        self._now_s = 0.0
        self._heard_s = time.monotonic()  # when its last request came that it had not sent before
        self._over = False
        self._rejected: int | None = None  # the job whose allocation was, by us
        self._resent = 0
        self._alarms = 0

    def hold(self) -> str:
        """Play the script to its end, and return what is worth knowing of the client.

        Raises:
            BrokenRuleError: the client broke a rule.
        """
        until_s = time.monotonic() + self._waits.check_s
        for _ in range(MOST_REQUESTS):
            due_s = min(until_s, self._heard_s + self._waits.silence_s)
            request = self._next(due_s - time.monotonic())
            if request is None or time.monotonic() > due_s:
                if self._rejected is not None and self._subject.status() not in (None, 0):
                    return "stops where an allocation is rejected, as it may"
                rule = rules.HELLO if self._last is None else self._script.rule
                raise BrokenRuleError(rule, self._how_it_failed())
            self._answer_to(request)
            if self._over:
                self._farewell()
                return self._note()
        raise BrokenRuleError(self._script.rule, f"it is not done after {MOST_REQUESTS} requests")

    def _how_it_failed(self) -> str:
        heard = "said hello" if self._last is None else "asked once more"
        if isinstance(self._last, Decisions):
            heard = f"went on after the answer to seq {self._last.seq}"
        elif self._last is not None:
            heard = "sent decisions after the welcome"
        status = self._subject.status()
        if status is None:
            return f"within {self._waits.silence_s:g} s it never {heard}"
        return f"it {ended(status)} and never {heard}; the simulation is not over"

    def _note(self) -> str:
        if self._script.withheld and not self._resent:
            return "does not resend; it need not"
        if self._script.rule is rules.ALARM_TIME and not self._alarms:
            return "sets no alarms"
        return ""

    # Requests

    def _next(self, wait_s: float) -> Request | None:
        """Return the next request; None: none came in time, or the client has ended."""
        until_s = time.monotonic() + wait_s
        gone = False
        while True:
            if self._socket.poll(SLICE_MS):
                return self._read(self._socket.recv_multipart())
            if gone or time.monotonic() >= until_s:
                return None
            gone = self._subject.status() is not None  # what it sent last may be on its way

    def _read(self, frames: list[bytes]) -> Request:
        identity, *sent = frames
        if not 1 <= len(sent) <= MOST_FRAMES:
            raise BrokenRuleError(rules.FRAMES, f"it sent a message of {len(sent)} frames")
        try:
            message = decode_client_message(sent[-1])
        except UnsupportedVersionError as error:
            if not error.offered:
                return Request([identity, *sent[:-1]], Hello(versions=[]))
            raise BrokenRuleError(
                rules.HELLO, f"its hello offers only versions {error.offered}"
            ) from error
        except DecodeError as error:
            raise BrokenRuleError(
                _rule_of(error), f"it sent no message of version 1: {error}"
            ) from error
        return Request([identity, *sent[:-1]], message)

    def _send(self, request: Request, body: bytes) -> None:
        self._socket.send_multipart([*request.envelope, body])

    # Answers

    def _answer_to(self, request: Request) -> None:
        message = request.message
        if isinstance(message, Hello) and not message.versions:  # a ping
            refusal = Error(code="unsupported_version", message="this server speaks version 1")
            self._send(request, encode(refusal))
        elif isinstance(message, Bye):
            self._send(request, encode(Goodbye()))
            raise BrokenRuleError(self._script.rule, "it said bye before the simulation was over")
        elif self._again(message):
            self._resent += 1
            self._send(request, self._answer)
        else:
            self._answer_first(request)

    def _again(self, message: ClientMessage) -> bool:
        """Tell whether a request was heard before, and check that it is the same."""
        last = self._last
        if isinstance(message, Hello) and isinstance(last, Hello):
            if message == last and message.nonce:
                return True
            raise BrokenRuleError(
                rules.NONCE, f"its second hello has nonce {message.nonce!r}, not the first's"
            )
        if isinstance(message, Decisions) and isinstance(last, Decisions):
            if message.seq == last.seq and message != last:
                raise BrokenRuleError(
                    rules.RESEND, f"it sent seq {message.seq} again, with another request"
                )
            return message.seq == last.seq
        return False

    def _answer_first(self, request: Request) -> None:
        message, self._heard_s = request.message, time.monotonic()
        number = self._check_order(message)
        if isinstance(message, Decisions):
            self._check_decisions(message)
        answer = self._altered(number, self._from_world(message))
        self._last, self._answer = message, answer
        if number in self._script.withheld:
            self._send_late(request)
        else:
            self._check_patience(number)
            self._send(request, answer)

    def _check_order(self, message: ClientMessage) -> int:
        """Return the number of a request, once it is in order."""
        if isinstance(message, Hello):
            if self._hello is not None:
                raise BrokenRuleError(rules.IN_ORDER, "it said hello in the middle of its session")
            self._hello = message
            return 0
        assert isinstance(message, Decisions)
        if self._hello is None:
            raise BrokenRuleError(rules.HELLO, "it sent decisions before a hello")
        if message.session != self._name:
            raise BrokenRuleError(
                rules.NAMES, f"it named the session {message.session!r}, not {self._name!r}"
            )
        due = self._last.seq + 1 if isinstance(self._last, Decisions) else 1
        if message.seq != due:
            raise BrokenRuleError(rules.SEQ, f"it sent seq {message.seq} where {due} was due")
        return message.seq

    def _check_decisions(self, message: Decisions) -> None:
        if message.seq == 1 and message.decisions:
            raise BrokenRuleError(
                rules.FIRST, f"its first request has {len(message.decisions)} decisions"
            )
        if "job_allocated" in (message.wake_on or ()) and not self._script.world.wake_on_allocation:
            raise BrokenRuleError(
                rules.NO_JOB_ALLOCATED, "it named job_allocated without the option"
            )
        for decision in message.decisions:
            if isinstance(decision, SetAlarm):
                self._alarms += 1
                now_s = self._now_s + message.elapsed_s
                if not decision.at_s > now_s:
                    what = f"it set an alarm at {decision.at_s} s, when it was {now_s} s"
                    raise BrokenRuleError(rules.ALARM_TIME, what)

    def _from_world(self, message: ClientMessage) -> Map:
        """Return the answer of the simulation."""
        if isinstance(message, Hello):
            self._session = self._script.world.session(message)
            return _as_map(self._session.welcome())
        assert isinstance(message, Decisions)
        assert self._session is not None
        refused = self._refused_once(message)
        answer = _as_map(self._session.decide(message if refused is None else refused))
        if answer["type"] == "error":
            rule = self._script.rule if answer["code"] == "simulation_stuck" else rules.IN_ORDER
            raise BrokenRuleError(
                rule, f"it brought about the error {answer['code']}: {answer['message']}"
            )
        self._now_s = answer["now_s"]
        for event in answer.get("events", ()):
            if event["type"] == "decision_rejected":
                self._check_rejection(event, ours=refused is not None)
        return answer

    def _refused_once(self, message: Decisions) -> Decisions | None:
        """Return the request so that its first allocation can't be carried out, the first time."""
        if not self._script.rejects_once or self._rejected is not None:
            return None
        for index, decision in enumerate(message.decisions):
            if isinstance(decision, AllocateJob):
                self._rejected = decision.job_id
                decisions = list(message.decisions)
                decisions[index] = AllocateJob(decision.job_id, [2**40])
                return msgspec.structs.replace(message, decisions=decisions)
        return None

    def _check_rejection(self, event: Map, *, ours: bool) -> None:
        if ours and event["job_id"] == self._rejected:
            event |= {"code": "node_busy", "reason": REFUSED_ONCE}
        elif event["code"] in CARELESS:
            what = (
                f"its {event['decision']} of job {event['job_id']} was rejected: {event['reason']}"
            )
            raise BrokenRuleError(CARELESS[event["code"]], what)

    def _altered(self, number: int, answer: Map) -> bytes:
        sent = self._script.alter(number, answer)
        self._over = number == self._script.last
        if isinstance(sent, bytes):
            return sent
        self._name = sent.get("session", self._name)
        self._over = self._over or sent["type"] == "simulation_ended"
        return self._script.pack(sent)

    # Lateness

    def _send_late(self, request: Request) -> None:
        """Let a client wait for its answer, then answer every time that it asked."""
        requests = [request]
        until_s = time.monotonic() + self._waits.late_s
        while len(requests) == 1 and time.monotonic() < until_s:
            again = self._next(until_s - time.monotonic())
            if again is not None:
                if not self._again(again.message):
                    raise BrokenRuleError(
                        rules.IN_ORDER, "it went on without the answer to its request"
                    )
                self._resent += 1
                requests.append(again)
            elif self._subject.status() is not None:
                status = self._subject.status() or 0
                raise BrokenRuleError(
                    rules.WAITS,
                    f"it {ended(status)} before an answer {self._waits.late_s:g} s late",
                )
        for each in requests:
            self._send(each, self._answer)
        self._heard_s = time.monotonic()

    def _check_patience(self, number: int) -> None:
        """Find out who took an answer that came twice for the answer to the next request."""
        if number - 1 in self._script.withheld and self._socket.poll(int(1000 * QUIET_S)):
            early = self._read(self._socket.recv_multipart()).message
            if not self._again(early):
                raise BrokenRuleError(rules.DROP, f"it went on without the answer to seq {number}")

    # The end

    def _farewell(self) -> None:
        """See the client end, as it should."""
        stops = self._script.last is not None
        rule = self._script.rule if stops else rules.END
        until_s = time.monotonic() + self._waits.silence_s
        while (request := self._next(until_s - time.monotonic())) is not None:
            if time.monotonic() > until_s:
                break
            if isinstance(request.message, Bye) and stops:
                self._send(request, encode(Goodbye()))
            elif self._resent and self._again(request.message):
                self._send(request, self._answer)  # it was on its way when the answer came
            else:
                kind = type(request.message).__name__.lower()
                raise BrokenRuleError(rule, f"it sent {kind} after the last answer it was due")
        status = self._subject.status(max(0.0, until_s - time.monotonic()))
        if status is None:
            raise BrokenRuleError(
                rule if stops else rules.EXIT_STATUS,
                f"it was still there {self._waits.silence_s:g} s after the last answer",
            )
        if stops == (status == 0):
            due = "another than 0" if stops else "0"
            plain = stops or self._script.rule is rules.IN_ORDER
            rule = rules.EXIT_STATUS if plain else self._script.rule
            raise BrokenRuleError(rule, f"it {ended(status)}; {due} was due")


def _rule_of(error: DecodeError) -> Rule:
    """Return the rule that a message breaks which can't be read."""
    if error.where.startswith("$.wake_on"):
        return rules.NOT_LOST
    if error.where.startswith("$.decisions[") and error.where.endswith(".type"):
        return rules.UNKNOWN_DECISIONS
    return rules.INVALID if error.where else rules.BODY


def _as_map(data: bytes) -> Map:
    message: Map = msgspec.msgpack.decode(data)
    return message
