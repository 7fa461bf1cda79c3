"""What the kit plays to a client in one check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from hpcosim_conformance.clients.answers import Map, unchanged
from hpcosim_conformance.clients.small_scenarios import PLAIN, SmallScenario


@dataclass(frozen=True, slots=True)
class Script:
    """What the kit plays to a client in one check.

    Answers are numbered: 0 is the welcome, every other one has the `seq` of its request.

    Attributes:
        name: of the check.
        rule: id of the rule that the check is about. A client that does not get through the
            script breaks it, unless it broke another rule before.
        scenario: the cluster and the jobs to schedule.
        alter: returns what is sent instead of an answer, a message or the bytes of a body.
        stops_at: the number of an answer after which the client must stop. Only this one is
            altered. None: all answers are altered, and the simulation goes on to its end.
        pack: encodes a message.
        withheld: numbers of the answers that are delayed.
        rejects_once: the first allocation is rejected.
    """

    name: str
    rule: str
    scenario: SmallScenario = PLAIN
    alter: Callable[[Map], Map | bytes] = unchanged
    stops_at: int | None = None
    pack: Callable[[Map], bytes] = msgspec.msgpack.encode
    withheld: frozenset[int] = frozenset()
    rejects_once: bool = False

    def altered(self, number: int, answer: Map) -> Map | bytes:
        """Return what is sent as the answer of a number."""
        return self.alter(answer) if self.stops_at in (None, number) else answer
