"""Growth of the cost per job with the number of jobs and with the number of nodes."""

from __future__ import annotations

import math
import time

from benchmarks.cases import equal_nodes, light, simulate


def run(smoke: bool) -> dict[str, float]:
    """Return the cost in us/job and its exponents: 0 is constant, 1 is proportional."""
    by_jobs = (1000, 4000) if smoke else (10_000, 100_000, 1_000_000)
    by_nodes = (128, 1000) if smoke else (128, 1000, 10_000)
    figures: dict[str, float] = {}
    costs = [_cost_us(jobs, 128, 16) for jobs in by_jobs]
    figures |= {f"{n:,} jobs, us/job": us for n, us in zip(by_jobs, costs, strict=True)}
    figures["exponent in jobs"] = _exponent(by_jobs, costs)
    jobs = 1000 if smoke else 20_000
    costs = [_cost_us(jobs, nodes, 16) for nodes in by_nodes]
    figures |= {f"{n:,} nodes, us/job": us for n, us in zip(by_nodes, costs, strict=True)}
    figures["exponent in nodes"] = _exponent(by_nodes, costs)
    return figures


def _cost_us(jobs: int, nodes: int, cores: int) -> float:
    table, platform = light(jobs), equal_nodes(nodes, cores)
    repeats = 3 if jobs <= 100_000 else 1
    return min(_timed(platform, table) for _ in range(repeats)) / jobs * 1e6


def _timed(platform, table) -> float:  # type: ignore[no-untyped-def]
    began_s = time.perf_counter()
    simulate(platform, table, "fcfs")
    return time.perf_counter() - began_s


def _exponent(sizes: tuple[int, ...], costs: list[float]) -> float:
    """Return the slope of log(cost) over log(size) between the first and the last size."""
    return math.log(costs[-1] / costs[0]) / math.log(sizes[-1] / sizes[0])
