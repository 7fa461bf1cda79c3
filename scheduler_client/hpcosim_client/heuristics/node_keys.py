"""Orders of the nodes: the node with the smallest key goes first, ties in the platform's order.

Each takes the view and returns a float64[nodes]. Lopez, Stafford, Bosque 2025, table 2; Lopez
Rauhut 2023, table 4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from hpcosim_client.job import Floats, Job
from hpcosim_client.view import View

NodeKey = Callable[[View], Floats]


def high_gflops(view: View) -> Floats:
    """Fastest cores first."""
    return -view.nodes.ops_per_s


def high_cores(view: View) -> Floats:
    """Most idle cores first."""
    return -view.nodes.free.astype(np.float64)


def high_mem(view: View) -> Floats:
    """Most free memory first; a node's memory less what its tasks asked for."""
    return _memory_used(view) - view.nodes.memory_mb


def high_mem_used(view: View) -> Floats:
    """Most memory in use first: what the papers' program does under the name of `high_mem`."""
    return -_memory_used(view)


def high_mem_bw(view: View) -> Floats:
    """Least memory bandwidth asked for first.

    What a task asks for is its memory volume over its requested time, which holds on the
    slowest node; the true run time is not a scheduler's to know.
    """
    speed = view.nodes.ops_per_s / view.platform.slowest_ops_per_s
    return _sum_over_tasks(view, _declared_mbps) * speed


def low_power(view: View) -> Floats:
    """Least power with all cores computing first: static + cores * dynamic."""
    return view.nodes.static_w + view.nodes.capacity * view.nodes.dynamic_w


def random(view: View) -> Floats:
    """Any node, drawn anew for each job."""
    return view.rng.random(len(view.nodes.free))


def none(view: View) -> Floats:
    """Keep the platform's order: what the papers' program does under the name of `random`."""
    return np.zeros(len(view.nodes.free))


def jobs_by_node(view: View) -> Floats:
    """Return how many jobs run on each node."""
    jobs = np.zeros(len(view.nodes.free))
    for job in view.running.values():
        if job.place is not None:
            jobs[job.place.nodes] += 1.0
    return jobs


def energy_estimates_j(view: View, job: Job, jobs_on: Floats) -> Floats:
    """Return what the job is expected to cost on each node, J.

    Lopez, Stafford, Bosque 2025, equation 1; see `hpcosim_protocol.Platform.energy_estimate_j`.

    Args:
        view: for its nodes.
        job: it.
        jobs_on: float64[nodes], how many jobs run on each; see `jobs_by_node`.
    """
    nodes = view.nodes
    run_s = job.requested_s * (view.platform.slowest_ops_per_s / nodes.ops_per_s)
    power_w = nodes.static_w / (jobs_on + 1.0) + job.cores * nodes.dynamic_w
    return np.asarray(run_s * power_w)


def _memory_used(view: View) -> Floats:
    return _sum_over_tasks(view, lambda job: job.memory_mb)


def _declared_mbps(job: Job) -> float:
    return job.memory_volume_mb / job.requested_s if job.requested_s > 0.0 else 0.0


def _sum_over_tasks(view: View, of_task: Callable[[Job], float]) -> Floats:
    total = np.zeros(len(view.nodes.free))
    for job in view.running.values():
        if job.place is not None:
            total[job.place.nodes] += job.place.tasks * of_task(job)
    return total


NODE_KEYS: Mapping[str, NodeKey] = {
    key.__name__: key
    for key in (
        high_gflops,
        high_cores,
        high_mem,
        high_mem_bw,
        low_power,
        random,
        high_mem_used,
        none,
    )
}
