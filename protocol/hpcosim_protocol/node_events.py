"""Events of nodes: power states, failures, drains and repairs.

The field `time_s` of each event is the simulated time at which it happened, s.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from hpcosim_protocol.requests import Id
from hpcosim_protocol.tags import snake_case

PowerState = Literal["on", "switching_off", "sleeping", "switching_on"]


class NodePowerChanged(Struct, tag_field="type", tag=snake_case, gc=False):
    """A node entered a power state.

    The states follow in this order: `on`, `switching_off`, `sleeping`, `switching_on`, `on`.
    """

    time_s: float
    node: Id
    state: PowerState


class NodeFailed(Struct, tag_field="type", tag=snake_case, gc=False):
    """A node failed and is unavailable. The end of a job on it is a separate event."""

    time_s: float
    node: Id


class NodeDrained(Struct, tag_field="type", tag=snake_case, gc=False):
    """A node accepts no new jobs until it is repaired. Its jobs continue."""

    time_s: float
    node: Id


class NodeRepaired(Struct, tag_field="type", tag=snake_case, gc=False):
    """A node that failed or was drained is available again."""

    time_s: float
    node: Id
