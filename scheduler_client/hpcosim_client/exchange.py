"""Requests and their replies. A request is sent again until its reply arrives."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from hpcosim_client.errors import ServerFaultError, ServerGoneError, ServerRefusedError
from hpcosim_client.link import Link
from hpcosim_protocol import (
    ClientMessage,
    DecodeError,
    Error,
    Events,
    GetHistory,
    Held,
    History,
    ServerMessage,
    ServerStatus,
    SimulationEnded,
    Welcome,
    decode_server_message,
    encode,
)

# Replies of a server: whether they answer a request, and errors about them.

UNNUMBERED = ("invalid_message", "message_too_large", "shutting_down")
"""Codes of errors without the `seq` of their request. Another error without it answers a hello."""


def answers(answer: ServerMessage, seq: int) -> bool:
    """Return whether a message is a reply to request `seq`; hello and bye have number 0."""
    if isinstance(answer, (Events, SimulationEnded)):
        return answer.seq == seq
    if isinstance(answer, Error):
        return answer.seq == max(seq, 0) or (answer.seq == 0 and answer.code in UNNUMBERED)
    # A hello that was sent twice has two welcomes; the second one is late.
    return seq == 0 or not isinstance(answer, Welcome | ServerStatus)


def is_label(session: str) -> str:
    """Return the error message for a label in the place of a session's identifier."""
    return (
        f"{session} is a label of the server's log; --session needs the full identifier, which the "
        "first client printed"
    )


def unexpected(request: str, answer: ServerMessage) -> str:
    """Return the error message for a reply of the wrong type."""
    return f"the server's reply to {request} is of the wrong type, {type(answer).__name__}"


HISTORY = -1  # instead of the number of a request: it is `get_history`
NOTICE_S = 1.0  # after which a missing server is reported

LOG = logging.getLogger("hpcosim_client")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts of a connection, in seconds of wall time, each > 0.

    Attributes:
        resend_s: interval after which a request without a reply is sent again.
        reply_s: timeout of each reply.
        hello_s: timeout of the first reply.
    """

    resend_s: float = 5.0
    reply_s: float = 60.0
    hello_s: float = 20.0


class Exchange:
    """Exchanges requests for replies over a link.

    Args:
        link: the link.
        address: address of the server, for messages.
        timeouts: the timeouts.

    Attributes:
        is_answered: whether the server has opened a session; until then, a missing server is
            reported.
    """

    is_answered = False

    def __init__(self, link: Link, address: str, timeouts: Timeouts) -> None:
        self._link = link
        self._address = address
        self._timeouts = timeouts
        self._held = False

    def reply_to(self, message: ClientMessage, seq: int) -> ServerMessage:
        """Return the reply to a request.

        Args:
            message: the request.
            seq: its number; 0: it has none; `HISTORY`: it is `get_history`.

        Raises:
            ServerRefusedError: the reply is an error.
            ServerGoneError: no reply came within the timeout.
            ServerFaultError: the reply violates the protocol.
        """
        data = encode(message)
        after = message.after if isinstance(message, GetHistory) else 0
        timeout_s = self._timeouts.reply_s
        if seq == 0:
            timeout_s = min(timeout_s, self._timeouts.hello_s)
        clock_s = self._link.clock_s
        now_s = clock_s()
        deadline_s = now_s + timeout_s
        notice = not self.is_answered and timeout_s > NOTICE_S
        while now_s < deadline_s:
            self._link.send(data)
            until_s = min(now_s + self._timeouts.resend_s, deadline_s)
            answer = self._wait(seq, after, min(until_s, now_s + NOTICE_S) if notice else until_s)
            if notice and answer is None:
                self._report(timeout_s - NOTICE_S)
                answer = self._wait(seq, after, until_s)
            notice = False
            now_s = clock_s()
            if self._held:  # a sign of life: the simulation is slowed down or paused
                deadline_s = now_s + timeout_s
            if isinstance(answer, Error):
                raise ServerRefusedError(answer)
            if answer is not None:
                return answer
        what = "no reply from the server at" if self.is_answered else "no server answers at"
        raise ServerGoneError(f"{what} {self._address}: waited {timeout_s:g} s{self._because()}")

    def _because(self) -> str:
        return f"; {self._link.problem}" if self._link.problem else ""

    def _report(self, left_s: float) -> None:
        text = "no server answers at %s; retrying for %g s%s"
        LOG.warning(text, self._address, left_s, self._because())

    def _wait(self, seq: int, after: int, until_s: float) -> ServerMessage | None:
        """Return the reply to request `seq`; None: none came in time.

        Late replies to earlier requests are skipped. `_held` says whether `held` came instead.

        Args:
            seq: see `reply_to`.
            after: `after` of a request `get_history`.
            until_s: time of the link's clock at which the wait ends, s.
        """
        self._held = False
        while True:
            data = self._link.receive(max(until_s - self._link.clock_s(), 0.0))
            if data is None:
                return None
            try:
                answer = decode_server_message(data)
            except DecodeError as error:
                raise ServerFaultError(f"the server's reply cannot be decoded: {error}") from error
            if isinstance(answer, Held):
                self._held = self._held or answer.seq == seq
            elif isinstance(answer, History):
                if seq == HISTORY and answer.after == after:
                    return answer
            elif answers(answer, seq):
                return answer
