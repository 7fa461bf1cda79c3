"""Lower bound of energy or EDP over all schedules that continue from a given state.

Energy is the idle power of all nodes over the makespan plus the energy above idle power of each
node while jobs run on it. The bound has three parts.

Prices (`prices`). The remaining work of running jobs and all jobs to start cost at least
their prices, although jobs share static power and slow each other down.

Time. The speed of a job falls with the number of tasks beside it and with their bandwidth. So a new
job never speeds up others: running jobs free their cores no sooner than without it. The new job
ends no sooner than if it did not slow the others down. And n jobs of a kind on one node take at
least n times their work divided by the largest rate of work of that kind on the node.

Both together. For every makespan that the time bounds allow, the jobs of a kind go to the nodes
where they are cheapest, with no more jobs on a node than can end there by then. The bound is the
minimum over all makespans.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from hpcosim_scenarios.errors import OptimumError
from hpcosim_scenarios.planning.instance import Counts, Instance, Instant, NodeModel, NodeState

# Prices: lower bounds of the energy of work on a node, independent of other jobs there.

MAX_MIXES = 100_000


class Price(NamedTuple):
    """Lower bounds for jobs of one kind on a node.

    Attributes:
        work_w: energy per second of work at full speed, J/s.
        job_j: energy of a whole job, J.
        each_s: time per job if the node runs as many at a time as is fastest, s.
    """

    work_w: float
    job_j: float
    each_s: float


def prices(model: NodeModel, most: Counts) -> dict[int, Price]:
    """Return the price of each kind that fits on a node, by kind."""
    mixes = [(mix, *_rates_and_power(model, mix)) for mix in _mixes(model, most)]
    able = [kind for kind, cores in enumerate(model.cores) if cores <= model.capacity]
    able.sort(key=lambda kind: -model.idle.start(kind, 0.0).extra_j(0.0))
    work_w = [0.0] * len(most)
    priced: set[int] = set()
    found: dict[int, Price] = {}
    for kind in able:
        priced.add(kind)
        prices_w = []
        for mix, rates, power_w in mixes:
            if mix[kind] and priced.issuperset(other for other, count in enumerate(mix) if count):
                rest_w = power_w - sum(map(float.__mul__, work_w, rates))
                prices_w.append(rest_w / rates[kind])
        work_w[kind] = min(prices_w)
        fastest = max(rates[kind] for _, rates, _ in mixes)
        alone_s = model.alone_s[kind]
        found[kind] = Price(work_w[kind], work_w[kind] * alone_s, alone_s / fastest)
    return found


def _mixes(model: NodeModel, most: Counts) -> Iterator[Counts]:
    """Yield every mix of at least one job that fits on a node."""
    counts = [
        range(min(count, model.capacity // cores) + 1)
        for count, cores in zip(most, model.cores, strict=True)
    ]
    if math.prod(map(len, counts)) > MAX_MIXES:
        what = f"at most {MAX_MIXES} combinations of jobs on a node"
        raise OptimumError(f"the search supports {what}; use fewer kinds of jobs")
    for mix in itertools.product(*counts):
        if 0 < _cores(model, mix) <= model.capacity:
            yield mix


def _rates_and_power(model: NodeModel, mix: Counts) -> tuple[list[float], float]:
    """Return the work of a mix per second, by kind, and its power above idle power, W."""
    running = [(kind, model.cores[kind]) for kind, count in enumerate(mix) for _ in range(count)]
    rates = [0.0] * len(mix)
    for (kind, _), speed in zip(running, model.speeds(running), strict=True):
        rates[kind] += speed
    return rates, model.extra_w[_cores(model, mix)]


def _cores(model: NodeModel, mix: Counts) -> int:
    return sum(count * cores for count, cores in zip(mix, model.cores, strict=True))


Objective = Literal["energy", "edp"]

ROUNDING = 1e-6  # added to a number of jobs before rounding down, so that the bound stays valid


class NodeOption(NamedTuple):
    """Lower bounds for the jobs of one kind on one node in its present state.

    Attributes:
        job_j: energy of each job above idle power, J.
        from_s: earliest start of the first job, s.
        first_end_s: earliest end of the first job, s.
        each_s: time per job, s; see `Price`.
    """

    job_j: float
    from_s: float
    first_end_s: float
    each_s: float

    def jobs_by(self, end_s: float, wanted: int) -> int:
        """Return the largest number of jobs, up to `wanted`, that can end by a time."""
        if end_s < self.first_end_s:
            return 0
        if end_s - self.from_s >= wanted * self.each_s:
            return wanted
        return int((end_s - self.from_s) / self.each_s + ROUNDING)


class LowerBound:
    """Lower bounds for one scenario and one objective.

    Raises:
        OptimumError: too many combinations of jobs fit on a node.
    """

    def __init__(self, instance: Instance, objective: Objective) -> None:
        self._instance = instance
        self._is_edp = objective == "edp"
        most = instance.instants[0].remaining
        of_model = {model: prices(model, most) for model in dict.fromkeys(instance.nodes)}
        self._prices = [of_model[model] for model in instance.nodes]
        self._able = [self._cheapest_first(kind) for kind in range(len(most))]
        self._shortest_s = [
            min(instance.nodes[node].idle.start(kind, 0.0).last_end_s for node in able)
            for kind, able in enumerate(self._able)
        ]
        self._ends_s: dict[tuple[NodeState, int, float], float] = {}

    def value(self, extra_j: float, end_s: float) -> float:
        """Return the objective of a run: energy, J, or EDP, J s."""
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
        """Return the lower bound over all schedules that start no more jobs before `now_s`."""
        soonest_s, priced_j = now_s, extra_j
        for node, its in zip(nodes, self._prices, strict=True):
            if node.jobs:
                soonest_s = max(soonest_s, node.last_end_s)
                priced_j += _remaining_j(node, its, now_s) - node.extra_j(now_s)
        wanted: list[tuple[int, list[NodeOption]]] = []
        ends_s: list[float] = []
        for kind, able in enumerate(self._able):
            count = waiting[kind] + coming.remaining[kind]
            if not count:
                continue
            from_s = now_s if waiting[kind] else coming.next_submit_s[kind]
            options = [self._option(node, nodes[node], kind, from_s) for node in able]
            its_ends_s = sorted(_ends_s(options, count))
            last_s = coming.last_submit_s[kind] + self._shortest_s[kind]
            soonest_s = max(soonest_s, last_s, its_ends_s[count - 1])
            ends_s += its_ends_s
            wanted.append((count, options))
        return self._over_makespans(wanted, soonest_s, ends_s, extra_j, priced_j)

    def _over_makespans(
        self,
        wanted: list[tuple[int, list[NodeOption]]],
        soonest_s: float,
        ends_s: list[float],
        extra_j: float,
        priced_j: float,
    ) -> float:
        """Return the minimum over the possible ends of the run at which the bound changes."""
        least = math.inf
        cheapest_j = priced_j + sum(count * options[0].job_j for count, options in wanted)
        for end_s in (soonest_s, *sorted(end_s for end_s in ends_s if end_s > soonest_s)):
            if self.value(max(cheapest_j, extra_j), end_s) >= least:
                break
            cost_j = priced_j + sum(_cost_j(*of_kind, end_s) for of_kind in wanted)
            least = min(least, self.value(max(cost_j, extra_j), end_s))
        return least

    def _cheapest_first(self, kind: int) -> list[int]:
        """Return the nodes on which jobs of a kind fit, the cheapest first."""
        able = [node for node, its in enumerate(self._prices) if kind in its]
        return sorted(able, key=lambda node: self._prices[node][kind].job_j)

    def _option(self, node: int, state: NodeState, kind: int, from_s: float) -> NodeOption:
        _, job_j, each_s = self._prices[node][kind]
        cores = self._instance.kinds[kind].cores
        while state.free < cores or state.next_end_s <= from_s:
            from_s, state = max(from_s, state.next_end_s), state.after()
        key = (state, kind, from_s)
        if key not in self._ends_s:
            self._ends_s[key] = _end_beside(state, kind, from_s)
        return NodeOption(job_j, from_s, self._ends_s[key], each_s)


def _remaining_j(state: NodeState, its: dict[int, Price], now_s: float) -> float:
    """Return the energy of the remaining work on a node at its prices, J."""
    return sum(
        its[job.kind].work_w * (job.remaining_s - job.speed * (now_s - job.updated_s))
        for job in state.jobs
    )


def _ends_s(options: list[NodeOption], count: int) -> Iterator[float]:
    """Yield the earliest end of each of `count` jobs on one node, for every node."""
    for option in options:
        for jobs in range(1, count + 1):
            yield max(option.first_end_s, option.from_s + jobs * option.each_s)


def _cost_j(count: int, options: list[NodeOption], end_s: float) -> float:
    """Return the energy of the jobs of a kind on the cheapest nodes that can end them by a time."""
    cost_j = 0.0
    for option in options:
        jobs = option.jobs_by(end_s, count)
        cost_j += jobs * option.job_j
        count -= jobs
        if not count:
            return cost_j
    return math.inf


def _end_beside(state: NodeState, kind: int, from_s: float) -> float:
    """Return the end of a job that running jobs slow down, but that does not slow them down."""
    model, remaining_s = state.model, state.model.alone_s[kind]
    while True:
        running = [(job.kind, model.cores[job.kind]) for job in state.jobs]
        speed = model.speeds([*running, (kind, model.cores[kind])])[-1]
        end_s = from_s + remaining_s / speed
        if end_s <= state.next_end_s:
            return end_s
        remaining_s -= speed * (state.next_end_s - from_s)
        from_s, state = state.next_end_s, state.after()


def lower_bound(instance: Instance, objective: Objective) -> float:
    """Return the lower bound of all schedules of an instance: energy in J, or EDP in J s."""
    idle = [node.idle for node in instance.nodes]
    nothing = (0,) * len(instance.kinds)
    bound = LowerBound(instance, objective)
    return bound(instance.start_s, idle, nothing, instance.instants[0], 0.0)
