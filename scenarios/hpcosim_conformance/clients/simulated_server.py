"""The simulation behind the kit's server, and the rules for the order and content of requests."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hpcosim_conformance.clients.replies import Map
from hpcosim_conformance.clients.script import Script
from hpcosim_conformance.errors import BrokenRuleError, expect
from hpcosim_protocol import (
    WORKLOAD_MANAGER_EVENTS,
    AllocateJob,
    ClientMessage,
    Decision,
    Decisions,
    Explain,
    Hello,
    KillJob,
    RejectJob,
    RequeueJob,
    ResumeJob,
    SetAlarm,
    SetCheckpoint,
    SuspendJob,
)
from hpcosim_server.service.session import Session

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


def repeats(message: ClientMessage, last: ClientMessage | None) -> bool:
    """Return whether a request is the last one, resent.

    Args:
        message: the request.
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
        message: the request.
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

    Args:
        script: the script.

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
