"""The exchange with a client under test, from its hello to its exit."""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec

from hpcosim_conformance.clients.connection import ClientConnection, Request, describe_status
from hpcosim_conformance.clients.replies import Map
from hpcosim_conformance.clients.script import Script
from hpcosim_conformance.errors import BrokenRuleError, expect
from hpcosim_protocol import (
    WORKLOAD_MANAGER_EVENTS,
    AllocateJob,
    Bye,
    ClientMessage,
    Decision,
    Decisions,
    Error,
    Explain,
    GetHistory,
    GetStatus,
    Goodbye,
    Held,
    Hello,
    KillJob,
    RejectJob,
    RequeueJob,
    ResumeJob,
    SetAlarm,
    SetCheckpoint,
    SuspendJob,
    encode,
)
from hpcosim_server.service.session import Session

MAX_REQUESTS = 20_000
CHECK_S = 300.0  # timeout for a whole script, wall s
# A client that accepts a duplicate reply sends its next request within this time, wall s.
QUIET_S = 1.0
PING_REPLY = encode(Error(code="unsupported_version", message="this server supports version 1"))
NO_STATUS = encode(Error(code="invalid_message", message="this server does not tell its status"))


UNKNOWN_NODE = 2**40
REJECTION = {"code": "node_busy", "reason": "the conformance kit keeps this node busy, once"}
# Rejection codes that show a broken rule, with the id of the rule.
BROKEN_BY_CODE: Mapping[str, str] = {
    "unknown_node": "R-allocation",
    "bad_allocation": "R-bad-allocation",
    "node_busy": "R-count-cores",
    "bad_reason": "R-reason",
    "job_not_eligible": "R-eligible",
}


