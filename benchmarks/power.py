"""Power managers and power awareness, compared with nodes that are always on; environments."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from functools import partial

import numpy as np

from benchmarks.cases import simulate
from hpcosim_papers.power.environments.node_power import NodePowerEnv
from hpcosim_papers.power.environments.power_task import PowerTask
from hpcosim_papers.power.environments.power_vector import NodePowerVectorEnv
from hpcosim_protocol import NodeGroup, Platform, PowerStates, Processor
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.catalogue.power import with_power
from hpcosim_schedulers.power.settings import AlwaysOn, Awareness, Power, Slurm, Timeout
from hpcosim_workloads.synthetic.lublin import poisson
from hpcosim_workloads.table import JobTable

STATES = PowerStates(9.0, 2700.0, 190.0, 1800.0, 9.0)
NODES = (128, 4096)
MANAGERS: Mapping[str, tuple[Power, Awareness]] = {
    "timeout, unaware": (Timeout(900.0), "unaware"),
    "timeout, aware": (Timeout(900.0), "aware"),
    "timeout, planned": (Timeout(900.0), "planned"),
    "slurm, aware": (Slurm(900.0), "aware"),
}
ENVIRONMENTS: tuple[tuple[str, Awareness], ...] = (("fcfs", "unaware"), ("easy", "aware"))


def run(smoke: bool) -> dict[str, float]:
    """Return the figures. Ratios: wall time / wall time of EASY with all nodes on."""
    jobs = _jobs(500 if smoke else 10_000)
    always_s = _wall_s(128, jobs, AlwaysOn(), "unaware")
    figures = {"easy, always on, jobs/s": len(jobs) / always_s}
    for name, (power, awareness) in MANAGERS.items():
        figures[f"easy, {name} / always on"] = _wall_s(128, jobs, power, awareness) / always_s
    wall_s = [_wall_s(nodes, jobs, Timeout(900.0), "unaware") for nodes in NODES]
    growth = math.log(wall_s[-1] / wall_s[0]) / math.log(NODES[-1] / NODES[0])
    figures |= {"exponent in nodes, timeout, unaware": growth}
    for scheduler, awareness in ENVIRONMENTS:
        for count in (8, 32 if smoke else 256):
            rate = _vector_ratio(jobs, scheduler, awareness, count, 5 if smoke else 100)
            figures[f"environment, {scheduler}, {awareness}, {count} in a vector / single"] = rate
    return figures


def _vector_ratio(
    jobs: JobTable, scheduler: str, awareness: Awareness, count: int, steps: int
) -> float:
    """Return the steps/s of a vector / those of one environment, per CPU time."""
    task = PowerTask(_platform(128), partial(make_policy, scheduler, awareness))
    envs, alone = (
        NodePowerVectorEnv(count, task=task, jobs=jobs),
        NodePowerEnv(task=task, jobs=jobs),
    )
    rng, one_s, many_s = np.random.default_rng(0), 0.0, 0.0
    envs.reset()
    alone.reset()
    for _ in range(steps):
        actions = (rng.random((count, 128)) < 0.7).astype(np.int8)
        began_s = time.process_time()
        envs.step(actions)
        many_s += time.process_time() - began_s
        began_s = time.process_time()
        alone.step(actions[0])
        one_s += time.process_time() - began_s
    return count * one_s / many_s


def _platform(nodes: int) -> Platform:
    processor = Processor(1, 1.0, 190.0, 0.0, 1.0)
    return Platform((NodeGroup(nodes, (processor,), power_states=STATES),))


def _wall_s(nodes: int, jobs: JobTable, power: Power, awareness: Awareness) -> float:
    policy = with_power("easy", power, awareness)
    began_s = time.perf_counter()
    simulate(_platform(nodes), jobs, policy)
    return time.perf_counter() - began_s


def _jobs(count: int) -> JobTable:
    """Return jobs at an offered load of about one third on 128 nodes."""
    return poisson(
        np.random.default_rng(1),
        jobs=count,
        mean_interarrival_s=400.0,
        cores=(1, 64),
        run_s=(60.0, 7200.0),
        overestimate=2.0,
    )
