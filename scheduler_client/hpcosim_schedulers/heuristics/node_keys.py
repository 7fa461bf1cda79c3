"""Orders of the nodes: nodes in ascending order of a key, ties in the order of the platform.

A key takes the view and returns a float64[nodes]. Lopez, Stafford, Bosque 2025, table 2; Lopez
Rauhut 2023, table 4.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Floats, Ints, Job
from hpcosim_client.view import View

NodeKey = Callable[[View], Floats]


def high_gflops(view: View) -> Floats:
    """Fastest cores first."""
    return -view.nodes.ops_per_s


def high_cores(view: View) -> Floats:
    """Most idle cores first."""
    return -view.nodes.free.astype(np.float64)


def high_mem() -> NodeKey:
    """Most free memory first: the memory of the node minus the requests of its tasks."""
    used = NodeTotals(lambda job: job.memory_mb)
    return lambda view: used(view) - view.nodes.memory_mb


def high_mem_used() -> NodeKey:
    """Most used memory first, which the program of the papers calls `high_mem`."""
    used = NodeTotals(lambda job: job.memory_mb)
    return lambda view: -used(view)


def high_mem_bw() -> NodeKey:
    """Least requested memory bandwidth first.

    The bandwidth of a task is its memory volume divided by its requested time, which applies to the
    slowest node. A scheduler does not know the true run time.
    """
    requested = NodeTotals(_declared_mbps)
    return lambda view: requested(view) / run_time_scale(view)


def low_power(view: View) -> Floats:
    """Least power with all cores computing first: static + cores * dynamic."""
    return view.nodes.static_w + view.nodes.capacity * view.nodes.dynamic_w


def random(view: View) -> Floats:
    """Random order, new for each job."""
    return view.rng.random(len(view.nodes.free))


def none(view: View) -> Floats:
    """The order of the platform, which the program of the papers calls `random`."""
    return np.zeros(len(view.nodes.free))


def energy_estimates_j(
    view: View, requested_s: Floats | float, cores: Ints | int, jobs_on: Ints | int
) -> Floats:
    """Return the energy estimates of jobs on each node, in J.

    The formula is that of `hpcosim_protocol.energy_estimate_j` (Lopez, Stafford, Bosque 2025,
    equation 1).

    Args:
        view: the view, for its nodes.
        requested_s: requested time of a job in seconds, or float64[jobs, 1].
        cores: cores of the job, or int64[jobs, 1].
        jobs_on: number of jobs that run on each node, int64[nodes] or the same for all.

    Returns:
        float64[nodes], or float64[jobs, nodes].
    """
    nodes = view.nodes
    run_s = requested_s * run_time_scale(view)
    power_w = nodes.static_w / (jobs_on + 1.0) + cores * nodes.dynamic_w
    return np.asarray(run_s * power_w)


def affordable(view: View, jobs: Sequence[Job], jobs_on: Ints | int) -> NDArray[np.bool_]:
    """Return bool[nodes, jobs]: whether a job's energy estimate is within its `max_energy_j`.

    Args:
        view: the view, for its nodes.
        jobs: the jobs.
        jobs_on: number of jobs that run on each node, int64[nodes] or the same for all.
    """
    within = np.ones((len(view.nodes.free), len(jobs)), dtype=np.bool_)
    for row, job in enumerate(jobs):
        if job.max_energy_j < math.inf:
            estimates_j = energy_estimates_j(view, job.requested_s, job.cores, jobs_on)
            within[:, row] = estimates_j <= job.max_energy_j
    return within


class NodeTotals:
    """Sum of a quantity over the tasks on each node, updated at each call.

    Args:
        of_task: the quantity of each task of a job.
    """

    def __init__(self, of_task: Callable[[Job], float]) -> None:
        self._of_task = of_task
        self._counted: dict[int, tuple[Ints, Floats]] = {}  # by job: nodes, amount on each
        self._sum: Floats = np.zeros(0)

    def __call__(self, view: View) -> Floats:
        """Return the sums, float64[nodes]."""
        if not len(self._sum) or view.rejected:  # rejected jobs may have been placed elsewhere
            self._sum = np.zeros(len(view.nodes.free))
            self._counted.clear()
        for job_id in self._counted.keys() - view.running.keys():
            nodes, amount = self._counted.pop(job_id)
            self._sum[nodes] -= amount
            idle = nodes[view.nodes.jobs[nodes] == 0]
            self._sum[idle] = 0.0  # removes rounding errors
        for job_id in view.running.keys() - self._counted.keys():
            job = view.running[job_id]
            assert job.allocation is not None
            nodes = job.allocation.nodes
            added: Floats = np.asarray(job.allocation.tasks * self._of_task(job), dtype=np.float64)
            self._counted[job_id] = (nodes, added)
            self._sum[nodes] += added
        return self._sum


def run_time_scale(view: View) -> Floats:
    """Return the factor from requested to expected run time on each node, float64[nodes]."""
    return view.platform.slowest_ops_per_s / view.nodes.ops_per_s


def _declared_mbps(job: Job) -> float:
    return job.memory_volume_mb / job.requested_s if job.requested_s > 0.0 else 0.0


NODE_KEYS: Mapping[str, Callable[[], NodeKey]] = {
    "high-gflops": lambda: high_gflops,
    "high-cores": lambda: high_cores,
    "high-mem": high_mem,
    "high-mem-bw": high_mem_bw,
    "low-power": lambda: low_power,
    "random": lambda: random,
    "high-mem-used": high_mem_used,
    "none": lambda: none,
}
"""Factories of keys; a key may keep state for one simulation."""
