"""Workloads and platforms of several benchmarks."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from hpcosim_client import Policy, play
from hpcosim_protocol import NodeGroup, Platform, Processor
from hpcosim_schedulers import make_policy
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.logs.catalogue import find_trace
from hpcosim_workloads.logs.swf import read_swf
from hpcosim_workloads.synthetic.lublin import lublin, poisson
from hpcosim_workloads.table import JobTable

SHARED_TRACES = Path(__file__).parents[2] / "shared" / "traces"


def equal_nodes(count: int, cores: int = 1) -> Platform:
    """Return a platform of equal nodes with a power of 190 W, idle or computing."""
    return Platform((NodeGroup(count, (Processor(cores, 1.0, 190.0, 0.0, 1.0),)),))


def trace(name: str) -> JobTable | None:
    """Return a job log of the catalogue, or None if it is not on this machine."""
    if SHARED_TRACES.is_dir():
        os.environ.setdefault("HPCOSIM_TRACES", str(SHARED_TRACES))
    try:
        return read_swf(find_trace(name))
    except WorkloadError:
        return None


def lublin_256(jobs: int) -> JobTable:
    """Return the catalogue's sample of the Lublin model; if it is missing, a new sample."""
    sample = trace("lublin-256")
    if sample is None:
        sample = lublin(np.random.default_rng(1), jobs=10_000, processors=256)
    return sample.take(slice(0, jobs))


def light(jobs: int) -> JobTable:
    """Return small jobs at a load with short queues."""
    rng = np.random.default_rng(1)
    return poisson(
        rng,
        jobs=jobs,
        mean_interarrival_s=60.0,
        cores=(1, 16),
        run_s=(60.0, 3600.0),
        overestimate=1.0,
    )


def site_jobs(count: int) -> list[dict[str, object]]:
    """Return jobs for `site.yaml`: of users with accounts, on cores, GPUs and much memory."""
    rng = np.random.default_rng(7)
    submit_s = rng.exponential(100.0, count).cumsum()
    accounts, jobs = ("physics", "chemistry", "biology", "students"), []
    for number in range(count):
        account = rng.choice(accounts, p=[0.4, 0.3, 0.2, 0.1])
        hours = rng.choice([0.5, 1, 2, 4, 8, 12, 24], p=[0.2, 0.2, 0.2, 0.15, 0.1, 0.1, 0.05])
        kind = rng.choice(["cpu", "gpu", "big", "debug"], p=[0.55, 0.3, 0.08, 0.07])
        job: dict[str, object] = {"cores": int(rng.choice([1, 2, 4, 8, 16, 32]))}
        if kind == "cpu" and rng.random() < 0.3:
            nodes = int(rng.choice([1, 2, 3, 4, 8]))
            job = {"cores": 32 * nodes, "nodes_min": nodes, "tasks_per_node": 32}
        elif kind == "gpu":
            gpus = int(rng.choice([1, 2, 4], p=[0.6, 0.25, 0.15]))
            name = str(rng.choice(["gpu", "gpu:a100", "gpu:h100"], p=[0.6, 0.28, 0.12]))
            job = {"cores": 8 * gpus, "gres_per_node": {name: gpus}, "nodes_max": 1}
            job["memory_per_node_mb"] = 32_000 * gpus
        elif kind == "big":
            job |= {"memory_per_node_mb": int(rng.choice([256_000, 800_000])), "nodes_max": 1}
        limit_s = 1800.0 if kind == "debug" else hours * 3600
        job |= {
            "job_id": number + 1,
            "submit_s": round(submit_s[number], 1),
            "run_s": round(max(5.0, limit_s * rng.beta(1.2, 1.8)), 1),
            "requested_s": limit_s,
            "user": f"{account[0]}{min(int(rng.geometric(0.4)) - 1, 3)}",
            "account": str(account),
            "qos": str(rng.choice(["normal", "high", "long"], p=[0.8, 0.1, 0.1])),
            "partition": str(kind),
        }
        jobs.append(job)
    return jobs


def simulate(platform: Platform, jobs: JobTable, scheduler: str | Policy) -> tuple[Simulation, int]:
    """Run a simulation in process to its end; return it and the number of batches."""
    simulation = Simulation(platform, jobs)
    batches = 0

    def ask(decisions, wake_on, elapsed_s):  # type: ignore[no-untyped-def]
        nonlocal batches
        batches += 1
        return simulation.advance(decisions, wake_on=wake_on, elapsed_s=elapsed_s)

    policy = make_policy(scheduler) if isinstance(scheduler, str) else scheduler
    play(policy, platform, ask)
    return simulation, batches
