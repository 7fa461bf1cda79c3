"""The script of one check of a client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from hpcosim_conformance.clients.replies import Map, unchanged
from hpcosim_conformance.clients.small_scenarios import PLAIN, SmallScenario


@dataclass(frozen=True, slots=True)
class Script:
    """The script of one check of a client.

    Replies are numbered: the welcome is 0, the others have the `seq` of their request.

    Attributes:
        name: name of the check.
        rule: id of the rule that the check tests. A client that does not complete the script
            broke this rule unless it broke another rule before.
        scenario: the cluster and the jobs to schedule.
        alter: returns the replacement of a reply: a message or the bytes of a body.
        stops_at: number of the reply after which the client must stop. Only this reply is
            altered. None: all replies are altered, and the simulation continues to its end.
        pack: encodes a message.
        withheld: numbers of the delayed replies.
        holds: whether the kit sends `held` before a delayed reply to a client that understands it.
        rejects_once: whether the kit rejects the first allocation.
        explains: value of the option `explain`.
        knows_workload_managers: whether the kit's server knows `workload_manager`.
    """

    name: str
    rule: str
    scenario: SmallScenario = PLAIN
    alter: Callable[[Map], Map | bytes] = unchanged
    stops_at: int | None = None
    pack: Callable[[Map], bytes] = msgspec.msgpack.encode
    withheld: frozenset[int] = frozenset()
    holds: bool = False
    rejects_once: bool = False
    explains: bool = False
    knows_workload_managers: bool = True

    def altered(self, number: int, reply: Map) -> Map | bytes:
        """Return the altered reply of a number."""
        return self.alter(reply) if self.stops_at in (None, number) else reply
