"""The decisions of a scheduler at one instant. Each job runs on one node.

Three classes of schedules differ in the number of jobs that start at an instant:

- `one`: exactly one, if any waiting job fits on any node. The agent of the paper does this (Lopez,
  Stafford, Bosque 2025).
- `all`: one after the other, until no waiting job fits on any node.
- `any`: any number, so that jobs can wait although they fit.

Of the three, only `any` contains the heuristics `<job>-<node>` and `<job>-<node>-one`: if the head
of their queue fits on no node, the other jobs wait, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Literal, NamedTuple

from hpcosim_scenarios.planning.optimum.instance import Counts
from hpcosim_scenarios.planning.optimum.nodes import NodeState

Placements = Literal["one", "all", "any"]


class JobStart(NamedTuple):
    """The start of a job; a linked list of all starts of a schedule.

    Attributes:
        before: the start before this one.
        at_s: time of the start, s.
        kind: kind of the job.
        node: number of the node.
    """

    before: JobStart | None
    at_s: float
    kind: int
    node: int


class ClusterState(NamedTuple):
    """Nodes and queue at one instant.

    Attributes:
        nodes: state of each node.
        waiting: number of waiting jobs by kind.
        move: the last start so far.
    """

    nodes: tuple[NodeState, ...]
    waiting: Counts
    move: JobStart | None

    def fits(self, kind: int, node: int) -> bool:
        """Return whether a job of a kind waits and a node has free cores for it."""
        state = self.nodes[node]
        return self.waiting[kind] > 0 and state.model.cores[kind] <= state.free

    def fitting(self) -> list[tuple[int, int]]:
        """Return all pairs of kind and node for which `fits` is true."""
        kinds = [kind for kind, count in enumerate(self.waiting) if count]
        pairs = product(kinds, range(len(self.nodes)))
        return [(kind, node) for kind, node in pairs if self.fits(kind, node)]

    def start(self, now_s: float, kind: int, node: int) -> ClusterState:
        """Return the state after the start of a job of a kind on a node."""
        nodes, waiting = list(self.nodes), list(self.waiting)
        nodes[node] = nodes[node].start(kind, now_s)
        waiting[kind] -= 1
        return ClusterState(tuple(nodes), tuple(waiting), JobStart(self.move, now_s, kind, node))


def decisions(
    cluster: ClusterState, now_s: float, placements: Placements, *, more_come: bool
) -> Iterator[ClusterState]:
    """Yield the states that a scheduler can decide on at an instant.

    The order of starts of the same jobs on the same nodes changes results only by the rounding of
    sums, so each combination is yielded in one order only.

    Args:
        cluster: the state before; some waiting job fits on some node.
        now_s: the time, s.
        placements: the class of schedules.
        more_come: whether jobs will be submitted later. Otherwise at least one job must run.
    """
    pairs = cluster.fitting()
    if placements == "one":
        for kind, node in pairs:
            yield cluster.start(now_s, kind, node)
        return
    for filled in _fillings(cluster, now_s, pairs):
        if placements == "all":
            if not filled.fitting():
                yield filled
        elif more_come or any(node.jobs for node in filled.nodes):
            yield filled


def _fillings(
    cluster: ClusterState, now_s: float, pairs: Sequence[tuple[int, int]]
) -> Iterator[ClusterState]:
    """Yield the states after any number of starts of each of these pairs of kind and node."""
    if not pairs:
        yield cluster
        return
    kind, node = pairs[0]
    if cluster.fits(kind, node):
        yield from _fillings(cluster.start(now_s, kind, node), now_s, pairs)
    yield from _fillings(cluster, now_s, pairs[1:])