class Conversation:
    """The exchange of one script with one client.

    Args:
        connection: the connection to the client.
        timeout_s: timeout for each request, and for the exit after the last reply, wall s.
        delay_s: maximum delay of a withheld reply, wall s. A resent request ends the delay.
    """

    def __init__(
        self, script: Script, connection: ClientConnection, timeout_s: float, delay_s: float
    ) -> None:
        self._script, self._connection = script, connection
        self._program = connection.program
        self._timeout_s, self._delay_s = timeout_s, delay_s
        self._server = SimulatedServer(script)
        self._session = ""  # session name in the welcome
        self._last: ClientMessage | None = None  # last answered request
        self._reply = b""  # reply to it
        self._is_over = False
        self._resent = 0  # number of resent requests
        self._holds = False  # whether the client understands `held` and the script sends it

    def play(self) -> str:
        """Run the script to its end and return a note on the client; empty: no note.

        Raises:
            BrokenRuleError: the client broke a rule.
        """
        until_s = time.monotonic() + CHECK_S
        deadline_s = time.monotonic() + self._timeout_s
        for _ in range(MAX_REQUESTS):
            request = self._connection.receive(min(until_s, deadline_s) - time.monotonic())
            if request is None or time.monotonic() > min(until_s, deadline_s):
                if self._server.rejected is not None and self._program.status() not in (None, 0):
                    return "stops after a rejected allocation, which is allowed"
                rule = "R-hello" if self._last is None else self._script.rule
                raise BrokenRuleError(rule, self._describe_silence())
            if self._reply_to(request):
                deadline_s = time.monotonic() + self._timeout_s
            if self._is_over:
                self._check_end()
                return self._note()
        what = f"the client sent {MAX_REQUESTS} requests and the simulation is not over"
        raise BrokenRuleError(self._script.rule, what)

    def _describe_silence(self) -> str:
        missing = "a hello" if self._last is None else "decisions after the welcome"
        if isinstance(self._last, Decisions):
            missing = f"a request after the reply to seq {self._last.seq}"
        status = self._program.status()
        if status is None:
            return f"the client did not send {missing} within {self._timeout_s:g} s"
        return f"the client {describe_status(status)} and did not send {missing}"

    def _note(self) -> str:
        if self._script.withheld and not self._resent:
            return "does not resend, which is allowed"
        if self._script.holds and not self._holds:
            return "does not understand `held`, which is allowed"
        if self._script.rule == "R-bad-time" and not self._server.alarms:
            return "sets no alarms"
        if self._script.explains and not self._server.explanations:
            return "sends no explanations"
        return ""

    def _reply_to(self, request: Request) -> bool:
        """Reply to a request and return whether it is new."""
        message = request.message
        if isinstance(message, Hello) and not message.versions:
            self._connection.reply(request, PING_REPLY)
            return False
        if self._repeats(request):
            self._connection.reply(request, self._reply)
            return False
        if isinstance(message, Bye):
            self._connection.reply(request, encode(Goodbye()))
            what = "the client sent bye before the simulation was over"
            raise BrokenRuleError(self._script.rule, what)
        if isinstance(message, GetHistory):
            what = "the client sent get_history; the welcome did not have the option history"
            raise BrokenRuleError("R-history-only", what)
        if isinstance(message, GetStatus):
            self._connection.reply(request, NO_STATUS)
            return False
        number = number_of(message, self._last, self._session)
        self._reply = self._body(number, message)
        self._last = message
        if number in self._script.withheld:
            self._reply_late(request)
        else:
            self._check_patience(number)
            self._connection.reply(request, self._reply)
        return True

    def _repeats(self, request: Request) -> bool:
        repeated = repeats(request.message, self._last)
        self._resent += repeated
        return repeated

    def _body(self, number: int, message: Hello | Decisions) -> bytes:
        """Return the reply to a new request."""
        if isinstance(message, Hello):
            self._holds = self._script.holds and message.held_replies
        sent = self._script.altered(number, self._server.reply(message))
        self._is_over = number == self._script.stops_at
        if isinstance(sent, bytes):
            return sent
        self._session = sent.get("session", self._session)
        self._is_over = self._is_over or sent["type"] == "simulation_ended"
        return self._script.pack(sent)

    # Delays

    def _reply_late(self, request: Request) -> None:
        """Delay a reply until the request is resent, then reply to each copy of the request."""
        requests = [request]
        until_s = time.monotonic() + self._delay_s
        while len(requests) == 1 and time.monotonic() < until_s:
            again = self._connection.receive(until_s - time.monotonic())
            if again is not None:
                what = "the client sent a new request before it received a reply"
                expect(self._repeats(again), "R-in-order", what)
                requests.append(again)
                if self._holds:
                    self._hold(requests)
            elif (status := self._program.status()) is not None:
                what = f"the client {describe_status(status)} during a delay of {self._delay_s:g} s"
                raise BrokenRuleError("R-waits", what)
        for each in requests:
            self._connection.reply(each, self._reply)

    def _hold(self, requests: list[Request]) -> None:
        """Reply `held` to the last copy of a request; wait whether another one follows."""
        message = requests[-1].message
        assert isinstance(message, Decisions)
        self._connection.reply(requests[-1], encode(Held(seq=message.seq, now_s=0.0)))
        again = self._connection.receive(self._delay_s)
        if again is not None:
            what = "the client sent a new request after `held`"
            expect(self._repeats(again), "R-held", what)
            requests.append(again)

    def _check_patience(self, number: int) -> None:
        """Check that a client does not accept a duplicate reply for the reply of this number."""
        if number - 1 in self._script.withheld:
            early = self._connection.receive(QUIET_S)
            what = f"the client sent a new request before the reply to seq {number}"
            expect(early is None or self._repeats(early), "R-drop", what)

    # The end

    def _check_end(self) -> None:
        """Check that the client exits after the last reply with the right status."""
        stops = self._script.stops_at is not None
        rule = self._script.rule if stops else "R-end"
        until_s = time.monotonic() + self._timeout_s
        while (request := self._connection.receive(until_s - time.monotonic())) is not None:
            if time.monotonic() > until_s:
                break
            if isinstance(request.message, Bye) and stops:
                self._connection.reply(request, encode(Goodbye()))
            elif self._resent and self._repeats(request):
                # The client resent the request before it received the reply.
                self._connection.reply(request, self._reply)
            else:
                kind = type(request.message).__name__.lower()
                raise BrokenRuleError(rule, f"the client sent {kind} after the last reply")
        status = self._program.status(max(0.0, until_s - time.monotonic()))
        if status is None:
            what = f"the client had not exited {self._timeout_s:g} s after the last reply"
            raise BrokenRuleError(rule if stops else "R-exit-status", what)
        if stops == (status == 0):
            # In other scripts the altered replies are the cause of a wrong status.
            plain = stops or self._script.rule == "R-in-order"
            expected = "a status other than 0" if stops else "status 0"
            what = f"the client {describe_status(status)}; expected {expected}"
            raise BrokenRuleError("R-exit-status" if plain else self._script.rule, what)


def repeats(message: ClientMessage, last: ClientMessage | None) -> bool:
    """Return whether a request is the last one, resent.

    Args:
        last: the last answered request; None: there is none.

    Raises:
        BrokenRuleError: the request has the `seq` or type of the last one and differs from it.
    """
    if isinstance(message, Hello) and isinstance(last, Hello):
        same = message == last and bool(message.nonce)
        what = f"the second hello has the nonce {message.nonce!r}; the first has {last.nonce!r}"
        expect(same, "R-nonce", what)
        return True
    if isinstance(message, Decisions) and isinstance(last, Decisions) and message.seq == last.seq:
        what = f"the client sent seq {message.seq} twice, with different requests"
        expect(message == last, "R-resend", what)
        return True
    return False


def number_of(message: Hello | Decisions, last: ClientMessage | None, session: str) -> int:
    """Return the number of a new request: 0 for a hello, otherwise its `seq`.

    Args:
        last: the last answered request; None: there is none.
        session: session name in the welcome.

    Raises:
        BrokenRuleError: the request is out of order.
    """
    if isinstance(message, Hello):
        expect(last is None, "R-in-order", "the client sent a hello within its session")
        return 0
    expect(last is not None, "R-hello", "the client sent decisions before a hello")
    what = f"the client sent the session name {message.session!r}; expected {session!r}"
    expect(message.session == session, "R-session-name", what)
    expected = last.seq + 1 if isinstance(last, Decisions) else 1
    expect(
        message.seq == expected, "R-seq", f"the client sent seq {message.seq}; expected {expected}"
    )
    return message.seq


