"""Advance reservations as the passes of the schedulers see them."""

from __future__ import annotations

import math

from hpcosim_client.nodes import NodePool
from hpcosim_schedulers.slurm.candidate import Candidate, NodeSet, set_of_mask
from hpcosim_schedulers.slurm.clock import SiteClock

EVERYWHERE = -1
"""The set of all nodes."""


class ReservationWindows:
    """The nodes that reservations leave to a job; see `passes.Windows`.

    Args:
        nodes: the nodes with their reservations and power states.
        clock: the site's clock.
    """

    def __init__(self, nodes: NodePool, clock: SiteClock) -> None:
        self._nodes, self._demands = nodes, nodes.demands
        self._clock = clock
        self._seen_s = clock.simulated(clock.begin)

    def changed(self, now_s: float) -> bool:
        """Return whether a reservation has begun or ended since the last call."""
        changes = self._demands.window_changes_s(self._seen_s, now_s)
        self._seen_s = now_s
        return bool(changes) and changes[0] <= now_s

    def next_s(self, now_s: float) -> float:
        """Return when the next reservation begins or ends, simulated seconds; infinity: none."""
        return next(iter(self._demands.window_changes_s(now_s, now_s)), math.inf)

    def permitted(self, candidate: Candidate, start: int, end: int) -> tuple[NodeSet, int | None]:
        """Return the nodes, and when the next reservation after `start` begins or ends.

        A node that must be switched on delays the end of the job.
        """
        start_s, end_s = self._clock.simulated(start), self._clock.simulated(end)
        mask = self._nodes.permitted(candidate.job, start_s, end_s)
        nodes = EVERYWHERE if mask is None else set_of_mask(mask)
        changes = self._demands.window_changes_s(start_s, end_s)
        return nodes, self._clock.second(changes[0]) if changes else None
