"""The simulation that answers a client, and the rules for the order and content of requests."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hpcosim_conformance.clients.answers import Map
from hpcosim_conformance.clients.script import Script
from hpcosim_conformance.errors import BrokenRuleError, expect
from hpcosim_protocol import AllocateJob, ClientMessage, Decisions, Hello, SetAlarm
from hpcosim_server.service.session import Session

UNKNOWN_NODE = 2**40
REJECTION = {"code": "node_busy", "reason": "the conformance kit keeps this node busy, once"}
# The codes of rejections that only a client gets that breaks a rule, and that rule.
BROKEN_BY_CODE: Mapping[str, str] = {
    "unknown_node": "R-allocation",
    "bad_allocation": "R-bad-allocation",
    "node_busy": "R-count-cores",
}


def repeats(message: ClientMessage, last: ClientMessage | None) -> bool:
    """Return whether a request is the last one again.

    Args:
        message: the request.
        last: the request answered last; None: there was none.

    Raises:
        BrokenRuleError: it claims to be the last one, and differs from it.
    """
    if isinstance(message, Hello) and isinstance(last, Hello):
        same = message == last and bool(message.nonce)
        what = f"its second hello has nonce {message.nonce!r}, not that of the first"
        expect(same, "R-nonce", what)
        return True
    if isinstance(message, Decisions) and isinstance(last, Decisions) and message.seq == last.seq:
        what = f"it sent seq {message.seq} again, with another request"
        expect(message == last, "R-resend", what)
        return True
    return False


def number_of(message: Hello | Decisions, last: ClientMessage | None, session: str) -> int:
    """Return the number of a new request: 0 for a hello, else its `seq`.

    Args:
        message: the request.
        last: the request answered last; None: there was none.
        session: the name of the session, as the client was told.

    Raises:
        BrokenRuleError: it is out of order.
    """
    if isinstance(message, Hello):
        expect(last is None, "R-in-order", "it said hello in the middle of its session")
        return 0
    expect(last is not None, "R-hello", "it sent decisions before a hello")
    what = f"it named the session {message.session!r}, not {session!r}"
    expect(message.session == session, "R-session-name", what)
    due = last.seq + 1 if isinstance(last, Decisions) else 1
    expect(message.seq == due, "R-seq", f"it sent seq {message.seq} where {due} was due")
    return message.seq


class SimulatedServer:
    """Simulates the scenario of a script for one client, and checks its decisions.

    Args:
        script: what is played.

    Attributes:
        alarms: how many alarms the client has set.
        rejected: the job whose allocation the kit rejected, as the script says; None: none yet.
    """

    def __init__(self, script: Script) -> None:
        self.alarms = 0
        self.rejected: int | None = None
        self._script = script
        self._session: Session | None = None
        self._now_s = 0.0

    def answer(self, message: Hello | Decisions) -> Map:
        """Return the simulation's answer to a new request.

        Raises:
            BrokenRuleError: the decisions break a rule.
        """
        if isinstance(message, Hello):
            self._session = self._script.scenario.session(message)
            welcome: Map = msgspec.msgpack.decode(self._session.welcome())
            return welcome
        assert self._session is not None
        self._check(message)
        spoilt = self._with_one_rejected(message)
        answer: Map = msgspec.msgpack.decode(self._session.decide(spoilt or message))
        if answer["type"] == "error":
            stuck = answer["code"] == "simulation_stuck"
            what = f"it brought about the error {answer['code']}: {answer['message']}"
            raise BrokenRuleError(self._script.rule if stuck else "R-in-order", what)
        self._now_s = answer["now_s"]
        for event in answer.get("events", ()):
            if event["type"] == "decision_rejected":
                self._check_rejection(event, ours=spoilt is not None)
        return answer

    def _check(self, message: Decisions) -> None:
        what = f"its first request has {len(message.decisions)} decisions"
        expect(message.seq > 1 or not message.decisions, "R-first-request", what)
        what = "it named job_allocated without the option"
        expect("job_allocated" not in (message.wake_on or ()), "R-no-job-allocated", what)
        now_s = self._now_s + message.elapsed_s
        for decision in message.decisions:
            if isinstance(decision, SetAlarm):
                self.alarms += 1
                what = f"it set an alarm at {decision.at_s} s, when it was {now_s} s"
                expect(decision.at_s > now_s, "R-bad-time", what)

    def _with_one_rejected(self, message: Decisions) -> Decisions | None:
        """Return the request with its first allocation spoilt, if the script says so now."""
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
            what = f"its {event['decision']} of job {event['job_id']} was rejected: "
            raise BrokenRuleError(BROKEN_BY_CODE[event["code"]], what + event["reason"])
