"""The compiled engine beside the reference, in one run."""

from __future__ import annotations

import time

from benchmarks.cases import equal_nodes, lublin_256, simulate, trace
from hpcosim_sim.engine.engine import Rules
from hpcosim_workloads.table import JobTable

CASES = (("sdsc-sp2", 128), ("llnl-thunder", 4008))


def run(smoke: bool) -> dict[str, float]:
    """Return CPU time of the reference / that of the compiled engine, records included."""
    try:
        from hpcosim_compiled.simulation import CompiledSimulation
    except ImportError:
        return {}
    began_s = time.process_time()
    few = lublin_256(100)
    CompiledSimulation(equal_nodes(256), few, Rules(), "fcfs").prepare()
    figures = {"preparation (32 to 40 s if not in the cache), s": time.process_time() - began_s}
    jobs = lublin_256(500 if smoke else 10_000)
    for scheduler in ("fcfs", "easy", "easy-wfp3"):
        figures |= _ratios("lublin_256", jobs, 256, scheduler)
    figures |= _ratios("lublin_256", jobs.take(slice(0, 3000)), 256, "conservative")
    for name, nodes in () if smoke else CASES:
        log = trace(name)
        if log is not None:
            figures |= _ratios(name, log, nodes, "easy")
            figures |= _ratios(name, log.take(slice(0, 5000)), nodes, "conservative")
    return figures


def _ratios(name: str, jobs: JobTable, nodes: int, scheduler: str) -> dict[str, float]:
    from hpcosim_compiled.simulation import CompiledSimulation

    def compiled() -> None:
        simulation = CompiledSimulation(equal_nodes(nodes), jobs, Rules(), scheduler)
        while simulation.advance():
            pass
        simulation.record()

    def reference() -> None:
        simulate(equal_nodes(nodes), jobs, scheduler)[0].record()

    taken_s = []
    for simulation, times in ((compiled, 5), (reference, 1)):
        best_s = float("inf")
        for _ in range(times):
            began_s = time.process_time()
            simulation()
            best_s = min(best_s, time.process_time() - began_s)
        taken_s.append(best_s)
    what = f"{name} {scheduler}, {len(jobs)} jobs"
    return {
        f"{what}: reference / compiled": taken_s[1] / taken_s[0],
        f"{what}: jobs/s": len(jobs) / taken_s[0],
    }
