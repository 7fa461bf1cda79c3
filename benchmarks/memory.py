"""Memory of a simulation, in bytes a job beyond the workload's own columns."""

from __future__ import annotations

import tracemalloc

from benchmarks.cases import equal_nodes, light, lublin_256, simulate
from hpcosim_protocol import Platform
from hpcosim_workloads.table import JobTable


def run(smoke: bool) -> dict[str, float]:
    """Return the peak of all memory Python and NumPy took during a run, by job."""
    jobs = 2000 if smoke else 100_000
    return {
        f"{jobs:,} jobs of 4 cores on 16-core nodes, bytes/job": _taken(
            equal_nodes(128, 16), light(jobs)
        ),
        "lublin_256, 22 nodes a job, long queue, bytes/job": _taken(
            equal_nodes(256), lublin_256(1000 if smoke else 10_000)
        ),
    }


def _taken(platform: Platform, table: JobTable) -> float:
    simulate(platform, table.take(slice(0, 100)), "fcfs")  # what is loaded on the way is no job's
    tracemalloc.start()
    try:
        kept, _ = simulate(platform, table, "fcfs")
        assert kept.recording.over == len(table)
        return tracemalloc.get_traced_memory()[1] / len(table)
    finally:
        tracemalloc.stop()
