"""The exchange with a client under test, from its hello to its exit."""

from __future__ import annotations

import time

from hpcosim_conformance.clients.connection import ClientConnection, Request
from hpcosim_conformance.clients.program import describe_status
from hpcosim_conformance.clients.script import Script
from hpcosim_conformance.clients.simulated_server import SimulatedServer, number_of, repeats
from hpcosim_conformance.errors import BrokenRuleError, expect
from hpcosim_protocol import (
    Bye,
    ClientMessage,
    Decisions,
    Error,
    GetHistory,
    GetStatus,
    Goodbye,
    Held,
    Hello,
    encode,
)

MAX_REQUESTS = 20_000
CHECK_S = 300.0  # timeout for a whole script, wall s
# A client that accepts a duplicate reply sends its next request within this time, wall s.
QUIET_S = 1.0
PING_REPLY = encode(Error(code="unsupported_version", message="this server supports version 1"))
NO_STATUS = encode(Error(code="invalid_message", message="this server does not tell its status"))


class Conversation:
    """The exchange of one script with one client.

    Args:
        script: the script.
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
