"""Heterogeneous clusters: contention on and off, the 36 heuristics, growing numbers of nodes."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np

from benchmarks.cases import simulate
from hpcosim_protocol import Contention, NodeGroup, Platform, Processor
from hpcosim_scenarios.running.compare import compare_schedulers
from hpcosim_workloads.table import JobTable, job_table

CLOCKS_GHZ = (1.0, 2.0, 3.0, 4.0)
NODES = (16, 256, 4096)
MODEL = Contention(21_000.0, -1.85e-5, 1.0, 100.0, 25_000.0, 10.0)
OTHERS = ("first-high-mem-bw", "random-random", "minmin", "minmin-immediate")
EXP3 = Path(__file__).parents[1] / "scenarios" / "papers" / "ineps" / "exp3.yaml"


def run(smoke: bool) -> dict[str, float]:
    """Return the figures. The exponents are of wall time in the number of nodes, 16 to 4096."""
    jobs = 500 if smoke else 10_000
    figures = {
        "16 x 64 cores, contention off, jobs/s": jobs / _wall_s(16, _jobs(jobs, 64), None),
        "16 x 64 cores, contention on, jobs/s": jobs / _wall_s(16, _jobs(jobs, 64), MODEL),
        "16 x 64 cores, contention on, 1-core jobs, jobs/s": jobs
        / _wall_s(16, _jobs(jobs, 1), MODEL),
    }
    for scheduler in OTHERS:
        figures[f"16 x 64 cores, {scheduler}, jobs/s"] = jobs / _wall_s(
            16, _jobs(jobs, 64), None, scheduler
        )
    for name, model in (("off", None), ("on", MODEL)):
        wall_s = [_wall_s(nodes, _jobs(jobs, 64), model) for nodes in NODES]
        figures |= {
            f"{nodes} nodes, contention {name}, us/job": 1e6 * wall / jobs
            for nodes, wall in zip(NODES, wall_s, strict=True)
        }
        growth = math.log(wall_s[-1] / wall_s[0]) / math.log(NODES[-1] / NODES[0])
        figures[f"exponent in nodes, contention {name}"] = growth
    began_s = time.perf_counter()
    compare_schedulers(EXP3, ["first-low-power"] if smoke else ["all-heuristics"])
    figures["36 heuristics of Experiment 3, s"] = time.perf_counter() - began_s
    return figures


def _wall_s(
    nodes: int, jobs: JobTable, model: Contention | None, scheduler: str = "first-high-gflops"
) -> float:
    began_s = time.perf_counter()
    simulate(_cluster(nodes, model), jobs, scheduler)
    return time.perf_counter() - began_s


def _cluster(nodes: int, model: Contention | None) -> Platform:
    """Return the cluster of Stafford, Bosque 2024, table 1, with any number of nodes."""
    return Platform(
        tuple(
            NodeGroup(
                nodes // len(CLOCKS_GHZ),
                (_processor(clock_ghz, model),),
            )
            for clock_ghz in CLOCKS_GHZ
        )
    )


def _processor(clock_ghz: float, model: Contention | None) -> Processor:
    watts = (clock_ghz / 3.0) ** 2
    return Processor(64, clock_ghz, 35.108 * watts, 3.313 * watts, 0.3959, contention=model)


def _jobs(count: int, most_cores: int) -> JobTable:
    """Return jobs that keep 16 such nodes busy and exceed their memory bandwidth."""
    rng = np.random.default_rng(1)
    cores = rng.integers(1, most_cores + 1, count)
    run_s = rng.uniform(60.0, 7200.0, count)
    gap_s = 3600.0 * float(cores.mean()) / (1024 * 2.0)
    return job_table(
        job_id=range(count),
        submit_s=np.cumsum(rng.exponential(gap_s, count)),
        run_s=run_s,
        requested_s=1.5 * run_s,
        cores=cores,
        placement=1,
        ops=run_s * 1e9,
        memory_volume_mb=2000.0 * run_s,
    )
