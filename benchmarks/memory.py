"""Memory of a simulation, in bytes a job beyond the workload's own columns."""

from __future__ import annotations

import multiprocessing
import resource
from multiprocessing.connection import Connection

from benchmarks.cases import equal_nodes, light, lublin_256, simulate


def run(smoke: bool) -> dict[str, float]:
    """Return the growth of the process' peak memory over a run, by job."""
    jobs = 2000 if smoke else 200_000
    return {
        f"{jobs:,} small jobs, bytes/job": _in_child("light", jobs),
        "lublin_256 (22 nodes a job), bytes/job": _in_child("lublin", 10_000),
    }


def _in_child(kind: str, jobs: int) -> float:
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.Process(target=_grown, args=(kind, jobs, theirs))
    child.start()
    bytes_a_job: float = ours.recv()
    child.join()
    return bytes_a_job


def _grown(kind: str, jobs: int, pipe: Connection) -> None:
    table = light(jobs) if kind == "light" else lublin_256(jobs)
    platform = equal_nodes(128, 16) if kind == "light" else equal_nodes(256)
    simulate(platform, table.take(slice(0, 100)), "fcfs")  # what is loaded on the way is no job's
    before = _peak_bytes()
    simulate(platform, table, "fcfs")
    pipe.send((_peak_bytes() - before) / len(table))


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
