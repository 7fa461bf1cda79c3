"""The heuristics JOB-NODE: the first job of an ordered queue goes to the first of ordered nodes.

At every event the queue is ordered by the rule JOB. Its first job starts on the first node, by the
rule NODE, with enough free cores; then the next job, until one fits on no node (Lopez, Stafford,
Bosque 2025, section 4; Lopez Rauhut 2023, section 4.1).

JOB-NODE-one starts at most one job at each event. In the program of these papers the agent does so;
the heuristics do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from hpcosim_client.free_resources import fill, usable_nodes
from hpcosim_client.job import Allocation, Job
from hpcosim_client.view import Policy, View
from hpcosim_schedulers.heuristics import orders
from hpcosim_schedulers.heuristics.list_scheduling import Start, by_fixed_key, by_random_order
from hpcosim_schedulers.heuristics.node_keys import NODE_KEYS, NodeKey, energy_estimates_j

JOB_KEYS: Mapping[str, orders.Key] = {
    "first": lambda job: job.submit_s,
    "shortest": orders.sjf,
    "smallest": orders.smallest,
    "low-mem": lambda job: job.memory_mb,
    "low-mem-ops": lambda job: job.memory_volume_mb,
    "none": lambda _: 0.0,
}
"""Keys of the queue; `none` is the submission order."""

JOB_ORDERS = (*JOB_KEYS, "random")
"""Orders of the queue; `random` is a new order at every event."""


ONE = "-one"
"""Suffix of the name of a heuristic that starts at most one job at each event."""


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
        one_per_event: whether at most one job starts at each call.
        soonest_on: whether nodes that are on go first, then booting nodes, then sleeping nodes,
            each in the order of the rule.
    """
    ordered = by_random_order
    if job_order != "random":
        ordered = partial(by_fixed_key, JOB_KEYS[job_order])
    start = start_by(NODE_KEYS[node_order](), soonest_on=soonest_on)
    return _one_at_a_time(ordered, start) if one_per_event else ordered(start)


def _one_at_a_time(ordered: Callable[[Start], Policy], start: Start) -> Policy:
    """Return the policy that starts at most one job at each call.

    Jobs may wait although they fit; a running job then ends and causes the next call.
    """
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
