"""The gaps between planned jobs on each node."""

from __future__ import annotations

import math

import numpy as np

from hpcosim_client.job import Bools, Floats, Ints
from hpcosim_schedulers.ipm.releases import Releases


class Gaps:
    """The times at which each node is free, beside planned jobs.

    A node is occupied until its release, and during planned jobs. The state of the nodes is
    constant from each of `_times_s` to the next.

    Args:
        releases: expected releases, and the cost of nodes.
        now_s: present time, simulated seconds.
    """

    def __init__(self, releases: Releases, now_s: float) -> None:
        self._releases = releases
        release_s = np.maximum(releases.release_s, now_s)
        times_s = np.unique(np.append(release_s, now_s))
        self._times_s: Floats = times_s[times_s < math.inf]
        self._occupied: Bools = release_s > self._times_s[:, np.newaxis]
        # Since when each node that is free is free, simulated seconds.
        self._since_s: Floats = np.broadcast_to(release_s, self._occupied.shape).copy()

    def choose(
        self, count: int, lasts_s: float, after_s: float, before_s: float = math.inf
    ) -> tuple[float, Ints] | None:
        """Return the earliest start in gaps, and the cheapest nodes for it; None: there is none.

        Args:
            count: number of nodes.
            lasts_s: duration, in seconds.
            after_s: lower bound of the start, simulated seconds, not before now.
            before_s: upper bound of the start, exclusive.
        """
        first, last = self._step(after_s), int(self._times_s.searchsorted(before_s))
        free = self._occupied.shape[1] - np.count_nonzero(self._occupied[first:last], axis=1)
        for step in (first + np.flatnonzero(free >= count)).tolist():
            start_s = max(after_s, float(self._times_s[step]))
            nodes = np.flatnonzero(self._free(start_s, start_s + lasts_s))
            if len(nodes) >= count:
                since_s = self._since_s[step]
                return start_s, self._releases.cheapest(nodes, start_s, count, since_s)
        return None

    def fits(self, nodes: Ints, start_s: float, lasts_s: float) -> bool:
        """Return whether nodes are free from `start_s` on for `lasts_s`."""
        return bool(self._free(start_s, start_s + lasts_s)[nodes].all())

    def occupy(self, nodes: Ints, start_s: float, end_s: float) -> None:
        """Occupy nodes that are free from `start_s` to `end_s`."""
        first, last = self._split(start_s), self._split(end_s)
        self._occupied[first:last, nodes] = True
        self._since_s[last:, nodes] = np.maximum(self._since_s[last:, nodes], end_s)

    def _free(self, start_s: float, end_s: float) -> Bools:
        """Return bool[nodes]: the nodes that are free from `start_s` to `end_s`."""
        first = self._step(start_s)
        last = max(int(self._times_s.searchsorted(end_s)), first + 1)
        free: Bools = ~np.logical_or.reduce(self._occupied[first:last])
        return free

    def _step(self, at_s: float) -> int:
        return int(self._times_s.searchsorted(at_s, "right")) - 1

    def _split(self, at_s: float) -> int:
        """Make a step begin at a time, and return its index."""
        step = self._step(at_s)
        if self._times_s[step] == at_s:
            return step
        self._times_s = np.insert(self._times_s, step + 1, at_s)
        self._occupied = np.insert(self._occupied, step + 1, self._occupied[step], axis=0)
        self._since_s = np.insert(self._since_s, step + 1, self._since_s[step], axis=0)
        return step + 1
