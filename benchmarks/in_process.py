"""Jobs/s in one process, with energy and recording."""

from __future__ import annotations

import time

import simpy

from benchmarks.cases import equal_nodes, lublin_256, simulate, trace


def bare_simpy_s(events: int) -> float:
    """Return the wall time of SimPy timeouts with empty callbacks: a lower bound."""
    began_s = time.perf_counter()
    env = simpy.Environment()
    for at_s in range(events):
        env.timeout(at_s).callbacks.append(_nothing)
    env.run()
    return time.perf_counter() - began_s


def run(smoke: bool) -> dict[str, float]:
    """Return the figures. `x_of_bare_simpy`: wall time / that of two SimPy timeouts per job."""
    jobs = lublin_256(1000 if smoke else 10_000)
    wall_s = min(_timed("fcfs", jobs, 256) for _ in range(2 if smoke else 5))
    figures = {
        "lublin_256 fcfs, jobs/s": len(jobs) / wall_s,
        "lublin_256 fcfs, x_of_bare_simpy": wall_s / bare_simpy_s(2 * len(jobs)),
    }
    if smoke:
        return figures
    for name, nodes, scheduler in (("nasa-ipsc", 128, "fcfs"), ("sdsc-sp2", 128, "easy")):
        log = trace(name)
        if log is not None:
            figures[f"{name} {scheduler}, s"] = _timed(scheduler, log, nodes)
    return figures


def _timed(scheduler: str, jobs, nodes: int) -> float:  # type: ignore[no-untyped-def]
    began_s = time.perf_counter()
    simulate(equal_nodes(nodes), jobs, scheduler)
    return time.perf_counter() - began_s


def _nothing(_: simpy.Event) -> None:
    pass
