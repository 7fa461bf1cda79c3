"""Prices: lower bounds of the energy of work on a node, independent of other jobs there.

Let w(c) be the power of a node above idle power while a mix c of jobs runs on it, and r_k(c) the
work of kind k, in seconds at full speed, done per second. Any prices p_k with

    sum over k of p_k r_k(c) <= w(c)    for every mix c that fits on the node

are a lower bound: at all times the node draws at least the sum of p_k times the rate of work of
kind k. The prices are set one kind after the other, starting with the kind that is most expensive
alone; each is as high as the earlier prices allow. A linear program for each state could find
higher prices. These are tight where it matters: an expensive job has the price of running alone,
and others have the price of their additional power beside it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

from hpcosim_scenarios.errors import OptimumError
from hpcosim_scenarios.planning.optimum.instance import Counts
from hpcosim_scenarios.planning.optimum.nodes import NodeModel

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
    """Return the price of each kind that fits on a node, by kind.

    Args:
        model: properties of the node.
        most: number of jobs of each kind.
    """
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
