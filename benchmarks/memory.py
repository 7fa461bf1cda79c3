"""Memory of a simulation per job, beyond the columns of the workload."""

from __future__ import annotations

import tracemalloc

from benchmarks.cases import equal_nodes, light, lublin_256, simulate
from hpcosim_protocol import Platform
from hpcosim_workloads.table import JobTable


def run(smoke: bool) -> dict[str, float]:
    """Return the peak of the memory that Python and NumPy allocate during a run, bytes/job."""
    jobs = 2000 if smoke else 100_000
    return {
        f"{jobs:,} jobs of 4 cores on 16-core nodes, bytes/job": _peak(
            equal_nodes(128, 16), light(jobs)
        ),
        "lublin_256, 22 nodes per job, long queue, bytes/job": _peak(
            equal_nodes(256), lublin_256(1000 if smoke else 10_000)
        ),
    }


def _peak(platform: Platform, table: JobTable) -> float:
    simulate(platform, table.take(slice(0, 100)), "fcfs")  # loads all modules
    tracemalloc.start()
    try:
        simulation, _ = simulate(platform, table, "fcfs")
        assert simulation.recording.over == len(table)
        return tracemalloc.get_traced_memory()[1] / len(table)
    finally:
        tracemalloc.stop()
