"""The exchange of requests and answers with a client, from its hello to its end."""

from __future__ import annotations

import time

from hpcosim_conformance.clients.connection import ClientConnection, Request
from hpcosim_conformance.clients.program import ending
from hpcosim_conformance.clients.script import Script
from hpcosim_conformance.clients.simulated_server import SimulatedServer, number_of, repeats
from hpcosim_conformance.errors import BrokenRuleError, expect
from hpcosim_protocol import Bye, ClientMessage, Decisions, Error, Goodbye, Hello, encode

MOST_REQUESTS = 20_000
CHECK_S = 300.0  # timeout for a whole script
# A client that takes a second answer to one request for the answer to the next goes on at once.
QUIET_S = 1.0
PING_ANSWER = encode(Error(code="unsupported_version", message="this server speaks version 1"))


class Conversation:
    """One script, played to one client.

    Args:
        script: what is played.
        connection: the connection to the client.
        timeout_s: timeout for its next request, and for its end after the last answer, s.
        delay_s: the most by which a withheld answer is delayed, s. The request ends the delay
            when it comes again.
    """

    def __init__(
        self, script: Script, connection: ClientConnection, timeout_s: float, delay_s: float
    ) -> None:
        self._script, self._connection = script, connection
        self._program = connection.program
        self._timeout_s, self._delay_s = timeout_s, delay_s
        self._server = SimulatedServer(script)
        self._session = ""  # its name, as the client was told
        self._last: ClientMessage | None = None  # the request answered last
        self._answer = b""  # to it
        self._is_over = False
        self._resent = 0  # requests that came again

    def play(self) -> str:
        """Play the script to its end, and return a note on the client, or none.

        Raises:
            BrokenRuleError: the client broke a rule.
        """
        until_s = time.monotonic() + CHECK_S
        due_s = time.monotonic() + self._timeout_s
        for _ in range(MOST_REQUESTS):
            request = self._connection.receive(min(until_s, due_s) - time.monotonic())
            if request is None or time.monotonic() > min(until_s, due_s):
                if self._server.rejected is not None and self._program.status() not in (None, 0):
                    return "stops where an allocation is rejected, as it may"
                rule = "R-hello" if self._last is None else self._script.rule
                raise BrokenRuleError(rule, self._silence())
            if self._answer_to(request):
                due_s = time.monotonic() + self._timeout_s
            if self._is_over:
                self._check_end()
                return self._note()
        what = f"it is not done after {MOST_REQUESTS} requests"
        raise BrokenRuleError(self._script.rule, what)

    def _silence(self) -> str:
        missing = "said hello" if self._last is None else "sent decisions after the welcome"
        if isinstance(self._last, Decisions):
            missing = f"went on after the answer to seq {self._last.seq}"
        status = self._program.status()
        if status is None:
            return f"within {self._timeout_s:g} s it never {missing}"
        return f"it {ending(status)} and never {missing}; the simulation is not over"

    def _note(self) -> str:
        if self._script.withheld and not self._resent:
            return "does not resend; it need not"
        if self._script.rule == "R-bad-time" and not self._server.alarms:
            return "sets no alarms"
        return ""

    def _answer_to(self, request: Request) -> bool:
        """Answer a request, and return whether it was a new one."""
        message = request.message
        if isinstance(message, Hello) and not message.versions:
            self._connection.answer(request, PING_ANSWER)
            return False
        if self._repeats(request):
            self._connection.answer(request, self._answer)
            return False
        if isinstance(message, Bye):
            self._connection.answer(request, encode(Goodbye()))
            what = "it said bye before the simulation was over"
            raise BrokenRuleError(self._script.rule, what)
        number = number_of(message, self._last, self._session)
        self._answer = self._body(number, message)
        self._last = message
        if number in self._script.withheld:
            self._answer_late(request)
        else:
            self._check_patience(number)
            self._connection.answer(request, self._answer)
        return True

    def _repeats(self, request: Request) -> bool:
        repeated = repeats(request.message, self._last)
        self._resent += repeated
        return repeated

    def _body(self, number: int, message: Hello | Decisions) -> bytes:
        """Return the answer to a new request."""
        sent = self._script.altered(number, self._server.answer(message))
        self._is_over = number == self._script.stops_at
        if isinstance(sent, bytes):
            return sent
        self._session = sent.get("session", self._session)
        self._is_over = self._is_over or sent["type"] == "simulation_ended"
        return self._script.pack(sent)

    # Delays

    def _answer_late(self, request: Request) -> None:
        """Delay an answer until the request comes again, then answer it as often as it came."""
        requests = [request]
        until_s = time.monotonic() + self._delay_s
        while len(requests) == 1 and time.monotonic() < until_s:
            again = self._connection.receive(until_s - time.monotonic())
            if again is not None:
                what = "it went on without the answer to its request"
                expect(self._repeats(again), "R-in-order", what)
                requests.append(again)
            elif (status := self._program.status()) is not None:
                what = f"it {ending(status)} before an answer {self._delay_s:g} s late"
                raise BrokenRuleError("R-waits", what)
        for each in requests:
            self._connection.answer(each, self._answer)

    def _check_patience(self, number: int) -> None:
        """Check that a client does not take an answer that came twice for that of a number."""
        if number - 1 in self._script.withheld:
            early = self._connection.receive(QUIET_S)
            what = f"it went on without the answer to seq {number}"
            expect(early is None or self._repeats(early), "R-drop", what)

    # The end

    def _check_end(self) -> None:
        """Check that the client ends after the last answer, and how."""
        stops = self._script.stops_at is not None
        rule = self._script.rule if stops else "R-end"
        until_s = time.monotonic() + self._timeout_s
        while (request := self._connection.receive(until_s - time.monotonic())) is not None:
            if time.monotonic() > until_s:
                break
            if isinstance(request.message, Bye) and stops:
                self._connection.answer(request, encode(Goodbye()))
            elif self._resent and self._repeats(request):
                # It was on its way when the answer came.
                self._connection.answer(request, self._answer)
            else:
                kind = type(request.message).__name__.lower()
                raise BrokenRuleError(rule, f"it sent {kind} after the last answer it was due")
        status = self._program.status(max(0.0, until_s - time.monotonic()))
        if status is None:
            what = f"it was still there {self._timeout_s:g} s after the last answer"
            raise BrokenRuleError(rule if stops else "R-exit-status", what)
        if stops == (status == 0):
            # In other scripts it ends badly because of the answers that were altered.
            plain = stops or self._script.rule == "R-in-order"
            due = "another than 0" if stops else "0"
            what = f"it {ending(status)}; {due} was due"
            raise BrokenRuleError("R-exit-status" if plain else self._script.rule, what)
