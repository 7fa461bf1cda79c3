"""What work costs on a node at least, whatever runs beside it.

Let w(c) be the power of a node beyond idle power while the jobs of a mix c run on it, and r_k(c)
how many seconds' work, at full speed, is done in a second on those of kind k. Prices p_k with

    sum over k of p_k r_k(c) <= w(c)    for every mix c for which there are cores

give work a least cost: over any time the node draws at least p_k times the work of each kind that
is done on it. They are set kind by kind, the dearest alone first, each as high as those before it
allow. Higher prices there may be, by a linear programme for each state. But what decides is bounded
well: a job that is dear is priced as if it ran alone, others by what more they cost beside it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

from hpcosim_scenarios.errors import OptimumError
from hpcosim_scenarios.planning.optimum.instance import Counts
from hpcosim_scenarios.planning.optimum.nodes import NodeModel

MOST_MIXES = 100_000


class Price(NamedTuple):
    """What jobs of one kind cost and take on a node, at least.

    Attributes:
        work_w: of a second's work at full speed, J.
        job_j: of a whole job.
        each_s: time for each of several jobs, so many at a time as is fastest.
    """

    work_w: float
    job_j: float
    each_s: float


def prices(model: NodeModel, most: Counts) -> dict[int, Price]:
    """Return the prices on a node of the kinds that fit on it.

    Args:
        model: of the node.
        most: how many jobs of each kind there are.
    """
    mixes = [(mix, *_rates_and_power(model, mix)) for mix in _mixes(model, most)]
    able = [kind for kind, cores in enumerate(model.cores) if cores <= model.capacity]
    able.sort(key=lambda kind: -model.idle.start(kind, 0.0).extra_j(0.0))
    work_w = [0.0] * len(most)
    priced: set[int] = set()
    found: dict[int, Price] = {}
    for kind in able:
        priced.add(kind)
        work_w[kind] = min(
            (power_w - sum(map(float.__mul__, work_w, rates))) / rates[kind]
            for mix, rates, power_w in mixes
            if mix[kind] and priced.issuperset(other for other, count in enumerate(mix) if count)
        )
        fastest = max(rates[kind] for _, rates, _ in mixes)
        alone_s = model.alone_s[kind]
        found[kind] = Price(work_w[kind], work_w[kind] * alone_s, alone_s / fastest)
    return found


def _mixes(model: NodeModel, most: Counts) -> Iterator[Counts]:
    """Yield every mix of jobs, at least one, for which a node has cores."""
    counts = [
        range(min(count, model.capacity // cores) + 1)
        for count, cores in zip(most, model.cores, strict=True)
    ]
    if math.prod(map(len, counts)) > MOST_MIXES:
        raise OptimumError("the optimum is sought for jobs of few kinds; here are too many")
    for mix in itertools.product(*counts):
        if 0 < _cores(model, mix) <= model.capacity:
            yield mix


def _rates_and_power(model: NodeModel, mix: Counts) -> tuple[list[float], float]:
    """Return the work a mix does in a second, by kind, and its power beyond idle power, W."""
    running = [(kind, model.cores[kind]) for kind, count in enumerate(mix) for _ in range(count)]
    rates = [0.0] * len(mix)
    for (kind, _), speed in zip(running, model.speeds(running), strict=True):
        rates[kind] += speed
    return rates, model.extra_w[_cores(model, mix)]


def _cores(model: NodeModel, mix: Counts) -> int:
    return sum(count * cores for count, cores in zip(mix, model.cores, strict=True))
