"""The exact optimum of a small scenario: the least energy or EDP over a class of schedules.

A scheduler decides at every instant at which a job is submitted or completes. The
search is branch and bound, best first: it expands the state with the lowest bound
(`lower_bound`), then follows the best successors to the end of a run, to have a schedule to
compare with. Equal states are merged, and equal jobs and equal nodes are interchangeable.

The number of states grows exponentially with jobs and nodes. About 20 jobs of three kinds on four
different nodes take from a fraction of a second (`any`, whose bound is tight) to minutes.

Three classes of schedules differ in the number of jobs that start at an instant:

- `one`: exactly one, if any waiting job fits on any node. The agent of the paper does this (Lopez,
  Stafford, Bosque 2025).
- `all`: one after the other, until no waiting job fits on any node.
- `any`: any number, so that jobs can wait although they fit.

Of the three, only `any` contains the heuristics `<job>-<node>` and `<job>-<node>-one`: if the head
of their queue fits on no node, the other jobs wait, too.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, NamedTuple

from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.planning.instance import Counts, Instance, NodeState
from hpcosim_scenarios.planning.lower_bound import LowerBound, Objective
from hpcosim_schedulers.heuristics.scripted import Start
from hpcosim_workloads.table import JobTable

Placements = Literal["one", "all", "any"]


TOLERANCE = 1e-10  # relative difference below which values are equal


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


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best schedule of a search.

    Attributes:
        value: its energy, J, or its EDP, J s.
        bound: lower bound over all schedules; equal to `value` if the search was complete.
        schedule: start of each job by its number, as `heuristics.scripted` replays it.
        explored: number of expanded states.
    """

    value: float
    bound: float
    schedule: dict[int, Start]
    explored: int


def find_optimum(
    scenario: Scenario,
    jobs: JobTable,
    objective: Objective,
    placements: Placements,
    max_states: int | None = None,
) -> Optimum:
    """Return the schedule with the least energy or EDP over a class of schedules.

    Energy and EDP are defined as in `record.metrics`. Nodes are always on; the scenario's power
    manager is ignored.

    Args:
        scenario: platform and rules.
        objective: `energy` or `edp`.
        placements: the class of schedules, see above.
        max_states: number of expanded states after which the search stops, 1 or more; None: no
            limit.

    Raises:
        OptimumError: nodes have several processors; jobs can be killed, are not of the placement
            `one_node`, fit on no node, or have a `max_energy_j`; or there are too many kinds.
    """
    return _Search(Instance(scenario, jobs), objective, placements).run(max_states)


class _State(NamedTuple):
    """A state with a decision to make. States sort by bound, lowest first."""

    bound: float
    order: int
    now_s: float
    cluster: ClusterState
    coming: int
    extra_j: float


class _Search:
    """Branch and bound."""

    def __init__(self, instance: Instance, objective: Objective, placements: Placements) -> None:
        self._instance = instance
        self._bound = LowerBound(instance, objective)
        self._placements = placements
        self._order = itertools.count()
        self._known_j: dict[tuple[object, ...], float] = {}  # lowest `extra_j` of each state
        self._value = math.inf
        self._last_move: JobStart | None = None

    def run(self, max_states: int | None) -> Optimum:
        """Search until no state can lead to a better schedule."""
        instance, most = self._instance, math.inf if max_states is None else max_states
        idle = ClusterState(
            tuple(model.idle for model in instance.nodes), (0,) * len(instance.kinds), None
        )
        left = [*self._reached(_State(-math.inf, -1, instance.start_s, idle, 0, 0.0), idle)]
        explored = 0
        while left and self._is_promising(left[0].bound) and explored < most:
            state: _State | None = heapq.heappop(left)
            while state is not None:
                explored += 1
                after = sorted(self._after(state))
                for other in after[1:]:
                    heapq.heappush(left, other)
                state = after[0] if after else None
        is_proven = not left or not self._is_promising(left[0].bound)
        bound = self._value if is_proven else left[0].bound
        return Optimum(self._value, bound, self._schedule(), explored)

    def _is_promising(self, bound: float) -> bool:
        return bound < self._value * (1.0 - TOLERANCE)

    def _after(self, state: _State) -> Iterator[_State]:
        """Yield the successors of a state that can lead to a better schedule."""
        more_come = self._instance.instants[state.coming].at_s < math.inf
        for cluster in decisions(state.cluster, state.now_s, self._placements, more_come=more_come):
            yield from self._reached(state, cluster)

    def _reached(self, state: _State, cluster: ClusterState) -> Iterator[_State]:
        """Yield the next state after a decision if it can lead to a better schedule."""
        extra_j, instants = state.extra_j, self._instance.instants
        for before, after in zip(state.cluster.nodes, cluster.nodes, strict=True):
            if before is not after:
                extra_j += after.extra_j(state.now_s) - before.extra_j(state.now_s)
        if not any(cluster.waiting) and instants[state.coming].at_s == math.inf:
            self._end(cluster, extra_j)
            return
        now_s, cluster, coming = self._next_choice(cluster, state.coming)
        bound = self._bound(now_s, cluster.nodes, cluster.waiting, instants[coming], extra_j)
        bound = max(bound, state.bound)
        if self._is_promising(bound) and self._is_new(now_s, cluster, extra_j):
            yield _State(bound, next(self._order), now_s, cluster, coming, extra_j)

    def _end(self, cluster: ClusterState, extra_j: float) -> None:
        """Keep a complete schedule if it is the best so far."""
        value = self._bound.value(extra_j, max(node.last_end_s for node in cluster.nodes))
        if value < self._value:
            self._value, self._last_move = value, cluster.move

    def _next_choice(self, cluster: ClusterState, coming: int) -> tuple[float, ClusterState, int]:
        """Advance until a waiting job fits on a node; return time, state and next submissions."""
        nodes, waiting, move = cluster
        while True:
            instant = self._instance.instants[coming]
            now_s = min(instant.at_s, min(node.next_end_s for node in nodes))
            nodes = tuple(_at(node, now_s) for node in nodes)
            if instant.at_s == now_s:
                waiting = tuple(map(int.__add__, waiting, instant.counts))
                coming += 1
            cluster = ClusterState(nodes, waiting, move)
            if cluster.fitting():
                return now_s, cluster, coming

    def _is_new(self, now_s: float, cluster: ClusterState, extra_j: float) -> bool:
        """Return whether every known equal state has more energy, and remember this one."""
        numbers = [node.number for node in cluster.nodes]
        by_group = (sorted(numbers[first:end]) for first, end in self._instance.groups)
        key = (now_s, cluster.waiting, *itertools.chain.from_iterable(by_group))
        if extra_j >= self._known_j.get(key, math.inf) * (1.0 - TOLERANCE):
            return False
        self._known_j[key] = extra_j
        return True

    def _schedule(self) -> dict[int, Start]:
        """Return the best schedule. Jobs of a kind start in order of submission."""
        moves, move = [], self._last_move
        while move is not None:
            moves.append(move)
            move = move.before
        queues = [iter(numbers) for numbers in self._instance.members]
        return {
            next(queues[move.kind]): Start(order, move.at_s, [move.node], [], "the optimum")
            for order, move in enumerate(reversed(moves))
        }


def _at(node: NodeState, now_s: float) -> NodeState:
    """Return the state of a node after all ends up to a time."""
    while node.next_end_s <= now_s:
        node = node.after()
    return node
