"""Speed-up and overhead of worker processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from benchmarks.cases import equal_nodes, lublin_256, simulate
from hpcosim_experiments.executors import Executor, InputFiles, Local, open_executor


def run(smoke: bool) -> dict[str, float]:
    """Return the speed-up of 2 workers over 1 with simulations, and the time of an empty task."""
    runs, jobs = (4, 200) if smoke else (32, 2000)
    few, many = (50, 100) if smoke else (1000, 10_000)
    simulated = partial(_makespan_s, jobs)
    with open_executor(Local(workers=1)) as one, open_executor(Local(workers=2)) as two:
        one_s, two_s = (_wall_s(executor, simulated, runs) for executor in (one, two))
        few_s, many_s = (_wall_s(two, _empty, count) / count for count in (few, many))
    return {
        f"{runs} runs of {jobs:,} jobs, speed-up of 2 workers over 1": one_s / two_s,
        f"empty task of {many:,}, us": 1e6 * many_s,
        f"empty task of {many:,} / of {few:,}": many_s / few_s,
    }


def _wall_s(
    executor: Executor, function: Callable[[int, InputFiles], float | None], tasks: int
) -> float:
    list(executor.run(function, range(executor.workers)))  # starts workers, loads modules
    began_s = time.perf_counter()
    assert not any(done.error for done in executor.run(function, range(tasks)))
    return time.perf_counter() - began_s


def _makespan_s(jobs: int, _: int, __: InputFiles) -> float:
    simulation, _batches = simulate(equal_nodes(256), lublin_256(jobs), "easy")
    return float(simulation.clock.now)


def _empty(_: int, __: InputFiles) -> None:
    pass
