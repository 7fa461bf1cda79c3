"""What is played to a client in a check, and how long it may take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from hpcosim_conformance.rules import Rule
from hpcosim_conformance.worlds import PLAIN, World

Map = dict[str, Any]


def as_it_is(number: int, answer: Map) -> Map:
    """Alter nothing."""
    return answer


@dataclass(frozen=True, slots=True)
class Script:
    """What is played to a client in one check.

    Attributes:
        name: of the check.
        rule: what it is about, and what is broken by a client that does not get through.
        world: what there is to schedule.
        alter: given the number of an answer (0: the welcome, else its `seq`) and the answer,
            returns what is sent instead, a message or bytes.
        last: the number of an answer after which the client has to stop; None: the simulation ends.
        pack: makes bytes of a message.
        withheld: numbers of answers that come late.
        rejects_once: the first allocation is rejected.
    """

    name: str
    rule: Rule
    world: World = PLAIN
    alter: Callable[[int, Map], Map | bytes] = as_it_is
    last: int | None = None
    pack: Callable[[Map], bytes] = msgspec.msgpack.encode
    withheld: frozenset[int] = frozenset()
    rejects_once: bool = False


@dataclass(frozen=True, slots=True)
class Waits:
    """How long a client may take.

    Attributes:
        silence_s: for its next request, or to end.
        late_s: by how much an answer that is withheld comes late.
        check_s: for a whole script.
    """

    silence_s: float = 20.0
    late_s: float = 7.0
    check_s: float = 300.0
