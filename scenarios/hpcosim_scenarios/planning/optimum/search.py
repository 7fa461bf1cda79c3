"""The true optimum of a small scenario: the least energy or EDP over a class of schedules.

A scheduler is asked at every instant at which jobs are submitted or complete, and starts jobs as
`optimum.moves` has it. The search is best first: it goes on from the state of the least bound
(`optimum.bound`), and from there straight on to the end of a run, for the sake of a schedule to
compare with. Equal states are merged; equal jobs, and equal nodes, stand for each other.

How many states there are grows exponentially with jobs and nodes. Some 20 jobs of three kinds on
four unlike nodes take from a fraction of a second (`any`, whose bound is tight) to minutes.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from hpcosim_client.heuristics.scripted import Start
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.planning.optimum.bound import Bound, Objective
from hpcosim_scenarios.planning.optimum.instance import Instance
from hpcosim_scenarios.planning.optimum.moves import Move, Placements, Scene, decisions
from hpcosim_scenarios.planning.optimum.nodes import NodeState
from hpcosim_workloads.table import JobTable

SAME = 1e-10  # values that differ by less, relatively, are the same


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best schedule found.

    Attributes:
        value: its energy, J, or its EDP, J s.
        bound: no schedule goes below; the value itself if the search came to its end.
        schedule: the start of each job, as `heuristics.scripted` replays it.
        explored: how many states the search went on from.
    """

    value: float
    bound: float
    schedule: dict[int, Start]
    explored: int


def least(
    scenario: Scenario,
    jobs: JobTable,
    objective: Objective,
    placements: Placements,
    most_states: int | None = None,
) -> Optimum:
    """Return the least energy, or EDP, of a scenario over a class of schedules.

    Both are as `record.metrics` defines them. Nodes stay on, whoever switches them in the
    scenario.

    Args:
        scenario: its platform and rules.
        jobs: its jobs.
        objective: what is to be least.
        placements: the class, see `optimum.moves`.
        most_states: give up once it went on from so many states, 1 or more; None: never.

    Raises:
        OptimumError: nodes have several processors; jobs can be killed, do not each ask for one
            node, fit on none, have a most energy, or are of too many kinds.
    """
    return _Search(Instance(scenario, jobs), objective, placements).run(most_states)


class _State(NamedTuple):
    """An instant at which something can be decided. That of the least bound sorts first.

    Attributes:
        bound: no schedule that goes on from here goes below.
        order: a number of its own; breaks ties.
        now_s: when.
        scene: nodes and queue.
        coming: index of the next submissions.
        extra_j: energy beyond idle power, past and future, if no more jobs were started.
    """

    bound: float
    order: int
    now_s: float
    scene: Scene
    coming: int
    extra_j: float


class _Search:
    """Branch and bound."""

    def __init__(self, instance: Instance, objective: Objective, placements: Placements) -> None:
        self._instance = instance
        self._bound = Bound(instance, objective)
        self._placements = placements
        self._order = itertools.count()
        self._known_j: dict[tuple[object, ...], float] = {}  # the least `extra_j` of each state
        self._value = math.inf
        self._last_move: Move | None = None

    def run(self, most_states: int | None) -> Optimum:
        """Search until no state is left from which anything better could come."""
        instance, most = self._instance, math.inf if most_states is None else most_states
        idle = Scene(
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
        return bound < self._value * (1.0 - SAME)

    def _after(self, state: _State) -> Iterator[_State]:
        """Yield the promising states that can follow."""
        more_come = self._instance.instants[state.coming].at_s < math.inf
        for scene in decisions(state.scene, state.now_s, self._placements, more_come=more_come):
            yield from self._reached(state, scene)

    def _reached(self, state: _State, scene: Scene) -> Iterator[_State]:
        """Yield the next state once a scene was made of that of a state, if it is promising."""
        extra_j, instants = state.extra_j, self._instance.instants
        for before, after in zip(state.scene.nodes, scene.nodes, strict=True):
            if before is not after:
                extra_j += after.extra_j(state.now_s) - before.extra_j(state.now_s)
        if not any(scene.waiting) and instants[state.coming].at_s == math.inf:
            self._end(scene, extra_j)
            return
        now_s, scene, coming = self._next_choice(scene, state.coming)
        bound = self._bound(now_s, scene.nodes, scene.waiting, instants[coming], extra_j)
        bound = max(bound, state.bound)
        if self._is_promising(bound) and self._is_new(now_s, scene, extra_j):
            yield _State(bound, next(self._order), now_s, scene, coming, extra_j)

    def _end(self, scene: Scene, extra_j: float) -> None:
        """Keep the schedule in which every job has started if it is the best so far."""
        value = self._bound.value(extra_j, max(node.last_end_s for node in scene.nodes))
        if value < self._value:
            self._value, self._last_move = value, scene.move

    def _next_choice(self, scene: Scene, coming: int) -> tuple[float, Scene, int]:
        """Let time pass until a waiting job fits on a node, and return when that is."""
        nodes, waiting, move = scene
        while True:
            instant = self._instance.instants[coming]
            now_s = min(instant.at_s, min(node.next_end_s for node in nodes))
            nodes = tuple(_at(node, now_s) for node in nodes)
            if instant.at_s == now_s:
                waiting = tuple(map(int.__add__, waiting, instant.counts))
                coming += 1
            scene = Scene(nodes, waiting, move)
            if scene.fitting():
                return now_s, scene, coming

    def _is_new(self, now_s: float, scene: Scene, extra_j: float) -> bool:
        """Return whether no equal state of no more energy is known, and note this one."""
        numbers = [node.number for node in scene.nodes]
        by_group = (sorted(numbers[first:end]) for first, end in self._instance.groups)
        key = (now_s, scene.waiting, *itertools.chain.from_iterable(by_group))
        if extra_j >= self._known_j.get(key, math.inf) * (1.0 - SAME):
            return False
        self._known_j[key] = extra_j
        return True

    def _schedule(self) -> dict[int, Start]:
        """Return the best schedule; of the jobs of a kind the first submitted starts first."""
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
    """Return the state of a node once all jobs that are due have ended."""
    while node.next_end_s <= now_s:
        node = node.after()
    return node
