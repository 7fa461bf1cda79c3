"""What no schedule that goes on from a given state can go below, in energy or EDP.

Energy is the idle power of all nodes over the makespan, and what each node draws beyond that while
jobs run on it. Three things bound what is still to come.

Prices (`optimum.prices`). What is left of the jobs that run, and what is to start, costs at least
so much for each second's work, one by one, though jobs share static power and slow each other.

Time. A job that comes slows others and is slowed by them, never the reverse: a speed falls with the
tasks beside it and with what they ask for. So those that run free their cores no sooner than
without it; it ends no sooner than if it did not slow them; and n jobs of a kind on one node take
at least n times their work over the most of it that can be done there in a second.

Both together. For every makespan that time allows, the jobs of a kind are put where they are
cheapest, no more on a node than can end there by then. The least over all makespans is the bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from hpcosim_scenarios.planning.optimum.instance import Counts, Instance, Instant
from hpcosim_scenarios.planning.optimum.nodes import NodeState
from hpcosim_scenarios.planning.optimum.prices import Price, prices

Objective = Literal["energy", "edp"]

A_LITTLE = 1e-6  # jobs by which a count may be rounded up: a bound may be too low, never too high


class Option(NamedTuple):
    """What jobs of one kind could cost and take on one node in its present state, at least.

    Attributes:
        job_j: energy of each beyond idle power.
        from_s: when the first can start.
        first_end_s: when the first can have ended.
        each_s: see `Price`.
    """

    job_j: float
    from_s: float
    first_end_s: float
    each_s: float

    def jobs_by(self, end_s: float, wanted: int) -> int:
        """Return how many of so many jobs wanted can have ended by then, at most."""
        if end_s < self.first_end_s:
            return 0
        if end_s - self.from_s >= wanted * self.each_s:
            return wanted
        return int((end_s - self.from_s) / self.each_s + A_LITTLE)


class Bound:
    """Bounds of one scenario for one objective.

    Raises:
        OptimumError: there are too many mixes of jobs for the cores of a node.
    """

    def __init__(self, instance: Instance, objective: Objective) -> None:
        self._instance = instance
        self._is_edp = objective == "edp"
        most = instance.instants[0].to_come
        of_model = {model: prices(model, most) for model in dict.fromkeys(instance.nodes)}
        self._prices = [of_model[model] for model in instance.nodes]
        self._able = [self._cheapest_first(kind) for kind in range(len(most))]
        self._shortest_s = [
            min(instance.nodes[node].idle.start(kind, 0.0).last_end_s for node in able)
            for kind, able in enumerate(self._able)
        ]
        self._ends_s: dict[tuple[NodeState, int, float], float] = {}

    def value(self, extra_j: float, end_s: float) -> float:
        """Return the objective of a run that ends then: energy, J, or EDP, J s.

        Args:
            extra_j: energy beyond idle power.
            end_s: when its last job ends.
        """
        makespan_s = end_s - self._instance.start_s
        energy_j = self._instance.idle_w * makespan_s + extra_j
        return energy_j * makespan_s if self._is_edp else energy_j

    def __call__(
        self,
        now_s: float,
        nodes: Sequence[NodeState],
        waiting: Counts,
        coming: Instant,
        extra_j: float,
    ) -> float:
        """Return what no schedule goes below that starts no more jobs before `now_s`.

        Args:
            now_s: when.
            nodes: their states.
            waiting: jobs that wait.
            coming: the next submissions.
            extra_j: energy beyond idle power, past and future, if no more jobs were started.
        """
        soonest_s, priced_j = now_s, extra_j
        for node, its in zip(nodes, self._prices, strict=True):
            if node.shares:
                soonest_s = max(soonest_s, node.last_end_s)
                priced_j += _worth_j(node, its, now_s) - node.extra_j(now_s)
        wanted: list[tuple[int, list[Option]]] = []
        ends_s: list[float] = []
        for kind, able in enumerate(self._able):
            count = waiting[kind] + coming.to_come[kind]
            if not count:
                continue
            from_s = now_s if waiting[kind] else coming.next_s[kind]
            options = [self._option(node, nodes[node], kind, from_s) for node in able]
            its_ends_s = sorted(_ends_s(options, count))
            last_s = coming.last_s[kind] + self._shortest_s[kind]
            soonest_s = max(soonest_s, last_s, its_ends_s[count - 1])
            ends_s += its_ends_s
            wanted.append((count, options))
        return self._over_makespans(wanted, soonest_s, ends_s, extra_j, priced_j)

    def _over_makespans(
        self,
        wanted: list[tuple[int, list[Option]]],
        soonest_s: float,
        ends_s: list[float],
        extra_j: float,
        priced_j: float,
    ) -> float:
        """Return the least over the times at which the run can end, where anything changes."""
        least = math.inf
        cheapest_j = priced_j + sum(count * options[0].job_j for count, options in wanted)
        for end_s in (soonest_s, *sorted(end_s for end_s in ends_s if end_s > soonest_s)):
            if self.value(max(cheapest_j, extra_j), end_s) >= least:
                break
            cost_j = priced_j + sum(_cost_j(*of_kind, end_s) for of_kind in wanted)
            least = min(least, self.value(max(cost_j, extra_j), end_s))
        return least

    def _cheapest_first(self, kind: int) -> list[int]:
        """Return the nodes on which jobs of a kind fit, in the order in which they are filled."""
        able = [node for node, its in enumerate(self._prices) if kind in its]
        return sorted(able, key=lambda node: self._prices[node][kind].job_j)

    def _option(self, node: int, state: NodeState, kind: int, from_s: float) -> Option:
        _, job_j, each_s = self._prices[node][kind]
        cores = self._instance.kinds[kind].cores
        while state.free < cores or state.next_end_s <= from_s:
            from_s, state = max(from_s, state.next_end_s), state.after()
        key = (state, kind, from_s)
        if key not in self._ends_s:
            self._ends_s[key] = _end_beside(state, kind, from_s)
        return Option(job_j, from_s, self._ends_s[key], each_s)


def _worth_j(state: NodeState, its: dict[int, Price], now_s: float) -> float:
    """Return what is left to do of what runs, at its prices."""
    return sum(
        its[share.kind].work_w * (share.left_s - share.speed * (now_s - share.since_s))
        for share in state.shares
    )


def _ends_s(options: list[Option], count: int) -> Iterator[float]:
    """Yield when each of so many jobs, all on one node, can have ended, for every node."""
    for option in options:
        for jobs in range(1, count + 1):
            yield max(option.first_end_s, option.from_s + jobs * option.each_s)


def _cost_j(count: int, options: list[Option], end_s: float) -> float:
    """Return what jobs of a kind cost, on the cheapest nodes that can have ended them by then."""
    cost_j = 0.0
    for option in options:
        jobs = option.jobs_by(end_s, count)
        cost_j += jobs * option.job_j
        count -= jobs
        if not count:
            return cost_j
    return math.inf


def _end_beside(state: NodeState, kind: int, from_s: float) -> float:
    """Return when a job would end that is slowed by what runs, but does not slow it."""
    model, left_s = state.model, state.model.alone_s[kind]
    while True:
        running = [(share.kind, model.cores[share.kind]) for share in state.shares]
        speed = model.speeds([*running, (kind, model.cores[kind])])[-1]
        end_s = from_s + left_s / speed
        if end_s <= state.next_end_s:
            return end_s
        left_s -= speed * (state.next_end_s - from_s)
        from_s, state = state.next_end_s, state.after()
