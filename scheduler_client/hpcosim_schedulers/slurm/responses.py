"""Nodes that an administrator resumed, which jobs get only after they have responded.

Observed with Slurm 22.05: slurmctld pings a resumed node in the next iteration of its main loop,
after the pass of the main scheduler there, and runs the main scheduler again for its response.
"""

from __future__ import annotations

import math

from hpcosim_client.view import View
from hpcosim_schedulers.slurm.clock import ROUNDING_S, SiteClock

PING_S = 0.004
"""Time from the begin of the iteration to the response of the node, s; measured."""


class NodeResponses:
    """The nodes that are unavailable because they failed, are drained, or have yet to respond.

    Args:
        clock: the site's clock.

    Attributes:
        unavailable: numbers of these nodes.
    """

    def __init__(self, clock: SiteClock) -> None:
        self._clock = clock
        self._out: list[int] = []  # failed or drained
        self._responses_s: dict[int, float] = {}
        self.unavailable: list[int] = []

    def note(self, view: View) -> bool:
        """Note the states of the nodes; return whether a node changed or responded."""
        out, now_s = view.nodes.unavailable(), view.now_s
        if out == self._out and not self._responses_s:
            return False
        resumed = set(self._out).difference(out)
        responds_s = self._clock.tick_from(now_s) + PING_S
        due_s = self._responses_s | dict.fromkeys(resumed, responds_s)
        waited = {node: at_s for node, at_s in due_s.items() if at_s > now_s + ROUNDING_S}
        changed = out != self._out or len(waited) < len(due_s)
        self._out, self._responses_s = out, waited
        self.unavailable = sorted({*out, *waited})
        return changed

    @property
    def next_s(self) -> float:
        """When the next node responds, simulated seconds; infinity: none is about to."""
        return min(self._responses_s.values(), default=math.inf)
