"""A scheduler that comes back to its session decides again on the recorded replies."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from itertools import zip_longest

import msgspec

from hpcosim_client.connection import Answer, Connection
from hpcosim_client.errors import PolicyDiffersError
from hpcosim_protocol import (
    Decision,
    Decisions,
    Event,
    EventKind,
    Events,
    Exchange,
    Welcome,
    encode,
)

MAX_SHOWN = 300
"""Maximum number of characters of decisions in an error message."""


class RecordedLink:
    """The link of a policy that comes back: the recorded replies, and then those of the server.

    The decisions of the policy must be the recorded ones, so that at the end of the recorded
    replies it is in the state of the policy before. `wake_on` and `elapsed_s` may differ: they only
    choose when a policy is called.

    Args:
        connection: a connection that has resumed a session with its history.
        welcome: the server's reply to the hello.

    Attributes:
        snapshot: simulated time, in seconds, and events with which the policy of the recorded
            replies began.
    """

    def __init__(self, connection: Connection, welcome: Welcome) -> None:
        self.snapshot: tuple[float, Sequence[Event]] = (0.0, ())
        self._connection = connection
        self._last = welcome.seq
        self._now_s = 0.0
        self._recorded: deque[Exchange] = deque()
        self._after = 0
        if self._last:
            first = connection.history(0)
            self.snapshot = (first.snapshot_s, first.snapshot)
            self._now_s = first.snapshot_s
            self._add(first.exchanges)
            if not first.exchanges:  # nothing was decided since the snapshot
                self._after = self._last

    def decide(
        self,
        decisions: Sequence[Decision],
        wake_on: Collection[EventKind] | None,
        elapsed_s: float,
    ) -> Answer:
        """Return the reply to decisions, recorded or new.

        Raises:
            PolicyDiffersError: the decisions differ from the recorded ones.
            ServerRefusedError, ServerGoneError, ServerFaultError: as `Connection.decide`.
        """
        if not self._recorded:
            if self._after >= self._last:
                return self._connection.decide(decisions, wake_on, elapsed_s)
            self._add(self._connection.history(self._after).exchanges)
            if not self._recorded:  # a restored session may have lost requests since its welcome
                self._last = self._after
                return self._connection.decide(decisions, wake_on, elapsed_s)
        recorded = self._recorded.popleft()
        seq = recorded.request.seq
        request = self._connection.request(seq, decisions, wake_on, elapsed_s)
        if encode(request.decisions) != encode(recorded.request.decisions):
            raise PolicyDiffersError(
                seq, self._now_s, *_first_difference(recorded.request, request)
            )
        # The last one may be another than at the welcome: a late request of the process before may
        # have been carried out, or the session may be restored to an earlier one.
        self._connection.continue_after(seq)
        reply: Events = recorded.reply
        self._now_s = reply.now_s
        return Answer(reply.now_s, reply.events, False, {})

    def _add(self, exchanges: Sequence[Exchange]) -> None:
        if exchanges:
            self._recorded.extend(exchanges)
            self._after = exchanges[-1].request.seq


def _first_difference(expected: Decisions, got: Decisions) -> tuple[str, str]:
    """Return the first decision of two requests that differs, in JSON."""
    pairs = zip_longest(expected.decisions, got.decisions)
    one, other = next(pair for pair in pairs if encode(pair[0]) != encode(pair[1]))
    return _shown(one), _shown(other)


def _shown(decision: Decision | None) -> str:
    if decision is None:
        return "no decision"
    text = msgspec.json.encode(decision).decode()
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
