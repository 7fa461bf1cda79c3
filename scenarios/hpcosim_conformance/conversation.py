"""A server played to a client: a real simulation behind, and a script that makes it awkward."""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec

from hpcosim_conformance import rules
from hpcosim_conformance.door import Door, Request
from hpcosim_conformance.rules import Rule
from hpcosim_conformance.script import Map, Script, Waits
from hpcosim_conformance.subject import Subject, ended
from hpcosim_conformance.verdict import BrokenRuleError
from hpcosim_protocol import (
    AllocateJob,
    Bye,
    ClientMessage,
    Decisions,
    Error,
    Goodbye,
    Hello,
    SetAlarm,
    encode,
)
from hpcosim_server.service.session import Session

MOST_REQUESTS = 20_000
QUIET_S = 0.3  # in which one that does not wait for its answer is found out
REFUSED_ONCE = "the conformance kit keeps this node busy, once"
# Rejections that only a client gets that does not keep to a rule, by that rule.
CARELESS: Mapping[str, Rule] = {
    "unknown_node": rules.ALLOCATION,
    "bad_allocation": rules.MISFIT,
    "node_busy": rules.COUNTS,
}


class Conversation:
    """One script, played to one client.

    Args:
        script: what.
        door: where the client comes.
        subject: the client.
        waits: how long it may take.
    """

    def __init__(self, script: Script, door: Door, subject: Subject, waits: Waits) -> None:
        self._script, self._door, self._subject, self._waits = script, door, subject, waits
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
            request = self._door.next(due_s - time.monotonic())
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

    # Answers

    def _answer_to(self, request: Request) -> None:
        message = request.message
        if isinstance(message, Hello) and not message.versions:  # a ping
            refusal = Error(code="unsupported_version", message="this server speaks version 1")
            self._door.send(request, encode(refusal))
        elif isinstance(message, Bye):
            self._door.send(request, encode(Goodbye()))
            raise BrokenRuleError(self._script.rule, "it said bye before the simulation was over")
        elif self._again(message):
            self._resent += 1
            self._door.send(request, self._answer)
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
            self._door.send(request, answer)

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
            again = self._door.next(until_s - time.monotonic())
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
            self._door.send(each, self._answer)
        self._heard_s = time.monotonic()

    def _check_patience(self, number: int) -> None:
        """Find out who took an answer that came twice for the answer to the next request."""
        if number - 1 in self._script.withheld:
            early = self._door.next(QUIET_S)
            if early is not None and not self._again(early.message):
                raise BrokenRuleError(rules.DROP, f"it went on without the answer to seq {number}")

    # The end

    def _farewell(self) -> None:
        """See the client end, as it should."""
        stops = self._script.last is not None
        rule = self._script.rule if stops else rules.END
        until_s = time.monotonic() + self._waits.silence_s
        while (request := self._door.next(until_s - time.monotonic())) is not None:
            if time.monotonic() > until_s:
                break
            if isinstance(request.message, Bye) and stops:
                self._door.send(request, encode(Goodbye()))
            elif self._resent and self._again(request.message):
                self._door.send(request, self._answer)  # it was on its way when the answer came
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


def _as_map(data: bytes) -> Map:
    message: Map = msgspec.msgpack.decode(data)
    return message