class SimulatedServer:
    """Simulates the scenario of a script for one client and checks the decisions.

    Attributes:
        alarms: number of alarms that the client has set.
        explanations: number of explanations that the client has sent.
        rejected: number of the job whose allocation the kit rejected; None: none yet.
    """

    def __init__(self, script: Script) -> None:
        self.alarms = 0
        self.explanations = 0
        self.rejected: int | None = None
        self._script = script
        self._session: Session | None = None
        self._manages = False  # value of the option `workload_manager`
        self._now_s = 0.0

    def reply(self, message: Hello | Decisions) -> Map:
        """Return the reply of the simulation to a new request.

        Raises:
            BrokenRuleError: the decisions break a rule.
        """
        if isinstance(message, Hello):
            if not self._script.knows_workload_managers:
                message = msgspec.structs.replace(message, workload_manager=False)
            self._manages = message.workload_manager
            self._session = self._script.scenario.session(message)
            welcome: Map = msgspec.msgpack.decode(self._session.welcome())
            welcome["options"]["explain"] = self._script.explains
            return welcome
        assert self._session is not None
        self._check(message)
        changed = self._with_rejected_allocation(message)
        reply: Map = msgspec.msgpack.decode(self._session.decide(changed or message))
        if reply["type"] == "error":
            stuck = reply["code"] == "simulation_stuck"
            what = f"a request of the client led to the error {reply['code']}: {reply['message']}"
            rule = "R-in-order"
            if stuck:  # in a script for another rule, its altered replies are the cause
                rule = "R-stuck" if self._script.rule == rule else self._script.rule
            raise BrokenRuleError(rule, what)
        self._now_s = reply["now_s"]
        for event in reply.get("events", ()):
            if event["type"] == "decision_rejected":
                self._check_rejection(event, ours=changed is not None)
        return reply

    def _check(self, message: Decisions) -> None:
        what = f"the first request has {len(message.decisions)} decisions; expected none"
        expect(message.seq > 1 or not message.decisions, "R-first-request", what)
        what = "wake_on names job_allocated although wake_on_allocation is false"
        expect("job_allocated" not in (message.wake_on or ()), "R-no-job-allocated", what)
        what = "wake_on names signal_changed although signals is false"
        expect("signal_changed" not in (message.wake_on or ()), "R-no-signal-changed", what)
        explained = sum(isinstance(decision, Explain) for decision in message.decisions)
        self.explanations += explained
        what = "the client sent explain although the option explain is not true"
        expect(not explained or self._script.explains, "R-explain-option", what)
        new: list[str] = sorted(WORKLOAD_MANAGER_EVENTS.intersection(message.wake_on or ()))
        new += [type(each).__name__ for each in message.decisions if _needs_the_option(each)]
        what = f"the client sent {new[:3]} although the option workload_manager is not true"
        expect(self._manages or not new, "R-workload-manager-option", what)
        now_s = self._now_s + message.elapsed_s
        for decision in message.decisions:
            if isinstance(decision, SetAlarm):
                self.alarms += 1
                what = f"the client set an alarm at {decision.at_s} s; the time was {now_s} s"
                expect(decision.at_s > now_s, "R-bad-time", what)

    def _with_rejected_allocation(self, message: Decisions) -> Decisions | None:
        """Return the request with an invalid first allocation; None: the script needs no change."""
        if not self._script.rejects_once or self.rejected is not None:
            return None
        for index, decision in enumerate(message.decisions):
            if isinstance(decision, AllocateJob):
                self.rejected = decision.job_id
                decisions = list(message.decisions)
                decisions[index] = AllocateJob(decision.job_id, [UNKNOWN_NODE])
                return msgspec.structs.replace(message, decisions=decisions)
        return None

    def _check_rejection(self, event: Map, *, ours: bool) -> None:
        if ours and event["job_id"] == self.rejected:
            event |= REJECTION
        elif event["code"] in BROKEN_BY_CODE:
            what = f"{event['decision']} of job {event['job_id']} was rejected: "
            raise BrokenRuleError(BROKEN_BY_CODE[event["code"]], what + event["reason"])


def _needs_the_option(decision: Decision) -> bool:
    """Return whether a client may send a decision only with the option `workload_manager`."""
    match decision:
        case RequeueJob() | SuspendJob() | ResumeJob() | SetCheckpoint():
            return True
        case (
            RejectJob(state="rejected", reason="", at_end=False)
            | KillJob(state="killed", grace_s=0.0)
        ):
            return False
        case RejectJob() | KillJob():
            return True
        case AllocateJob():
            return bool(decision.gres)
    return False
