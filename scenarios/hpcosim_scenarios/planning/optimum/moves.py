"""What a scheduler can do at one instant, where it puts each job it starts whole on one node.

How many it starts tells classes of schedules apart:

- `one`: one, if any waiting job fits on any node, as the papers' agent does (Lopez, Stafford,
  Bosque 2025);
- `all`: one after the other, until no waiting job fits on any node;
- `any`: as many as it likes, so that jobs may wait though they would fit.

Heuristics `<job>-<node>`, with `-one` or without, are in `any` alone: others than the head wait,
too, when the head of their queue fits nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from hpcosim_scenarios.planning.optimum.instance import Counts
from hpcosim_scenarios.planning.optimum.nodes import NodeState

Placements = Literal["one", "all", "any"]


class Move(NamedTuple):
    """A start, with those before it.

    Attributes:
        before: the last of them.
        at_s: when.
        kind: of the job.
        node: where.
    """

    before: Move | None
    at_s: float
    kind: int
    node: int


class Scene(NamedTuple):
    """Nodes and queue at some instant.

    Attributes:
        nodes: their states.
        waiting: jobs that wait, by kind.
        move: the last start so far.
    """

    nodes: tuple[NodeState, ...]
    waiting: Counts
    move: Move | None

    def fits(self, kind: int, node: int) -> bool:
        """Return whether a job of a kind waits and there are cores for it on a node."""
        state = self.nodes[node]
        return self.waiting[kind] > 0 and state.model.cores[kind] <= state.free

    def fitting(self) -> list[tuple[int, int]]:
        """Return every kind and node for which that is so."""
        nodes = range(len(self.nodes))
        return [
            (kind, node)
            for kind, count in enumerate(self.waiting)
            if count
            for node in nodes
            if self.fits(kind, node)
        ]

    def start(self, now_s: float, kind: int, node: int) -> Scene:
        """Return the scene once a job of a kind has started on a node."""
        nodes, waiting = list(self.nodes), list(self.waiting)
        nodes[node] = nodes[node].start(kind, now_s)
        waiting[kind] -= 1
        return Scene(tuple(nodes), tuple(waiting), Move(self.move, now_s, kind, node))


def decisions(
    scene: Scene, now_s: float, placements: Placements, *, more_come: bool
) -> Iterator[Scene]:
    """Yield what can come of a scene at an instant.

    The order in which the same jobs start on the same nodes makes no difference but in the
    rounding of sums; of those orders there is one.

    Args:
        scene: in it some waiting job fits on some node.
        now_s: when.
        placements: what is allowed.
        more_come: jobs will be submitted. Else something must run, or nothing happens any more.
    """
    pairs = scene.fitting()
    if placements == "one":
        for kind, node in pairs:
            yield scene.start(now_s, kind, node)
        return
    for filled in _fillings(scene, now_s, pairs):
        if placements == "all":
            if not filled.fitting():
                yield filled
        elif more_come or any(node.shares for node in filled.nodes):
            yield filled


def _fillings(scene: Scene, now_s: float, pairs: Sequence[tuple[int, int]]) -> Iterator[Scene]:
    """Yield what comes of as many starts as one likes of each kind on each node in turn."""
    if not pairs:
        yield scene
        return
    kind, node = pairs[0]
    if scene.fits(kind, node):
        yield from _fillings(scene.start(now_s, kind, node), now_s, pairs)
    yield from _fillings(scene, now_s, pairs[1:])
