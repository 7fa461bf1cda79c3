"""The plan of the backfill scheduler: which nodes are not reserved, and when.

Times are whole seconds of the site's clock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from hpcosim_schedulers.slurm.node_sets import NodeSet


class NodeSpace:
    """The nodes that planned jobs leave free, by time.

    The plan reserves whole nodes, although jobs hold cores (`backfill.c`, `_add_reservation`).

    Args:
        begin: time of the pass.
        end: end of the plan (`bf_window`).
        nodes: nodes that are available.
        resolution: resolution of reservations, s (`bf_resolution`).
    """

    def __init__(self, begin: int, end: int, nodes: NodeSet, resolution: int) -> None:
        self._begins = [begin]
        self._free = [nodes]
        self._end = end
        self._resolution = resolution

    def free_during(self, start: int, end: int) -> tuple[NodeSet, int | None]:
        """Return the nodes that are free from `start` to `end`, and the next time to try.

        The next time is when the reservations that hold at `start` next change; None: never.
        """
        begins, free = self._begins, self._free
        at = bisect_right(begins, start) - 1
        later = begins[at + 1] if at + 1 < len(begins) else None
        nodes = free[at]
        at += 1
        while at < len(begins) and begins[at] <= end:
            nodes &= free[at]
            at += 1
        return nodes, later

    def begin_of(self, time: int, least: int) -> int:
        """Return a time to try: the begin of the record that ends at or after a time.

        Args:
            time: a time.
            least: lower bound of the result.
        """
        return max(self._begins[max(bisect_left(self._begins, time) - 1, 0)], least)

    def reserve(self, start: int, end: int, nodes: NodeSet) -> None:
        """Reserve nodes from `start` to `end`, both rounded down to the resolution."""
        start = max(start // self._resolution * self._resolution, self._begins[0])
        end = min(end // self._resolution * self._resolution, self._end)
        if end <= start:
            return
        first = self._split(start)
        last = self._split(end) if end < self._end else len(self._begins)
        for at in range(first, last):
            self._free[at] &= ~nodes

    def overlaps(self, start: int, end: int, nodes: NodeSet) -> bool:
        """Return whether `reserve` would reserve a node that is reserved already."""
        begins, free = self._begins, self._free
        start = max(start // self._resolution * self._resolution, begins[0])
        end = end // self._resolution * self._resolution
        at = bisect_right(begins, start) - 1
        while start < end and at < len(begins) and begins[at] < end:
            if nodes & ~free[at]:
                return True
            at += 1
        return False

    def _split(self, time: int) -> int:
        """Return the index of the record that begins at a time, which is inserted if needed."""
        at = bisect_right(self._begins, time) - 1
        if self._begins[at] == time:
            return at
        self._begins.insert(at + 1, time)
        self._free.insert(at + 1, self._free[at])
        return at + 1
