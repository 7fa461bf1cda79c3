"""Nodes that accept no jobs: failed and drained ones."""

from __future__ import annotations

from collections.abc import Iterable

from hpcosim_sim.errors import Rejection


class Availability:
    """Which nodes failed and which are drained. All nodes are available at the start.

    Attributes:
        failed: time of the failure of each failed node, s, by node number.
        drained: time of the drain of each drained node, s, by node number. A drained node may fail.
        are_all: whether every node is available.
    """

    __slots__ = ("are_all", "drained", "failed")

    def __init__(self) -> None:
        self.failed: dict[int, float] = {}
        self.drained: dict[int, float] = {}
        self.are_all = True

    def has(self, node: int) -> bool:
        """Return whether a node is available."""
        return node not in self.failed and node not in self.drained

    def fail(self, now_s: float, node: int) -> bool:
        """Note that a node failed; return False if it had failed already."""
        if node in self.failed:
            return False
        self.failed[node] = now_s
        self.are_all = False
        return True

    def drain(self, now_s: float, node: int) -> bool:
        """Note that a node is drained; return False if it was drained or had failed already."""
        if not self.has(node):
            return False
        self.drained[node] = now_s
        self.are_all = False
        return True

    def repair(self, node: int) -> bool:
        """Note that a node is available again; return False if it was available already."""
        failed = self.failed.pop(node, None)
        drained = self.drained.pop(node, None)
        self.are_all = not (self.failed or self.drained)
        return failed is not None or drained is not None

    def check(self, nodes: Iterable[int]) -> None:
        """Check that all nodes of an allocation are available.

        Raises:
            Rejection: a node failed or is drained.
        """
        for node in nodes:
            if not self.has(node):
                state = "failed" if node in self.failed else "drained"
                raise Rejection(
                    "node_unavailable",
                    f"allocate_job.nodes: node {node} is {state}; expected available nodes",
                )
