"""The heuristics JOB-NODE: the first job of an ordered queue goes to the first of ordered nodes.

At every event the queue is ordered by the rule JOB. Its first job starts on the first node, by the
rule NODE, with enough free cores; then the next job, until one fits on no node (Lopez, Stafford,
Bosque 2025, section 4; Lopez Rauhut 2023, section 4.1).

JOB-NODE-one starts at most one job at each event. In the program of these papers the agent does so;
the heuristics do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.errors import PolicyError
from hpcosim_client.free_resources import fill, usable_nodes
from hpcosim_client.job import Allocation, Floats, Ints, Job
from hpcosim_client.view import Policy, View
from hpcosim_schedulers.heuristics import list_scheduling
from hpcosim_schedulers.heuristics.list_scheduling import Start, by_fixed_key, by_random_order

NodeKey = Callable[[View], Floats]


JOB_KEYS: Mapping[str, list_scheduling.Key] = {
    "first": lambda job: job.submit_s,
    "shortest": list_scheduling.sjf,
    "smallest": list_scheduling.smallest,
    "low-mem": lambda job: job.memory_mb,
    "low-mem-ops": lambda job: job.memory_volume_mb,
    "none": lambda _: 0.0,
}
"""Keys of the queue; `none` is the submission order."""

JOB_ORDERS = (*JOB_KEYS, "random")
"""Orders of the queue; `random` is a new order at every event."""


ONE = "-one"
"""Suffix of the name of a heuristic that starts at most one job at each event."""


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
    """Return bool[nodes, jobs]: whether a job's energy estimate is within its `max_energy_j`."""
    within = np.ones((len(view.nodes.free), len(jobs)), dtype=np.bool_)
    for row, job in enumerate(jobs):
        if job.max_energy_j < math.inf:
            estimates_j = energy_estimates_j(view, job.requested_s, job.cores, jobs_on)
            within[:, row] = estimates_j <= job.max_energy_j
    return within


class NodeTotals:
    """Sum of a quantity over the tasks on each node, updated at each call."""

    def __init__(self, of_task: Callable[[Job], float]) -> None:
        self._of_task = of_task
        self._counted: dict[int, tuple[Ints, Floats]] = {}  # by job: nodes, amount on each
        self._sum: Floats = np.zeros(0)

    def __call__(self, view: View) -> Floats:
        """Return the sums, float64[nodes]."""
        if not len(self._sum) or view.rejected:  # rejected jobs may have been placed elsewhere
            self._sum = np.zeros(len(view.nodes.free))
            self._counted.clear()
        for job_id in [each for each in self._counted if each not in view.running]:
            nodes, amount = self._counted.pop(job_id)
            self._sum[nodes] -= amount
            idle = nodes[view.nodes.jobs[nodes] == 0]
            self._sum[idle] = 0.0  # removes rounding errors
        for job_id, job in view.running.items():
            if job_id in self._counted:
                continue
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


def check_one_node_jobs(view: View, who: str) -> None:
    """Check that each job that arrived can run on cores of one node.

    Args:
        who: subject and verb of the message, such as `a pairing agent places`.

    Raises:
        PolicyError: a job requests whole nodes, or more cores than the largest node has.
    """
    widest = view.nodes.largest
    for job in view.arrived:
        if job.demand is not None and not view.nodes.suits(job).any():
            raise PolicyError(
                f"job {job.job_id} fits on no single node with what it requests; {who} each job on "
                "cores of one node"
            )
        if job.placement == "whole_nodes" or job.cores > widest:
            raise PolicyError(
                f"job {job.job_id} requests {job.cores} cores with placement {job.placement}; "
                f"{who} each job on cores of one node, which has at most {widest}"
            )


class JobNode(NamedTuple):
    """The parts of a name JOB-NODE or JOB-NODE-one; see `job_node`."""

    job_order: str
    node_order: str
    one_per_event: bool


_BY_NAME = {
    f"{job_order}-{node_order}{end}": JobNode(job_order, node_order, bool(end))
    for end in ("", ONE)
    for job_order in JOB_ORDERS
    for node_order in NODE_KEYS
}


def parse_job_node(name: str) -> JobNode | None:
    """Return the parts of a heuristic's name; None: another name."""
    return _BY_NAME.get(name)


def job_node_names() -> Iterator[str]:
    """Yield the names of all these heuristics."""
    yield from _BY_NAME


def job_node(
    job_order: str, node_order: str, one_per_event: bool = False, *, soonest_on: bool = False
) -> Policy:
    """Return a policy by the names of its two orders.

    Args:
        job_order: a name of `JOB_ORDERS`.
        node_order: a name of `NODE_KEYS`.
        soonest_on: whether nodes that are on go first, then booting nodes, then sleeping nodes,
            each in the order of the rule.
    """
    ordered = by_random_order
    if job_order != "random":
        ordered = partial(by_fixed_key, JOB_KEYS[job_order])
    start = start_by(NODE_KEYS[node_order](), soonest_on=soonest_on)
    return _one_at_a_time(ordered, start) if one_per_event else ordered(start)


def _one_at_a_time(ordered: Callable[[Start], Policy], start: Start) -> Policy:
    """Return the policy that starts at most one job at each call."""
    has_started = False

    def start_first(view: View, job: Job) -> bool:
        nonlocal has_started
        if has_started:
            return False
        has_started = start(view, job)
        return has_started

    policy = ordered(start_first)

    def decide(view: View) -> None:
        nonlocal has_started
        has_started = False
        policy(view)

    return decide


def start_by(node_key: NodeKey, *, soonest_on: bool = False) -> Start:
    """Return the function that starts a job on the first nodes by a key that permit it.

    A job larger than every node takes several nodes in that order, unless its placement is
    `one_node`. Nodes on which the energy estimate of a job on one node exceeds its `max_energy_j`
    are excluded.
    """

    def start(view: View, job: Job) -> bool:
        allocation = _find(view, job, node_key, soonest_on=soonest_on)
        return allocation is not None and view.start_at(job, allocation)

    return start


def _find(view: View, job: Job, node_key: NodeKey, *, soonest_on: bool) -> Allocation | None:
    nodes = view.nodes
    if job.cores > nodes.free_cores:
        return None
    free = nodes.free
    if job.demand is None:
        candidates = usable_nodes(job, free, nodes.capacity)
        fits_a_node = job.cores <= nodes.largest
    else:
        free = nodes.offered(job)
        candidates, fits_a_node = free.nonzero()[0], bool(nodes.suits(job).any())
    if fits_a_node:
        candidates = candidates[free[candidates] >= job.cores]
    if job.max_energy_j < math.inf and fits_a_node:
        estimates_j = energy_estimates_j(view, job.requested_s, job.cores, nodes.jobs)
        candidates = candidates[estimates_j[candidates] <= job.max_energy_j]
    if not len(candidates):
        return None
    keys = node_key(view)[candidates]
    if job.demand is not None:
        ordered = candidates[keys.argsort(kind="stable")]
        return nodes.place(job, nodes.soonest_first(ordered) if soonest_on else ordered)
    if soonest_on:
        return fill(job, nodes.soonest_first(candidates[keys.argsort(kind="stable")]), nodes.free)
    if job.cores <= nodes.free[first := candidates[keys.argmin()]]:
        return fill(job, first.reshape(1), nodes.free)
    return fill(job, candidates[keys.argsort(kind="stable")], nodes.free)
